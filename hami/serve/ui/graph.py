"""The graph of a plan for the page: cards with places, and curves, for wide and for narrow windows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Any

from ...drawing import (
    INPUT,
    Box,
    Label,
    Point,
    Style,
    condition_of,
    edge_points,
    enter_points,
    facts,
    lay_out,
    own_expression,
    parts_of,
    path_text,
    return_points,
    shorten,
)
from ...plan import Plan, PlannedNode

CARD_PX = (272.0, 178.0)
"""A card with figures, as style.css draws it."""

PLAIN_CARD_PX = (212.0, 74.0)
"""A card of a node that counts nothing."""

MARGIN_PX = 22.0
MAX_LABEL = 24
LABEL_CHARACTER_PX = 6.6
LABEL_PADDING_PX = 22.0
LABEL_HEIGHT_PX = 24.0

EACH = "each element"
ENTER_PX = {False: 52.0, True: 128.0}
"""From a card to the frame of what it enters, with room for EACH; by whether the drawing is tall."""

LANGUAGE_MODEL = "LLM"


def draw(plan: Plan, measured: Collection[str]) -> dict[str, Any]:
    """Return the nodes, and two drawings of them: `wide` for large windows, `tall` for narrow ones.

    `measured` are the nodes that have figures.
    """
    answers = plan.regions[0].output
    nodes = [
        {
            "name": node.name,
            "backend": str(own_expression(node)),
            "facts": facts(node),
            "is_measured": node.name in measured,
            "is_answer": index == answers,
            "model": _model_of(node),
        }
        for index, node in enumerate(plan.nodes)
    ]
    wide, tall = (_Drawing(plan, measured, is_tall=is_tall).to_dict() for is_tall in (False, True))
    return {"nodes": nodes, "wide": wide, "tall": tall}


def _model_of(node: PlannedNode) -> str | None:
    """Return the name under which the language model of a node is called, if it has one."""
    has_model = any(part.name == LANGUAGE_MODEL for part in parts_of(node.backend))
    # a stage of an expression goes by the node that was written
    return node.name.partition("#")[0] if has_model and node.region == 0 else None


class _Drawing:
    """One way to lay the graph out; the tall one is a wide one of cards that lie on their side, turned."""

    def __init__(self, plan: Plan, measured: Collection[str], *, is_tall: bool) -> None:
        self.plan = plan
        self.measured = measured
        self.is_tall = is_tall
        style = Style(self._size_of, self._labels_of, enter_px=ENTER_PX[is_tall])
        self.regions = lay_out(plan, style)
        self.boxes = {index: box for region in self.regions for index, box in region.boxes.items()}

    def to_dict(self) -> dict[str, Any]:
        """Return sizes, places and curves in pixels."""
        width = max(region.x + region.width for region in self.regions) + MARGIN_PX
        height = max(region.y + region.height for region in self.regions) + MARGIN_PX
        frames = [(one.x, one.y, one.width, one.height) for one in self.regions[1:]]
        return {
            "size": self._turn((width, height)),
            "boxes": [self._frame(self._place(self.boxes[i])) for i in range(len(self.plan.nodes))],
            "frames": [self._frame(frame) for frame in frames],
            "edges": list(self._edges()),
        }

    def _size_of(self, node: PlannedNode) -> Point:
        return self._turn(CARD_PX if node.name in self.measured else PLAIN_CARD_PX)

    def _labels_of(self, source: int, target: int) -> tuple[Label | None, Label | None]:
        condition = "" if source == INPUT else condition_of(self.plan.nodes[source], self.plan.nodes[target])
        if not condition:
            return None, None
        length = min(len(condition), MAX_LABEL)
        size = self._turn((length * LABEL_CHARACTER_PX + LABEL_PADDING_PX, LABEL_HEIGHT_PX))
        return Label((condition,), *size), None

    def _edges(self) -> Iterator[dict[str, Any]]:
        for region in self.regions:
            for edge in region.edges:
                label = next((box for box in edge.boxes if box.kind == "label"), None)
                points = edge_points(edge.boxes)
                at = _middle_of(points[:4]) if label is None else (label.x + label.width / 2, label.middle)
                text = label.lines[0] if label else ""
                yield self._curve("next", edge.source, edge.target, points, text, at)
            for back in region.backs:
                points = return_points(region, back)
                yield self._curve("again", back.source, back.target, points, "again", _between(points))
        for index, node in enumerate(self.plan.nodes):
            if node.target is not None:
                owner, target = self.boxes[index], self.boxes[node.target]
                at = (owner.x + owner.width / 2, owner.y + owner.height + ENTER_PX[self.is_tall] / 2)
                yield self._curve("each", index, node.target, enter_points(owner, target), EACH, at)

    def _curve(
        self, kind: str, start: int, end: int, points: list[Point], label: str, label_at: Point
    ) -> dict[str, Any]:
        turned = [self._turn(point) for point in points]
        return {
            "kind": kind,
            "from": start,
            "to": end,
            "path": path_text(turned),
            "label": shorten(label, MAX_LABEL),
            "whole_label": label,
            "label_at": [round(value, 1) for value in self._turn(label_at)],
        }

    def _turn(self, pair: Point) -> Point:
        return (pair[1], pair[0]) if self.is_tall else pair

    def _place(self, box: Box) -> tuple[float, float, float, float]:
        return box.x, box.y, box.width, box.height

    def _frame(self, frame: Iterable[float]) -> list[float]:
        x, y, width, height = frame
        return [round(value, 1) for value in (*self._turn((x, y)), *self._turn((width, height)))]


def _middle_of(points: list[Point]) -> Point:
    """Return the point halfway along a cubic curve."""
    one, two, three, four = points
    x, y = ((one[i] + 3 * two[i] + 3 * three[i] + four[i]) / 8 for i in (0, 1))
    return x, y


def _between(points: list[Point]) -> Point:
    """Return the middle of the highest level part of a line."""
    top = min(y for _, y in points)
    level = [x for x, y in points if y == top]
    return (min(level) + max(level)) / 2, top
