"""The curves between boxes: a start, and three points for each cubic curve that follows."""

from __future__ import annotations

from collections.abc import Sequence

from .layout import Box

Point = tuple[float, float]


def edge_points(boxes: Sequence[Box]) -> list[Point]:
    """Return a smooth line through the waypoints of an edge."""
    x, y = boxes[0].x + boxes[0].width, boxes[0].middle
    points = [(x, y)]
    for box in boxes[1:]:
        bend = (box.x - x) / 2
        points += [(x + bend, y), (box.x - bend, box.middle), (box.x, box.middle)]
        x, y = box.x + box.width, box.middle
        if box is not boxes[-1] and box.width > 0:
            points += [(box.x, y), (x, y), (x, y)]
    return points


def enter_points(owner: Box, target: Box) -> list[Point]:
    """Return the line from an operator down to the node that it enters."""
    x, y = owner.x + owner.width / 2, owner.y + owner.height
    end_x, end_y = target.x + target.width / 2, target.y
    bend = max((end_y - y) / 2, 24.0)
    return [(x, y), (x, y + bend), (end_x, end_y - bend), (end_x, end_y)]


def return_points(box: Box, target: Box, *, rise_px: float = 28.0) -> list[Point]:
    """Return the line above the boxes that leads back from one to an earlier one."""
    x, end_x = box.x + box.width / 2, target.x + target.width / 2
    top = min(box.y, target.y) - rise_px
    return [(x, box.y), (x, top), (end_x, top), (end_x, target.y)]


def path_text(points: Sequence[Point]) -> str:
    """Return the points as `d` of an SVG path."""
    texts = [f"{x:.1f},{y:.1f}" for x, y in points]
    curves = (" ".join(texts[first : first + 3]) for first in range(1, len(texts), 3))
    return " C".join([f"M{texts[0]}", *curves])
