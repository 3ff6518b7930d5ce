"""Drawings of a graph: as text, as boxes with places, as SVG."""

from __future__ import annotations

from typing import Any
from xml.etree import ElementTree

from hami.cli.show import graph_text
from hami.cli.svg import draw
from hami.plan import plan

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


def test_a_drawing_is_well_formed_and_complete() -> None:
    root = ElementTree.fromstring(draw(plan(PAGE)))
    texts = [element.text for element in root.iter(f"{SVG}text")]
    kinds = [element.get("class") for element in root.iter(f"{SVG}path")]

    assert set(PAGE) <= set(texts)
    assert "each element" in texts
    assert "batch 1–8 · waits ≤ 4 ms" in texts
    assert [kinds.count(kind) for kind in ("edge", "taken", "each", "answer")] == [7, 1, 1, 1]
    assert [element.get("class") for element in root.iter(f"{SVG}rect")].count("box answers") == 1


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
