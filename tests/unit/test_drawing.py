"""What drawings of a plan share: conditions in words, the backend that was written, curves."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest

from hami.drawing import (
    condition_of,
    edge_points,
    enter_points,
    lay_out,
    own_backend,
    own_expression,
    parts_of,
    path_text,
    return_points,
)
from hami.drawing.layout import Box
from hami.plan import PlannedNode, plan


def conditions(source: dict[str, Any]) -> dict[tuple[str, str], str]:
    checked = plan(source)
    return {
        (node.name, checked.nodes[following].name): condition_of(node, checked.nodes[following])
        for node in checked.nodes
        for following in node.next
    }


def test_an_edge_without_a_condition_says_nothing() -> None:
    assert conditions({"a": {"backend": "Identity", "next": "b"}, "b": {"backend": "Pow"}}) == {
        ("a", "b"): ""
    }


def test_a_condition_and_its_other_way_are_told() -> None:
    graph = {
        "known": {"backend": "HasKey(language)", "next": "yes,no"},
        "yes": {"backend": "Identity", "next": "end"},
        "no": {"backend": "Identity", "or": True, "next": "end"},
        "end": {"backend": "Identity", "map": "yes[result:data],no[result:other]"},
    }
    assert conditions(graph) == {
        ("known", "yes"): "if HasKey(language)",
        ("known", "no"): "otherwise",
        ("yes", "end"): "",
        ("no", "end"): "",
    }


def test_or_behind_another_backend_waits_for_no_result() -> None:
    graph = {"a": {"backend": "Identity", "next": "b"}, "b": {"backend": "Pow", "or": True}}
    assert conditions(graph) == {("a", "b"): "without a result"}


def test_a_condition_with_branches_always_has_a_result() -> None:
    graph = {"a": {"backend": "HasKey(x)[Identity, Pow]", "next": "b"}, "b": {"backend": "Identity"}}
    assert conditions(graph) == {("a", "b"): ""}


@pytest.mark.parametrize("text", ["Identity", "S[Identity, Pow]", "HasKey(x)"])
def test_the_backend_that_was_written_is_found_inside_the_node(text: str) -> None:
    (node,) = plan({"a": {"backend": text}}).nodes
    assert str(own_expression(node)) == text
    assert own_backend(node).name == own_expression(node).name
    assert next(parts_of(own_backend(node))) is own_backend(node)


def test_parts_come_in_written_order() -> None:
    (node,) = plan({"a": {"backend": "S[Identity, Pow]"}}).nodes
    assert [part.name for part in parts_of(own_backend(node))][-2:] == ["Identity", "Pow"]


# --- curves ---


def box(x: float, y: float, width: float = 100.0, height: float = 40.0) -> Box:
    return Box(None, width, height, 0, x, y)


def test_an_edge_leaves_on_the_right_and_arrives_on_the_left() -> None:
    points = edge_points([box(0, 0), box(200, 90, 0, 10), box(300, 0)])
    assert points[0] == (100, 20) and points[3] == (200, 95) and points[-1] == (300, 20)
    assert len(points) == 1 + 3 * 2


def test_an_edge_is_smooth_where_its_curves_meet() -> None:
    points = edge_points([box(0, 0), box(200, 90, 0, 10), box(300, 0)])
    (before, meeting, after) = points[2:5]
    assert before[1] == meeting[1] == after[1]
    assert before[0] < meeting[0] < after[0]


def test_what_enters_a_subgraph_comes_from_above_and_what_returns_passes_above() -> None:
    down = enter_points(box(0, 0), box(50, 200))
    assert down[0] == (50, 40) and down[-1] == (100, 200)
    back = return_points(box(300, 10), box(0, 30))
    assert back[0] == (350, 10) and back[-1] == (50, 30)
    assert max(point[1] for point in back[1:3]) < 10


def test_points_become_a_path() -> None:
    points = [(0.0, 1.0), (2.0, 3.04), (4.0, 5.0), (6.0, 7.0), (8.0, 9.0), (1.0, 1.0), (2.0, 2.0)]
    assert path_text(points) == "M0.0,1.0 C2.0,3.0 4.0,5.0 6.0,7.0 C8.0,9.0 1.0,1.0 2.0,2.0"


def test_layers_are_as_far_apart_as_wanted() -> None:
    def size_of(node: PlannedNode) -> tuple[float, float]:
        return 100.0, 50.0

    def gap_after(nodes: Sequence[PlannedNode]) -> float:
        return {"a": 150.0, "b": 20.0}.get(nodes[0].name, 999.0)

    graph = {
        name: {"backend": "Identity", "next": after} for name, after in (("a", "b"), ("b", "c"), ("c", ""))
    }
    (region,) = lay_out(plan(graph), size_of, gap_after)
    gaps = [two.x - one.x - one.width for one, two in itertools.pairwise(region.boxes.values())]
    assert gaps == [150.0, 20.0]
    assert region.width == 3 * 100 + 150 + 20


def test_an_edge_that_skips_a_layer_passes_it_straight() -> None:
    def size_of(node: PlannedNode) -> tuple[float, float]:
        return 100.0, 50.0

    graph = {
        "a": {"backend": "Identity", "next": "b,c"},
        "b": {"backend": "Identity", "next": "c"},
        "c": {"backend": "Identity", "map": "a[result:data],b[result:other]"},
    }
    (region,) = lay_out(plan(graph), size_of)
    (edge,) = [edge for edge in region.edges if len(edge) == 3]
    waypoint, beside = edge[1], region.boxes[1]
    assert (waypoint.x, waypoint.width) == (beside.x, beside.width)
    assert waypoint.y >= beside.y + beside.height or waypoint.y + waypoint.height <= beside.y
    points = edge_points(edge)
    assert points[3] == (waypoint.x, waypoint.middle)
    assert points[6] == (waypoint.x + waypoint.width, waypoint.middle)
