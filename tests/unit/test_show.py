"""Drawings of a graph: as text, as boxes with places, as SVG."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any
from xml.etree import ElementTree

import pytest

from hami.cli.show import graph_text
from hami.cli.svg import MAX_CHARACTERS, MAX_LINES, draw, size_of, wrap
from hami.drawing import Box, lay_out
from hami.plan import Plan, plan

SVG = "{http://www.w3.org/2000/svg}"


def node(next: Any = "", backend: str = "Identity", **more: Any) -> dict[str, Any]:
    return {"backend": backend, "next": next, **more}


PAGE = {
    "decode": node("detect,thumb", "S[Identity, Add(1)]", instance_num=2),
    "detect": node("lines", "OnnxInfer", model="m.onnx", max=8, batching_timeout=4),
    "thumb": node("join", "Pow"),
    "lines": node("join", "ForEach(target=turn)"),
    "turn": node("recognise"),
    "recognise": node("", "Pow", **{"or": True}),
    "join": node(map="lines[result:lines],decode[result:page]"),
}


def test_a_graph_is_a_tree_of_arrows() -> None:
    assert (
        graph_text(plan(PAGE))
        == """\
decode  S[Identity, Add(1)]  2 instances
├─> detect  OnnxInfer  max 8  4 ms
│   └─> lines  ForEach(target=turn)
│       ├·> turn (each element)  Identity
│       │   └─> recognise  Pow  or
│       └─> join (joined below)
└─> thumb  Pow
    └─> join  Identity"""
    )


def test_several_entries_are_drawn_one_below_the_other() -> None:
    source = {"a": node("c"), "b": node("c"), "c": node(map="a[result:x],b[result:y]")}

    assert (
        graph_text(plan(source))
        == """\
a  Identity
└─> c (joined below)
b  Identity
└─> c  Identity"""
    )


def test_the_node_that_answers_is_marked_where_it_is_not_clear() -> None:
    source = {"a": node("b,c"), "b": node(), "c": node(), "output": "b"}

    assert "b (answers)  Identity" in graph_text(plan(source))
    assert "c  Identity" in graph_text(plan(source))


def test_a_subgraph_that_is_entered_twice_is_drawn_once() -> None:
    source = {"a": node("b", "ForEach(target=x)"), "b": node("", "ForEach(target=x)"), "x": node()}

    text = graph_text(plan(source))
    assert text.count("x (each element)") == 1
    assert "└·> x (drawn above)" in text


def test_a_long_expression_is_cut() -> None:
    assert max(map(len, graph_text(plan("S[" + ", ".join(["Identity"] * 50) + "]")).split("\n"))) < 80


def test_a_long_chain_is_drawn() -> None:
    source = {f"n{i}": node(f"n{i + 1}") for i in range(300)} | {"n300": node()}

    assert len(graph_text(plan(source)).split("\n")) == 301


@pytest.mark.parametrize(
    "text", ["A", "S[" + ", ".join(["Identity"] * 50) + "]", "A" * 500, "A(" + "x" * 100 + ")[B, C]"]
)
def test_text_in_a_box_is_wrapped(text: str) -> None:
    lines = wrap(text)

    assert len(lines) <= MAX_LINES
    assert all(len(line) <= MAX_CHARACTERS for line in lines)
    assert text.replace(" ", "").startswith("".join(lines).replace(" ", "").rstrip("…"))


def boxes(checked: Plan) -> dict[int, Box]:
    return {index: box for region in lay_out(checked, size_of) for index, box in region.boxes.items()}


def overlap(one: Box, two: Box) -> bool:
    return (
        one.x < two.x + two.width
        and two.x < one.x + one.width
        and one.y < two.y + two.height
        and two.y < one.y + one.height
    )


def random_plan(seed: int) -> Plan:
    """Return a connected graph with joins, long edges and two subgraphs."""
    random_ = random.Random(seed)
    count = random_.randint(2, 12)
    source: dict[str, Any] = {}
    before: dict[int, set[int]] = {i: set() for i in range(count)}
    for index in range(1, count):
        for previous in random_.sample(range(index), min(index, random_.randint(1, 3))):
            before[index].add(previous)
    for index in range(count):
        following = [f"n{later}" for later in range(count) if index in before[later]]
        names = [f"n{previous}[result:k{previous}]" for previous in before[index]]
        more = {"map": ",".join(names)} if len(names) > 1 else {}
        source[f"n{index}"] = node(following, random_.choice(["Pow", "S[Identity, Pow, Add(1)]"]), **more)
    for number in range(2):
        source[f"n{number}"]["backend"] = f"ForEach(target=s{number})"
        source[f"s{number}"] = node(f"t{number}")
        source[f"t{number}"] = node()
    leaves = [name for name in source if name.startswith("n") and not source[name]["next"]]
    return plan({**source, "output": leaves[0], "fanout": "roots"})


@pytest.mark.parametrize("seed", range(30))
def test_boxes_do_not_overlap_and_edges_lead_to_the_right(seed: int) -> None:
    checked = random_plan(seed)
    placed = boxes(checked)

    assert set(placed) == set(range(len(checked.nodes)))
    for one, two in combinations(placed.values(), 2):
        assert not overlap(one, two)
    for index, planned in enumerate(checked.nodes):
        for following in planned.next:
            assert placed[index].x + placed[index].width < placed[following].x


@pytest.mark.parametrize("seed", range(30))
def test_long_edges_pass_between_boxes(seed: int) -> None:
    for region in lay_out(random_plan(seed), size_of):
        for edge in region.edges:
            assert [box.layer for box in edge] == list(range(edge[0].layer, edge[-1].layer + 1))
            for waypoint in edge[1:-1]:
                assert not any(overlap(waypoint, box) for box in region.boxes.values())


@pytest.mark.parametrize("seed", range(30))
def test_boxes_stay_inside_their_region(seed: int) -> None:
    for region in lay_out(random_plan(seed), size_of):
        for box in region.boxes.values():
            assert region.x <= box.x
            assert region.y <= box.y
            assert box.x + box.width <= region.x + region.width + 0.01
            assert box.y + box.height <= region.y + region.height + 0.01


def test_a_drawing_is_well_formed_and_complete() -> None:
    root = ElementTree.fromstring(draw(plan(PAGE)))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    kinds = [element.get("class") for element in root.iter(f"{SVG}path")]

    assert set(PAGE) <= set(texts)
    assert "each element" in texts
    assert "max 8 · 4 ms" in texts
    assert kinds.count("edge") == 6
    assert kinds.count("each") == 1
    assert [element.get("class") for element in root.iter(f"{SVG}rect")].count("box answer") == 1


def test_text_in_a_drawing_is_escaped() -> None:
    root = ElementTree.fromstring(draw(plan("Add('<&>\"', times=1)".replace("'<&>\"'", "1"))))
    assert root is not None

    drawing = draw(plan({"a": {"backend": "OnnxInfer('<&>\"')"}}))
    assert ElementTree.fromstring(drawing) is not None
    assert "<&>" not in drawing


def test_a_drawing_needs_nothing_from_elsewhere() -> None:
    drawing = draw(plan(PAGE)).replace('xmlns="http://www.w3.org/2000/svg"', "")

    assert "http" not in drawing
    assert "<script" not in drawing
    assert "prefers-color-scheme: dark" in drawing
