"""The graph: edges, joins, cycles, outputs and entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from planning import error_of, for_each, node

from hami.plan import Plan, plan

Write = Callable[..., str]


def diamond(**join: Any) -> dict[str, Any]:
    """Return a -> b, c -> d."""
    return {"a": node("b,c"), "b": node("d"), "c": node("d"), "d": node(**join)}


def names(checked: Plan) -> list[str]:
    return [planned.name for planned in checked.nodes]


def edges(checked: Plan) -> set[tuple[str, str]]:
    return {
        (planned.name, checked.nodes[following].name)
        for planned in checked.nodes
        for following in planned.next
    }


# --- edges --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("following", ["b,c", " b , c ", "b,c,", ["b", "c"], [" b", "c "]])
def test_successors_are_text_or_a_list(following: Any) -> None:
    source = {**diamond(map="b[result:x],c[result:y]"), "a": node(following)}

    assert edges(plan(source)) == {("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")}


@pytest.mark.parametrize("following", ["", []])
def test_no_successor_may_be_written(following: Any) -> None:
    assert plan({"a": node(following)})


@pytest.mark.parametrize("following", [3, {"b": 1}, ["b", 3], True, "b,,c", ",b", ",", ["b", ""]])
def test_successors_must_be_names(following: Any) -> None:
    assert error_of({"a": node(following), "b": node(), "c": node()}).code == "plan-bad-next"


def test_an_unknown_successor_is_refused_with_the_nearest_name(write: Write) -> None:
    text = '[a]\nbackend = "Pow"\nnext = "b, clasify"\n[b]\nbackend = "Pow"\n[classify]\nbackend = "Pow"\n'
    error = error_of(write(text))

    assert (error.code, error.where) == ("plan-unknown-next", "pipeline.toml:3")
    assert "node `a` names `clasify`" in error.message
    assert error.help == "did you mean `classify`?"
    assert error.excerpt == '3 | next = "b, clasify"\n  |            ^^^^^^^'


def test_a_successor_twice_is_refused() -> None:
    assert error_of({"a": node("b,b"), "b": node()}).code == "plan-duplicate-next"


def test_nodes_come_in_topological_order() -> None:
    source = {"d": node(map="b[result:x],c[result:y]"), "c": node("d"), "b": node("d"), "a": node("b,c")}

    assert names(plan(source)) == ["a", "c", "b", "d"]


def test_indices_in_the_plan_are_those_of_its_nodes() -> None:
    source = {"d": node(map="b[result:x],input[data:y]"), "c": node("d"), "b": node("d"), "a": node("b,c")}
    data = plan(source).to_core()
    index = {one["name"]: position for position, one in enumerate(data["nodes"])}

    assert data["nodes"][index["a"]]["next"] == [index["b"], index["c"]]
    assert data["nodes"][index["d"]]["map"] == [(index["b"], "result", "x"), (-1, "data", "y")]
    assert data["regions"] == [{"roots": [index["a"]], "output": index["d"]}]


@pytest.mark.parametrize(
    ("source", "cycle"),
    [
        ({"a": node("a")}, "`a` -> `a`"),
        ({"a": node("b"), "b": node("a")}, "`a` -> `b` -> `a`"),
        ({"x": node("a"), "a": node("b"), "b": node("c"), "c": node("a")}, "`a` -> `b` -> `c` -> `a`"),
    ],
)
def test_a_cycle_names_its_nodes(source: dict[str, Any], cycle: str) -> None:
    error = error_of(source)

    assert error.code == "plan-cycle"
    assert cycle in error.message


def test_a_long_chain_is_no_problem() -> None:
    source = {f"n{i}": node(f"n{i + 1}") for i in range(3000)} | {"n3000": node()}

    assert len(plan(source).nodes) == 3001


# --- map ----------------------------------------------------------------------------------------------------


def test_a_join_without_map_names_the_node_and_shows_one(write: Write) -> None:
    error = error_of(diamond())

    assert error.code == "plan-join-without-map"
    assert "node `d` has 2 predecessors, `b`, `c`, and no `map`" in error.message
    assert error.help == 'write `map = "b[result:b],c[result:c]"`'


def test_the_map_that_is_shown_is_accepted() -> None:
    shown = error_of(diamond()).help.split('"')[1]

    assert plan(diamond(map=shown))


@pytest.mark.parametrize(
    "text",
    [
        "b[result:x],c[result:y]",
        " b [ result : x ] , c [ result : y ] ",
        "b[result:x,score:s],c[result:y]",
        "a[result:x],input[data:y]",
        "b[result:x],c[a b:c d]",
        "input[data:x]",
    ],
)
def test_a_map_takes_keys_from_earlier_nodes_and_the_caller(text: str) -> None:
    assert plan(diamond(map=text)).nodes[-1].map


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("b", "plan-bad-map", "no list of sources"),
        ("", "plan-bad-map", "no list of sources"),
        ("b[result:x],", "plan-bad-map", "no list of sources"),
        ("b[result:x] c[result:y]", "plan-bad-map", "unexpected `c`"),
        ("b[result:x", "plan-bad-map", "no list of sources"),
        ("[result:x]", "plan-bad-map", "no list of sources"),
        ("b[]", "plan-bad-map", "no pair of keys"),
        ("b[result]", "plan-bad-map", "`result` in `map` of node `d` is no pair of keys"),
        ("b[a:b:c]", "plan-bad-map", "no pair of keys"),
        ("b[:x]", "plan-bad-map", "no pair of keys"),
        ("b[result:x],b[score:y]", "plan-bad-map", "`b` is twice"),
        ("b[result:x],c[result:x]", "plan-bad-map", "fills `x` twice"),
        ("b[result:x],e[result:y]", "plan-unknown-map-source", "names `e`, which is no node"),
        ("b[result:x],d[result:y]", "plan-unknown-map-source", "names `d`, which does not run before it"),
        (3, "plan-bad-value", "must be text"),
    ],
)
def test_a_wrong_map_is_refused(text: Any, code: str, words: str) -> None:
    error = error_of(diamond(map=text))

    assert error.code == code
    assert words in error.message


def test_a_wrong_source_is_pointed_at(write: Write) -> None:
    text = '[a]\nbackend = "Pow"\nnext = "b"\n[b]\nbackend = "Pow"\nmap = "a[result:x],\\tz[data:y]"\n'
    error = error_of(write(text))

    assert error.where == "pipeline.toml:6"
    assert error.excerpt == '6 | map = "a[result:x],\\tz[data:y]"\n  |                      ^'


def test_a_later_node_is_no_source() -> None:
    source = {"a": node("b"), "b": node("c", map="c[result:x]"), "c": node()}

    assert "does not run before it" in error_of(source).message


def test_a_node_on_another_branch_is_no_source() -> None:
    source = {**diamond(map="b[result:x],c[result:y]"), "c": node("d", map="b[result:x]")}

    assert error_of(source).code == "plan-unknown-map-source"


# --- entries and outputs ------------------------------------------------------------------------------------


def test_several_outputs_need_output(write: Write) -> None:
    source = {"a": node("b,c"), "b": node(), "c": node()}
    error = error_of(source)

    assert error.code == "plan-several-outputs"
    assert "`b`, `c`" in error.message
    assert plan({**source, "output": "b"}).regions[0].output == names(plan({**source, "output": "b"})).index(
        "b"
    )


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("a", "has successors"),
        ("x", "is no node"),
        (3, "must be text"),
        ("each", "inside the subgraph of a ForEach"),
    ],
)
def test_output_must_be_one_of_the_last_nodes(output: Any, words: str) -> None:
    source = {"a": node("b,c"), "b": node(), "c": for_each("each"), "each": node(), "output": output}

    assert words in error_of(source).message


def test_output_may_name_the_only_leaf() -> None:
    assert plan({"a": node(), "output": "a"})


def test_several_entries_are_fine() -> None:
    source = {"a": node("c"), "b": node("c"), "c": node(map="a[result:x],b[result:y]")}

    assert plan(source).regions[0].roots == (0, 1)


def test_a_node_that_no_edge_reaches_is_refused() -> None:
    error = error_of({"a": node("b"), "b": node(), "lost": node()})

    assert error.code == "plan-unreachable-node"
    assert "no edge reaches node `lost`" in error.message


def test_an_entry_that_never_leads_to_the_answer_is_refused() -> None:
    source = {"a": node("b"), "b": node(), "c": node("d"), "d": node(), "output": "b"}
    error = error_of(source)

    assert error.code == "plan-unreachable-node"
    assert "node `c` never leads to `b`" in error.message
    assert plan({**source, "fanout": "roots"}).fanout == "roots"


@pytest.mark.parametrize("fanout", ["root", 3, True])
def test_fanout_is_roots_or_nothing(fanout: Any) -> None:
    assert error_of({"a": node(), "fanout": fanout}).code == "plan-bad-value"


def test_or_needs_a_predecessor() -> None:
    assert plan({"a": node("b"), "b": node(**{"or": True})}).nodes[1].is_or
    error = error_of({"a": node("b", **{"or": True}), "b": node()})
    assert error.code == "plan-or-without-predecessor"


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("priority", "3", 3),
        ("priority", -1, -1),
        ("deadline_ms", 20, 20.0),
        ("max_in_flight", 9, 9),
        ("queue_capacity", 4, 4),
    ],
)
def test_global_settings_reach_the_core(key: str, value: Any, expected: Any) -> None:
    assert plan({"a": node(), key: value}).to_core()["settings"][key] == expected


@pytest.mark.parametrize(
    ("key", "value"),
    [("priority", "high"), ("priority", 1.5), ("deadline_ms", 0), ("deadline_ms", -1), ("max_in_flight", 0)],
)
def test_wrong_global_settings_are_refused(key: str, value: Any) -> None:
    error = error_of({"a": node(), key: value})

    assert (error.code, error.where) == ("plan-bad-value", key)


def test_the_entrypoint_of_a_graph_is_the_graph() -> None:
    assert plan({"a": node(), "entrypoint": "DagDispatcher"})
    assert error_of({"a": node(), "entrypoint": "S[Pow]"}).code == "plan-bad-entrypoint"
