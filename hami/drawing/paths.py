"""The curves between boxes: a start, and three points for each cubic curve that follows."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from .columns import Box
from .layout import LANE_PX
from .pieces import Back, RegionLayout, Row

Point = tuple[float, float]

TURN_PX = 12.0
"""How far outside of a column an edge goes round its boxes."""

CORNER_PX = 8.0


def edge_points(boxes: Sequence[Box], rows: Sequence[Row] = ()) -> list[Point]:
    """Return a smooth line through all boxes of an edge; it bends between the columns only."""
    points = [(boxes[0].x + boxes[0].width, boxes[0].middle)]
    for left, right in pairwise(boxes):
        y, end_y = left.middle, right.middle
        if left.row != right.row:
            fold_y, x, end_x = rows[right.row].fold_y, left.column_end + TURN_PX, right.column_x - TURN_PX
            points += _rounded(
                [points[-1], (x, y), (x, fold_y), (end_x, fold_y), (end_x, end_y), (right.x, end_y)]
            )[1:]
        else:
            bend = (right.column_x - left.column_end) / 2
            points += _straight(points[-1], (left.column_end, y))
            points += [(left.column_end + bend, y), (right.column_x - bend, end_y), (right.column_x, end_y)]
            points += _straight(points[-1], (right.x, end_y))
        if right is not boxes[-1]:
            points += _straight(points[-1], (right.x + right.width, end_y))
    return points


def enter_points(owner: Box, target: Box) -> list[Point]:
    """Return the line from an operator down to the node that it enters."""
    x, y = owner.x + owner.width / 2, owner.y + owner.height
    end_x, end_y = target.x + target.width / 2, target.y
    bend = max((end_y - y) / 2, 24.0)
    return [(x, y), (x, y + bend), (end_x, end_y - bend), (end_x, end_y)]


def return_points(layout: RegionLayout, back: Back) -> list[Point]:
    """Return the line above all boxes that leads back from one to an earlier one, or to itself."""
    box, target = layout.boxes[back.source], layout.boxes[back.target]
    lane_y = layout.rows[box.row].lane_y - back.lane * LANE_PX
    if box.is_top and box is not target:
        x = box.x + box.width / 2
        start = [(x, box.y), (x, lane_y)]
    else:
        x = box.column_end + TURN_PX - 2 * (back.lane % 4)
        y = box.y + box.height / 4
        start = [(box.x + box.width, y), (x, y), (x, lane_y)]
    if target.is_top:
        x = target.x + target.width / 2
        end = [(x, lane_y), (x, target.y)]
    else:
        x = target.column_x - TURN_PX + 2 * (back.lane % 4)
        y = target.y + target.height / 4
        end = [(x, lane_y), (x, y), (target.x, y)]
    return _rounded([*start, *end])


def path_text(points: Sequence[Point]) -> str:
    """Return the points as `d` of an SVG path."""
    texts = [f"{x:.1f},{y:.1f}" for x, y in points]
    curves = (" ".join(texts[first : first + 3]) for first in range(1, len(texts), 3))
    return " C".join([f"M{texts[0]}", *curves])


def _straight(start: Point, end: Point) -> list[Point]:
    """Return a straight piece as a curve; nothing where there is none to go."""
    return [] if abs(start[0] - end[0]) + abs(start[1] - end[1]) < 0.05 else [start, end, end]


def _rounded(corners: Sequence[Point]) -> list[Point]:
    """Return the line along the corners, each rounded as far as its sides allow."""
    points = [corners[0]]
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        enter, leave = _towards(corner, before), _towards(corner, after)
        points += [*_straight(points[-1], enter), corner, corner, leave]
    return points + _straight(points[-1], corners[-1])


def _towards(corner: Point, other: Point) -> Point:
    """Return the point on the way from a corner to another where its rounding ends."""
    length = abs(other[0] - corner[0]) + abs(other[1] - corner[1])  # sides are upright or level
    part = min(CORNER_PX, length / 2) / length if length else 0.0
    return corner[0] + (other[0] - corner[0]) * part, corner[1] + (other[1] - corner[1]) * part
