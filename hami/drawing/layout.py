"""Where everything in the drawing of a plan goes: nodes to the right, labels on edges, subgraphs inside.

A subgraph has a frame below the operator that enters it, and both take their place in the graph around them
as one box, so that nothing passes through the frame. Labels stand in columns of their own between those of
nodes. Who draws says how large the box of a node is, and what stands on an edge; `lay_out` is pure geometry,
in pixels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import accumulate, pairwise

from ..plan import Plan
from .columns import (
    Box,
    Columns,
    edges_across,
    place_columns,
    place_heights,
    reduce_crossings,
)
from .pieces import ANSWER, INPUT, Back, Edge, Label, RegionLayout, Row, Style

GAP_PX = 44.0
"""Between two columns of nodes."""

LABEL_GAP_PX = 24.0
"""Between a column of labels and the columns beside it."""

SLOPE = 0.14
"""How wide a gap is at least for each pixel that its steepest edge climbs."""

MAX_GAP_PX = 160.0
REGION_PADDING_PX = 22.0
LANE_PX = 16.0
"""For an edge that leads back, above everything else of its region."""

ROW_GAP_PX = 64.0
FOLDED_FROM = 1.3
"""A graph that is not much wider than a row is left in one."""

WAYPOINT_PX = 4.0


def lay_out(plan: Plan, style: Style) -> list[RegionLayout]:
    """Place all regions; each one but the first stands below the first operator that enters it."""
    owners: dict[int, int] = {}
    for index, node in enumerate(plan.nodes):
        if node.target is not None:
            owners.setdefault(plan.nodes[node.target].region, index)
    layouts: dict[int, RegionLayout] = {}
    inside_out = _from_the_outside(plan, owners)[::-1]
    for number in inside_out:
        layouts[number] = _Region(plan, number, style, owners, layouts).placed()
    for number in reversed(inside_out):
        layout = layouts[number]
        if layout.owner is not None:
            owner = layouts[plan.nodes[layout.owner].region].boxes[layout.owner]
            x = owner.x - owner.left + _frame_shift(owner, layout, plan)
            _move(layout, x, owner.y + owner.height + style.enter_px)
        else:
            _move(layout, REGION_PADDING_PX, REGION_PADDING_PX)
    return [layouts[number] for number in range(len(plan.regions))]


def _from_the_outside(plan: Plan, owners: dict[int, int]) -> list[int]:
    """Return the regions, each after the one that its owner is in."""
    inner: dict[int, list[int]] = {}
    for number, owner in owners.items():
        inner.setdefault(plan.nodes[owner].region, []).append(number)
    order = [0]
    for number in order:
        order += inner.get(number, [])
    return order


def _move(layout: RegionLayout, x: float, y: float) -> None:
    layout.x, layout.y = x, y
    _shift(layout, x, y)


def _shift(layout: RegionLayout, x: float, y: float) -> None:
    """Shift what lies in a region, whose own place stays."""
    for box in layout.all_boxes():
        box.x += x
        box.y += y
        box.column_x += x
        box.column_end += x
    for row in layout.rows:
        row.move(y)


def _frame_shift(owner: Box, layout: RegionLayout, plan: Plan) -> float:
    """Return how far right of its room the frame of an operator begins: its entry stands below it."""
    return max(owner.left + owner.width / 2 - _entry_middle(plan, layout), 0.0)


def _entry_middle(plan: Plan, layout: RegionLayout) -> float:
    """Return the x of the middle of the node that an operator enters, from the left of its frame."""
    assert layout.owner is not None
    target = plan.nodes[layout.owner].target
    assert target is not None
    entry = layout.boxes[target]
    return entry.x + entry.width / 2 - layout.x


class _Region:
    """Lays out one region, whose inner regions are laid out already."""

    def __init__(
        self, plan: Plan, number: int, style: Style, owners: dict[int, int], inner: dict[int, RegionLayout]
    ) -> None:
        self.plan = plan
        self.number = number
        self.style = style
        self.layout = RegionLayout(owners.get(number))
        self.inner = {layout.owner: layout for layout in inner.values()}
        self.members = [index for index, node in enumerate(plan.nodes) if node.region == number]
        self.has_ends = style.has_ends and number == 0

    def placed(self) -> RegionLayout:
        """Return the region with its frame at 0, 0."""
        layout = self.layout
        layout.boxes = {index: self._box(index) for index in self.members}
        ends = dict(layout.boxes)
        if self.has_ends:
            ends[INPUT], ends[ANSWER] = (Box(None, *self.style.end_size, kind="end") for _ in range(2))
        layout.edges = list(self._edges())
        layout.backs = list(self._backs())
        columns, labelled = self._columns(ends)
        chains = [edge.boxes for edge in layout.edges]
        reduce_crossings(columns, chains)
        place_heights(columns, chains)
        place_columns(columns, _gaps(columns, chains, labelled))
        for number, boxes in enumerate(columns):
            boxes[0].is_top = number > 0 or layout.owner is None
        self._fold(columns, chains)
        self._frame()
        return layout

    def _box(self, index: int) -> Box:
        node = self.plan.nodes[index]
        box = Box(node, *self.style.size_of(node))
        frame = self.inner.get(index)
        if frame is not None:
            box.left = max(_entry_middle(self.plan, frame) - box.width / 2, 0.0)
            end = _frame_shift(box, frame, self.plan) + frame.width
            box.right = max(end - box.left - box.width, 0.0)
            box.below = self.style.enter_px + frame.height
        return box

    def _edges(self) -> Iterator[Edge]:
        plan, region = self.plan, self.plan.regions[self.number]
        for index in self.members:
            for following in plan.nodes[index].next:
                yield Edge(index, following, "next")
        if self.style.has_taken:
            for index in self.members:
                taken = dict.fromkeys(entry.source for entry in plan.nodes[index].map or ())
                for source in taken:
                    is_request = source == INPUT and self.has_ends and index not in region.roots
                    if is_request or (source != INPUT and index not in plan.nodes[source].next):
                        yield Edge(source, index, "taken")
        if self.has_ends:
            for root in region.roots:
                yield Edge(INPUT, root, "request")
            yield Edge(region.output, ANSWER, "answer")

    def _backs(self) -> Iterator[Back]:
        for index in self.members:
            again = self.plan.nodes[index].again
            if again in self.layout.boxes:
                yield Back(index, again)

    def _columns(self, ends: dict[int, Box]) -> tuple[Columns, set[int]]:
        """Return the columns of nodes, labels and waypoints, and which of the columns hold labels."""
        layer = self._layers()
        labels = {id(edge): self._labels(edge) for edge in self.layout.edges}
        is_labelled = set()
        for edge in self.layout.edges:
            at_start, at_end = labels[id(edge)]
            is_labelled |= {layer[edge.source]} if at_start else set()
            is_labelled |= {layer[edge.target] - 1} if at_end else set()
        column_of, label_column = {}, {}
        num_columns = 0
        for number in range(max(layer.values()) + 1):
            column_of[number] = num_columns
            num_columns += 1
            if number in is_labelled:
                label_column[number] = num_columns
                num_columns += 1
        columns: Columns = [[] for _ in range(num_columns)]
        for index, box in ends.items():
            box.layer = column_of[layer[index]]
            columns[box.layer].append(box)
        for edge in self.layout.edges:
            at_start, at_end = labels[id(edge)]
            start, end = layer[edge.source], layer[edge.target]
            stands: dict[int, Label | None] = {label_column[end - 1]: at_end} if at_end else {}
            if at_start:
                stands[label_column[start]] = _merged(at_start, stands.get(label_column[start]))
            edge.boxes = [ends[edge.source]]
            for column in range(column_of[start] + 1, column_of[end]):
                between = _between(stands.get(column), column)
                columns[column].append(between)
                edge.boxes.append(between)
            edge.boxes.append(ends[edge.target])
            self.layout.labels += [box for box in edge.boxes if box.kind == "label"]
        return columns, set(label_column.values())

    def _labels(self, edge: Edge) -> tuple[Label | None, Label | None]:
        if edge.kind == "answer":
            return None, None
        return self.style.labels_of(edge.source, edge.target)

    def _layers(self) -> dict[int, int]:
        layer = dict.fromkeys([INPUT, *self.members] if self.has_ends else self.members, 0)
        if self.has_ends:
            layer.update((root, 1) for root in self.plan.regions[self.number].roots)
        for index in self.members:  # in topological order, so every predecessor is done
            for following in self.plan.nodes[index].next:
                layer[following] = max(layer[following], layer[index] + 1)
        if self.has_ends:
            layer[ANSWER] = layer[self.plan.regions[self.number].output] + 1
        return layer

    def _fold(self, columns: Columns, chains: Sequence[Sequence[Box]]) -> None:
        """Begin a new row wherever the graph becomes too wide and one edge alone leads on; place the rows."""
        cuts = self._cuts(columns, edges_across(chains, len(columns)))
        firsts = [0, *(at + 1 for at in cuts), len(columns)]
        y = right = 0.0
        for row, (first, end) in enumerate(pairwise(firsts)):
            boxes = [box for column in columns[first:end] for box in column]
            backs = [back for back in self.layout.backs if self.layout.boxes[back.source] in boxes]
            lanes_px = LANE_PX * len(backs)
            x, top = boxes[0].column_x, min(box.y for box in boxes)
            self.layout.rows.append(Row(y - ROW_GAP_PX / 2, y + lanes_px - LANE_PX / 2))
            for box in boxes:
                box.row = row
                box.x -= x
                box.column_x -= x
                box.column_end -= x
                box.y += y + lanes_px - top
            right = max(right, *(box.column_end for box in boxes))
            self.layout.height = max(box.y + box.height + box.below for box in boxes)
            y = self.layout.height + ROW_GAP_PX
            for lane, back in enumerate(sorted(backs, key=self._span)):
                back.lane = lane
        self.layout.width = right

    def _cuts(self, columns: Columns, across: Sequence[int]) -> list[int]:
        """Return the columns after which a row ends."""
        spans = [sorted(box.layer for box in self._ends_of(back)) for back in self.layout.backs]
        can_cut = [
            count == 1 and not any(start <= at < end for start, end in spans)
            for at, count in enumerate(across)
        ]
        num_nodes = [0, *accumulate(any(box.kind == "node" for box in boxes) for boxes in columns)]
        cuts: list[int] = []
        first = 0
        if columns[-1][0].column_end <= self.style.max_width * FOLDED_FROM:
            return cuts
        for column, boxes in enumerate(columns):
            if boxes[0].column_end - columns[first][0].column_x > self.style.max_width:
                places = (at for at in range(column - 1, first - 1, -1) if can_cut[at])
                left, all_nodes = num_nodes[first], num_nodes[-1]  # no row is for one node alone
                at = next((at for at in places if left + 1 < num_nodes[at + 1] < all_nodes - 1), None)
                if at is not None:
                    cuts.append(at)
                    first = at + 1
        return cuts

    def _ends_of(self, back: Back) -> tuple[Box, Box]:
        return self.layout.boxes[back.source], self.layout.boxes[back.target]

    def _span(self, back: Back) -> int:
        source, target = self._ends_of(back)
        return source.layer - target.layer

    def _frame(self) -> None:
        """Make room for the frame around everything."""
        layout = self.layout
        if layout.owner is None:
            return
        _shift(layout, REGION_PADDING_PX, REGION_PADDING_PX)
        layout.width = max(layout.width + 2 * REGION_PADDING_PX, self.style.frame_width)
        layout.height += 2 * REGION_PADDING_PX


def _between(label: Label | None, column: int) -> Box:
    """Return what stands on an edge in a column that it passes: its label, or a waypoint."""
    if label is None:
        return Box(None, 0.0, WAYPOINT_PX, column, kind="waypoint")
    return Box(None, label.width, label.height, column, kind="label", lines=label.lines)


def _merged(one: Label | None, two: Label | None) -> Label | None:
    """Return both labels as one, for an edge that has room for one."""
    if one is None or two is None:
        return one or two
    return Label(one.lines + two.lines, max(one.width, two.width), one.height + two.height)


def _gaps(columns: Columns, chains: Sequence[Sequence[Box]], labelled: Collection[int]) -> list[float]:
    """Return how far each column is from the next one."""
    steepest = [0.0] * len(columns)
    for chain in chains:
        for left, right in pairwise(chain):
            steepest[left.layer] = max(steepest[left.layer], abs(left.middle - right.middle))
    least = [
        LABEL_GAP_PX if number in labelled or number + 1 in labelled else GAP_PX
        for number in range(len(columns))
    ]
    return [max(gap, min(SLOPE * rise, MAX_GAP_PX)) for gap, rise in zip(least, steepest, strict=True)]
