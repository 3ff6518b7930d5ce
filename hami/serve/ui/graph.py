"""The graph of a plan for the page: cards with places, and curves, for wide and for narrow windows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any

from ...drawing import (
    Box,
    Point,
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

GAP_PX = 64.0
LABELLED_GAP_PX = 150.0
MARGIN_PX = 22.0
MAX_LABEL = 24

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
        self.regions = lay_out(plan, self._size_of, self._gap_after)
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

    def _gap_after(self, nodes: Sequence[PlannedNode]) -> float:
        followings = ((node, self.plan.nodes[index]) for node in nodes for index in node.next)
        is_labelled = any(condition_of(node, following) for node, following in followings)
        return LABELLED_GAP_PX if is_labelled and not self.is_tall else GAP_PX

    def _labels(self) -> Iterator[tuple[int, int, str]]:
        for index, node in enumerate(self.plan.nodes):
            for following in node.next:
                yield index, following, condition_of(node, self.plan.nodes[following])

    def _edges(self) -> Iterator[dict[str, Any]]:
        index_of = {id(box): index for index, box in self.boxes.items()}
        labels = {(start, end): label for start, end, label in self._labels()}
        for region in self.regions:
            for edge in region.edges:
                start, end = index_of[id(edge[0])], index_of[id(edge[-1])]
                yield self._curve("next", start, end, edge_points(edge), labels[start, end])
        for index, node in enumerate(self.plan.nodes):
            if node.target is not None:
                points = enter_points(self.boxes[index], self.boxes[node.target])
                yield self._curve("each", index, node.target, points, "each element")
            if node.again is not None:
                points = return_points(self.boxes[index], self.boxes[node.again])
                yield self._curve("again", index, node.again, points, "again")

    def _curve(self, kind: str, start: int, end: int, points: list[Point], label: str) -> dict[str, Any]:
        turned = [self._turn(point) for point in points]
        return {
            "kind": kind,
            "from": start,
            "to": end,
            "path": path_text(turned),
            "label": shorten(label, MAX_LABEL),
            "whole_label": label,
            "label_at": _middle_of(turned[:4]),
        }

    def _turn(self, pair: Point) -> Point:
        return (pair[1], pair[0]) if self.is_tall else pair

    def _place(self, box: Box) -> tuple[float, float, float, float]:
        return box.x, box.y, box.width, box.height

    def _frame(self, frame: Iterable[float]) -> list[float]:
        x, y, width, height = frame
        return [round(value, 1) for value in (*self._turn((x, y)), *self._turn((width, height)))]


def _middle_of(points: list[Point]) -> list[float]:
    """Return the point halfway along a cubic curve."""
    one, two, three, four = points
    return [round((one[i] + 3 * two[i] + 3 * three[i] + four[i]) / 8, 1) for i in (0, 1)]
