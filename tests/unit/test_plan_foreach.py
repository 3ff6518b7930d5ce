"""The subgraphs that ForEach enters, and laws that every planned graph keeps."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from planning import error_of, for_each, node

from hami.errors import ConfigError
from hami.plan import Plan, plan

Write = Callable[..., str]


def names(checked: Plan) -> list[str]:
    return [planned.name for planned in checked.nodes]


# --- ForEach ------------------------------------------------------------------------------------------------


def test_a_subgraph_is_a_region_of_its_own() -> None:
    source = {"a": for_each("x", "z"), "x": node("y"), "y": node(), "z": node()}
    checked = plan(source)

    assert names(checked) == ["a", "z", "x", "y"]
    assert [planned.region for planned in checked.nodes] == [0, 0, 1, 1]
    assert [(region.roots, region.output) for region in checked.regions] == [((0,), 1), ((2,), 3)]
    assert checked.nodes[0].target == 2
    assert checked.to_core()["nodes"][0]["foreach_target"] == 2


def test_subgraphs_nest() -> None:
    source = {"a": for_each("b"), "b": for_each("c", "d"), "c": node(), "d": node()}
    checked = plan(source)

    assert [planned.region for planned in checked.nodes] == [0, 1, 1, 2]


def test_two_for_each_may_enter_the_same_target() -> None:
    checked = plan({"a": for_each("x", "b"), "b": for_each("x"), "x": node()})

    assert len(checked.regions) == 2
    assert [planned.target for planned in checked.nodes] == [2, 2, None]


def test_a_target_from_the_nodes_parameters_is_found() -> None:
    assert plan({"a": node(backend="ForEach", target="x"), "x": node()}).nodes[0].target == 1


def test_an_unknown_target_is_refused_with_the_nearest_name(write: Write) -> None:
    error = error_of(write('[a]\nbackend = "ForEach(target=trun)"\n[turn]\nbackend = "Pow"\n'))

    assert (error.code, error.where) == ("plan-unknown-target", "pipeline.toml:2")
    assert error.help == "did you mean `turn`?"


@pytest.mark.parametrize(
    "source",
    [
        {"a": for_each("a")},
        {"a": node("b"), "b": for_each("a")},
        {"a": for_each("b"), "b": for_each("a")},
        {"m": for_each("a"), "a": for_each("b"), "b": node("c"), "c": for_each("a")},
    ],
)
def test_for_each_cannot_enter_where_it_is(source: dict[str, Any]) -> None:
    assert error_of(source).code == "plan-foreach-cycle"


def test_a_node_cannot_lead_into_a_subgraph() -> None:
    error = error_of({"a": for_each("x", "b"), "b": node("y"), "x": node("y"), "y": node()})

    assert error.code == "plan-enters-subgraph"
    assert "`b`" in error.message
    assert "`y`" in error.message


def test_two_subgraphs_cannot_share_a_node() -> None:
    source = {"a": for_each("x", "b"), "b": for_each("y"), "x": node("z"), "y": node("z"), "z": node()}

    assert error_of(source).code in ("plan-shared-subgraph", "plan-enters-subgraph")


def test_a_subgraph_ends_at_one_node() -> None:
    error = error_of({"a": for_each("x"), "x": node("y,z"), "y": node(), "z": node()})

    assert error.code == "plan-several-outputs"
    assert "the subgraph of a ForEach ends at several nodes: `y`, `z`" in error.message


def test_a_map_cannot_reach_out_of_its_subgraph() -> None:
    source = {"a": node("f"), "f": for_each("x"), "x": node("y"), "y": node(map="x[result:v],a[result:w]")}

    assert error_of(source).code == "plan-unknown-map-source"


# --- laws ---------------------------------------------------------------------------------------------------


def random_graph(random_: random.Random) -> dict[str, Any]:
    """Return a graph with random edges, ForEach targets and maps; often wrong."""
    count = random_.randint(1, 8)
    source: dict[str, Any] = {}
    for index in range(count):
        following = [f"n{random_.randint(0, count)}" for _ in range(random_.choice([0, 0, 1, 1, 1, 2]))]
        if random_.random() < 0.85:
            following = [f"n{random_.randint(index + 1, count)}" for _ in following if index + 1 < count]
            following = [name for name in following if name != f"n{count}"]
        more = (
            {"map": f"n{random_.randint(0, index)}[result:x],input[data:y]"} if random_.random() < 0.4 else {}
        )
        if random_.random() < 0.2:
            source[f"n{index}"] = for_each(f"n{random_.randint(0, count)}", following, **more)
        else:
            source[f"n{index}"] = node(following, **more)
    if random_.random() < 0.6:
        source["output"] = f"n{random_.randint(0, count - 1)}"
    if random_.random() < 0.3:
        source["fanout"] = "roots"
    return source


@pytest.mark.parametrize("seed", range(40))
def test_any_graph_is_planned_or_refused_and_a_planned_one_keeps_the_laws(seed: int) -> None:
    random_ = random.Random(seed)
    for _ in range(25):
        source = random_graph(random_)
        try:
            data = plan(source).to_core()
        except ConfigError as error:
            assert error.code.startswith(("plan-", "config-"))
            assert error.help
            continue
        nodes = data["nodes"]
        assert sorted(one["name"] for one in nodes) == sorted(key for key in source if key.startswith("n"))
        assert [one["region"] for one in nodes] == sorted(one["region"] for one in nodes)
        for index, one in enumerate(nodes):
            assert all(
                following > index and nodes[following]["region"] == one["region"] for following in one["next"]
            )
            assert all(src < index for src, _, _ in one["map"] or ())
            if one["foreach_target"] is not None:
                target = one["foreach_target"]
                assert nodes[target]["region"] not in (0, one["region"])
                assert data["regions"][nodes[target]["region"]]["roots"] == [target]
        for number, region in enumerate(data["regions"]):
            members = [index for index, one in enumerate(nodes) if one["region"] == number]
            reached = {following for index in members for following in nodes[index]["next"]}
            assert region["roots"] == [index for index in members if index not in reached]
            assert nodes[region["output"]]["next"] == []
            assert nodes[region["output"]]["region"] == number
