"""Boxes in columns: their order, their heights, and where the columns stand.

The layered drawing of Sugiyama, Tagawa and Toda ("Methods for visual understanding of hierarchical system
structures", 1981): the columns are given, boxes are sorted by the mean place of their neighbours, and an edge
that skips columns has a waypoint in each. Pure geometry in pixels; a column knows nothing of what its boxes
stand for.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..plan import PlannedNode

BOX_GAP_PX = 28.0
"""Between two boxes of a column."""

EDGE_GAP_PX = 12.0
"""Between a box, a label or an edge and an edge or label of the same column."""

NUM_ORDER_SWEEPS = 12
NUM_HEIGHT_SWEEPS = 24
MAX_SWAPPED_BOXES = 1500
"""Where there are more boxes, neighbours are not tried the other way round, which takes long."""


@dataclass(eq=False)
class Box:
    """A rectangle in a column: a node, or (`node` is None) a label, an end, or a waypoint of a long edge.

    `left`, `right` and `below` are room that belongs to it, for the frame of what it enters. Its edges turn
    at the borders of its column, `column_x` and `column_end`; `row` counts the rows of a drawing that was
    folded, and above one that `is_top` there is nothing.
    """

    node: PlannedNode | None
    width: float
    height: float
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    kind: str = "node"
    lines: tuple[str, ...] = ()
    left: float = 0.0
    right: float = 0.0
    below: float = 0.0
    column_x: float = 0.0
    column_end: float = 0.0
    row: int = 0
    is_top: bool = False

    @property
    def middle(self) -> float:
        """The y of the edges that arrive and leave."""
        return self.y + self.height / 2

    @property
    def whole_width(self) -> float:
        """The width with the room to both sides."""
        return self.left + self.width + self.right

    @property
    def is_thin(self) -> bool:
        """Whether edges may pass it closely: labels and waypoints."""
        return self.kind in ("label", "waypoint")


Columns = list[list[Box]]
Chains = Sequence[Sequence[Box]]
Neighbours = Mapping[Box, Sequence[Box]]


def neighbours_of(chains: Chains) -> tuple[dict[Box, list[Box]], dict[Box, list[Box]]]:
    """Return the boxes before and after each box along the edges."""
    before: dict[Box, list[Box]] = {}
    after: dict[Box, list[Box]] = {}
    for chain in chains:
        for left, right in pairwise(chain):
            before.setdefault(right, []).append(left)
            after.setdefault(left, []).append(right)
    return before, after


def num_crossings(columns: Columns, after: Neighbours) -> int:
    """Return how many pairs of edges cross."""
    return sum(_crossings_between(left, right, after) for left, right in pairwise(columns))


def _crossings_between(left: Sequence[Box], right: Sequence[Box], after: Neighbours) -> int:
    place = {box: i for i, box in enumerate(right)}
    found = 0
    seen: list[int] = []
    for box in left:
        ends = sorted(place[end] for end in after.get(box, ()))
        found += sum(len(seen) - bisect_right(seen, end) for end in ends)
        for end in ends:
            seen.insert(bisect_right(seen, end), end)
    return found


def reduce_crossings(columns: Columns, chains: Chains) -> None:
    """Sort each column by the mean place of its neighbours, to the right and back, and keep the best."""
    before, after = neighbours_of(chains)
    best, fewest = [list(boxes) for boxes in columns], num_crossings(columns, after)
    for sweep in range(NUM_ORDER_SWEEPS):
        if fewest == 0:
            break
        if sweep % 2 == 0:
            for left, right in pairwise(columns):
                _sort_by_neighbours(right, left, before)
        else:
            for right, left in pairwise(columns[::-1]):
                _sort_by_neighbours(left, right, after)
        if sum(map(len, columns)) <= MAX_SWAPPED_BOXES:
            _swap_neighbours(columns, before, after)
        if (found := num_crossings(columns, after)) < fewest:
            best, fewest = [list(boxes) for boxes in columns], found
    for boxes, wanted in zip(columns, best, strict=True):
        boxes[:] = wanted


def _sort_by_neighbours(boxes: list[Box], beside: Sequence[Box], neighbours: Neighbours) -> None:
    own = {box: float(i) for i, box in enumerate(boxes)}
    place = {box: i for i, box in enumerate(beside)}

    def mean(box: Box) -> float:
        near = neighbours.get(box, ())
        return sum(place[one] for one in near) / len(near) if near else own[box]

    boxes.sort(key=mean)


def _swap_neighbours(columns: Columns, before: Neighbours, after: Neighbours) -> None:
    """Swap boxes that stand one above the other wherever fewer edges cross then."""
    for index, boxes in enumerate(columns):
        sides = [(columns[index + 1], after)] if index + 1 < len(columns) else []
        sides += [(columns[index - 1], before)] if index else []
        places = [({box: i for i, box in enumerate(column)}, near) for column, near in sides]
        for i in range(len(boxes) - 1):
            above, below = boxes[i], boxes[i + 1]
            gain = 0
            for place, near in places:
                ends = [place[end] for end in near.get(above, ())]
                others = [place[end] for end in near.get(below, ())]
                gain += sum((end > other) - (end < other) for end in ends for other in others)
            if gain > 0:
                boxes[i], boxes[i + 1] = below, above


def place_heights(columns: Columns, chains: Chains) -> float:
    """Give every box its y, near the mean of its neighbours; return the height of all."""
    before, after = neighbours_of(chains)

    def pull(box: Box, *, is_forward: bool, is_backward: bool) -> float:
        """Return where the neighbours would have a box; one that has many of them holds each the less."""
        near = [(one, len(after[one])) for one in before.get(box, ()) if is_forward]
        near += [(one, len(before[one])) for one in after.get(box, ()) if is_backward]
        if not near:
            return box.middle
        return sum(one.middle / degree for one, degree in near) / sum(1 / degree for _, degree in near)

    for boxes in columns:
        _settle(boxes, [0.0] * len(boxes))
    for sweep in range(NUM_HEIGHT_SWEEPS):
        is_forward, is_late = sweep % 2 == 0, sweep >= NUM_HEIGHT_SWEEPS // 2
        for boxes in columns if is_forward else columns[::-1]:
            wanted = [
                pull(box, is_forward=is_forward or is_late, is_backward=not is_forward or is_late)
                for box in boxes
            ]
            _settle(boxes, wanted)
    # what nothing else holds stands level with what leads to it, or with what follows
    for boxes in columns:
        _settle(boxes, [_level(box, before, after) for box in boxes])
    for boxes in columns[::-1]:
        _settle(boxes, [_level(box, after, before) for box in boxes])
    top = min(box.y for boxes in columns for box in boxes)
    for boxes in columns:
        for box in boxes:
            box.y -= top
    return max(box.y + box.height + box.below for boxes in columns for box in boxes)


def _level(box: Box, near: Neighbours, far: Neighbours) -> float:
    """Return the middle of the only neighbour on the near side, if one edge alone joins both; else its own.

    A box with no neighbours on the far side goes level with one that has others too.
    """
    beside = near.get(box, ())
    if len(beside) != 1 or (len(far[beside[0]]) > 1 and box in far):
        return box.middle
    return beside[0].middle


def _settle(boxes: Sequence[Box], wanted: Sequence[float]) -> None:
    """Place the boxes of a column as near as can be to the wanted middles, in order and apart.

    The least squares under "each at least so far below the one before": pool adjacent violators (Barlow et
    al., "Statistical Inference under Order Restrictions", 1972).
    """
    offsets = [0.0]
    for above, below in pairwise(boxes):
        gap = EDGE_GAP_PX if above.is_thin or below.is_thin else BOX_GAP_PX
        offsets.append(offsets[-1] + above.height / 2 + above.below + gap + below.height / 2)
    blocks: list[tuple[float, float, int]] = []  # mean, weight, boxes
    for box, middle, offset in zip(boxes, wanted, offsets, strict=True):
        mean, weight, count = middle - offset, 4.0 if box.kind == "waypoint" else 1.0, 1
        while blocks and blocks[-1][0] >= mean:
            other, other_weight, other_count = blocks.pop()
            mean = (mean * weight + other * other_weight) / (weight + other_weight)
            weight, count = weight + other_weight, count + other_count
        blocks.append((mean, weight, count))
    means = (mean for mean, _, count in blocks for _ in range(count))
    for box, mean, offset in zip(boxes, means, offsets, strict=True):
        box.y = mean + offset - box.height / 2


def place_columns(columns: Columns, gaps: Iterable[float]) -> float:
    """Give every box its x and the borders of its column; return the width of all."""
    x = width = 0.0
    for boxes, gap in zip(columns, gaps, strict=True):
        end = x + max(box.whole_width for box in boxes)
        for box in boxes:
            if box.kind == "waypoint":
                box.width = end - x  # an edge passes a column straight
            box.x = x + (end - x - box.whole_width) / 2 + box.left
            box.column_x, box.column_end = x, end
        width, x = end, end + gap
    return width


def edges_across(chains: Chains, num_columns: int) -> list[int]:
    """Return how many edges pass from each column to the next one."""
    found = [0] * max(num_columns - 1, 0)
    for chain in chains:
        for left, _ in pairwise(chain):
            found[left.layer] += 1
    return found
