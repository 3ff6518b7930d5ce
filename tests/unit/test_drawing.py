"""What drawings of a plan share: conditions in words, the backend that was written, places, curves."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from hami.drawing import (
    Back,
    Box,
    Label,
    RegionLayout,
    Row,
    Style,
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
from hami.drawing.columns import BOX_GAP_PX, neighbours_of, num_crossings, place_heights, reduce_crossings
from hami.drawing.layout import GAP_PX, LABEL_GAP_PX
from hami.drawing.paths import TURN_PX
from hami.plan import plan


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


def box(x: float, y: float, width: float = 100.0, height: float = 40.0, **more: Any) -> Box:
    return Box(None, width, height, 0, x, y, column_x=x, column_end=x + width, **more)


def test_an_edge_leaves_on_the_right_and_arrives_on_the_left() -> None:
    points = edge_points([box(0, 0), box(200, 90, 0, 10), box(300, 0)])
    assert points[0] == (100, 20) and points[3] == (200, 95) and points[-1] == (300, 20)
    assert len(points) == 1 + 3 * 2


def test_an_edge_is_smooth_where_its_curves_meet() -> None:
    points = edge_points([box(0, 0), box(200, 90, 0, 10), box(300, 0)])
    (before, meeting, after) = points[2:5]
    assert before[1] == meeting[1] == after[1]
    assert before[0] < meeting[0] < after[0]


def test_an_edge_bends_only_outside_of_the_columns() -> None:
    narrow = box(0, 0)
    narrow.column_end = 160.0
    wide = box(300, 90)
    wide.column_x = 240.0
    points = edge_points([narrow, wide])
    assert [y for x, y in points if x <= 160] == [20] * 4
    assert [y for x, y in points if x >= 240] == [110] * 4


def test_an_edge_to_the_next_row_passes_below_the_first() -> None:
    points = edge_points([box(300, 0), box(0, 200, row=1)], [Row(-30, 0), Row(120, 190)])
    assert points[0] == (400, 20) and points[-1] == (0, 220)
    assert {x for x, y in points if 40 < y < 100} <= {400 + TURN_PX}
    assert {x for x, y in points if 130 < y < 200} <= {-TURN_PX}


def test_what_enters_a_subgraph_comes_from_above() -> None:
    down = enter_points(box(0, 0), box(50, 200))
    assert down[0] == (50, 40) and down[-1] == (100, 200)


@pytest.mark.parametrize(
    ("is_top", "start", "end"), [(True, (350, 10), (50, 30)), (False, (400, 20), (0, 40))]
)
def test_what_returns_passes_above_and_beside_what_stands_on_top(
    is_top: bool, start: tuple[float, float], end: tuple[float, float]
) -> None:
    boxes = {0: box(0, 30, is_top=is_top), 1: box(300, 10, is_top=is_top)}
    points = return_points(RegionLayout(boxes=boxes, rows=[Row(-40, -8)]), Back(1, 0))
    assert points[0] == start and points[-1] == end
    assert min(y for _, y in points) == -8


def test_a_box_may_return_to_itself() -> None:
    layout = RegionLayout(boxes={0: box(0, 30, is_top=True)}, rows=[Row(-40, 8)])
    points = return_points(layout, Back(0, 0))
    assert points[0] == (100, 40) and points[-1] == (50, 30)


def test_points_become_a_path() -> None:
    points = [(0.0, 1.0), (2.0, 3.04), (4.0, 5.0), (6.0, 7.0), (8.0, 9.0), (1.0, 1.0), (2.0, 2.0)]
    assert path_text(points) == "M0.0,1.0 C2.0,3.0 4.0,5.0 6.0,7.0 C8.0,9.0 1.0,1.0 2.0,2.0"


# --- places ---


def placed(graph: dict[str, Any], **more: Any) -> list[RegionLayout]:
    """Return the regions of a graph whose boxes are all of one size."""
    return lay_out(plan(graph), Style(lambda node: (100.0, 50.0), **more))


def chain(*names: str) -> dict[str, Any]:
    """Return nodes that follow each other."""
    return {
        name: {"backend": "Identity", "next": after}
        for name, after in zip(names, (*names[1:], ""), strict=True)
    }


def test_a_label_has_a_column_of_its_own() -> None:
    def labels_of(source: int, target: int) -> tuple[Label | None, Label | None]:
        return (Label(("if",), 60.0, 20.0) if source == 0 else None), None

    (region,) = placed(chain("a", "b", "c"), labels_of=labels_of)
    (label,) = region.labels
    a, b, c = region.boxes.values()
    assert (label.lines, label.width) == (("if",), 60.0)
    assert b.x - a.x - a.width == 60 + 2 * LABEL_GAP_PX
    assert c.x - b.x - b.width == GAP_PX
    assert label.middle == a.middle == b.middle


def test_labels_at_both_ends_of_a_short_edge_are_one() -> None:
    start, end = Label(("if",), 60.0, 20.0), Label(("key", "other"), 80.0, 35.0)
    (region,) = placed(chain("a", "b"), labels_of=lambda source, target: (start, end))
    assert [(one.lines, one.width, one.height) for one in region.labels] == [
        (("if", "key", "other"), 80.0, 55.0)
    ]


def test_an_edge_that_skips_a_layer_passes_it_straight() -> None:
    graph = {
        "a": {"backend": "Identity", "next": "b,c"},
        "b": {"backend": "Identity", "next": "c"},
        "c": {"backend": "Identity", "map": "a[result:data],b[result:other]"},
    }
    (region,) = placed(graph)
    (edge,) = [edge for edge in region.edges if len(edge.boxes) == 3]
    waypoint, beside = edge.boxes[1], region.boxes[1]
    assert (waypoint.x, waypoint.width) == (beside.x, beside.width)
    assert waypoint.y >= beside.y + beside.height or waypoint.y + waypoint.height <= beside.y


def test_a_subgraph_stands_below_its_operator_and_its_entry_below_the_middle() -> None:
    graph = {
        "each": {"backend": "ForEach(target=x)", "next": "end"},
        "end": {"backend": "Identity"},
        **chain("x", "y"),
    }
    main, inner = placed(graph, enter_px=70.0)
    each, end = main.boxes.values()
    entry = inner.boxes[2]
    assert inner.owner == 0 and inner.y == each.y + each.height + 70
    assert entry.x + entry.width / 2 == each.x + each.width / 2
    assert end.x >= inner.x + inner.width and end.middle == each.middle


def test_a_wide_graph_is_folded_where_one_edge_alone_leads_on() -> None:
    graph = {
        **chain(*"abcd"),
        "d": {"backend": "Identity", "next": "e,f"},
        "e": {"backend": "Identity", "next": "g"},
        "f": {"backend": "Identity", "next": "g"},
        "g": {"backend": "Identity", "map": "e[result:data],f[result:other]", "next": "h"},
        **chain("h", "i"),
    }
    (region,) = placed(graph, max_width=460.0)
    rows = [
        [box.node.name for box in region.boxes.values() if box.node and box.row == row] for row in range(4)
    ]
    assert rows == [["a", "b", "c"], ["d", "e", "f", "g"], ["h", "i"], []]
    assert region.width < 460


def test_a_graph_that_fits_is_left_in_one_row() -> None:
    (region,) = placed(chain(*"abcd"), max_width=460.0)
    assert {box.row for box in region.boxes.values()} == {0}


# --- columns ---


def columns_of(*heights: int) -> list[list[Box]]:
    """Return columns with so many boxes each."""
    return [[Box(None, 10.0, 10.0, at) for _ in range(count)] for at, count in enumerate(heights)]


def test_crossings_are_counted_and_removed() -> None:
    columns = columns_of(3, 3)
    chains = [(left, right) for left, right in zip(columns[0], reversed(columns[1]), strict=True)]
    _, after = neighbours_of(chains)
    assert num_crossings(columns, after) == 3
    reduce_crossings(columns, chains)
    assert num_crossings(columns, after) == 0


def test_the_order_never_gets_worse() -> None:
    random_ = random.Random(7)
    for _ in range(50):
        columns = columns_of(*(random_.randint(1, 6) for _ in range(4)))
        chains = [
            (random_.choice(left), random_.choice(right))
            for left, right in itertools.pairwise(columns)
            for _ in range(8)
        ]
        _, after = neighbours_of(chains)
        before = num_crossings(columns, after)
        reduce_crossings(columns, chains)
        assert num_crossings(columns, after) <= before


def test_boxes_of_a_column_stay_in_order_and_apart() -> None:
    random_ = random.Random(3)
    for _ in range(50):
        columns = columns_of(*(random_.randint(1, 6) for _ in range(4)))
        chains = [
            (random_.choice(left), random_.choice(right))
            for left, right in itertools.pairwise(columns)
            for _ in range(6)
        ]
        place_heights(columns, chains)
        for boxes in columns:
            for above, below in itertools.pairwise(boxes):
                assert below.y - above.y - above.height >= BOX_GAP_PX - 1e-6


def test_a_chain_behind_a_join_stands_on_one_line() -> None:
    columns = columns_of(3, 1, 1, 1)
    join, one, two = (boxes[0] for boxes in columns[1:])
    columns[0][2].below = 300.0
    place_heights(columns, [*((box, join) for box in columns[0]), (join, one), (one, two)])
    assert join.middle == one.middle == two.middle


def test_what_nothing_follows_stands_level_with_what_leads_to_it() -> None:
    columns = columns_of(1, 2, 2)
    first, branches, (leaf, last) = columns[0][0], columns[1], columns[2]
    place_heights(columns, [*((first, box) for box in branches), (branches[0], leaf), (branches[0], last)])
    assert branches[0].middle == (leaf.middle + last.middle) / 2
    assert branches[1].middle - branches[0].middle >= 10 + BOX_GAP_PX - 1e-6


def test_a_box_stands_in_the_middle_of_what_follows_it() -> None:
    columns = columns_of(1, 2)
    place_heights(columns, [(columns[0][0], box) for box in columns[1]])
    assert columns[0][0].middle == sum(box.middle for box in columns[1]) / 2
