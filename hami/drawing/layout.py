"""Where the boxes of a drawn graph go: layers from left to right, few crossings, subgraphs below.

Pure geometry over a Plan, in pixels; who draws says how large the box of a node is. An edge that skips layers
gets a waypoint in each of them, so that it passes between boxes instead of over them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ..plan import Plan, PlannedNode

GAP_X_PX = 64.0
GAP_Y_PX = 28.0
REGION_PADDING_PX = 22.0
WAYPOINT_PX = 17.0

SizeOf = Callable[[PlannedNode], tuple[float, float]]
"""Says the width and the height of a node's box."""

GapAfter = Callable[[Sequence[PlannedNode]], float]
"""Says how much room there is behind the nodes of one layer."""


@dataclass
class Box:
    """A node with its place, or (`node` is None) a waypoint of a long edge."""

    node: PlannedNode | None
    width: float
    height: float
    layer: int
    x: float = 0.0
    y: float = 0.0

    @property
    def middle(self) -> float:
        """The y of the edges that arrive and leave."""
        return self.y + self.height / 2


@dataclass
class RegionLayout:
    """The boxes of one region, the polylines of its edges, and its frame."""

    boxes: dict[int, Box] = field(default_factory=dict)
    edges: list[list[Box]] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0


def lay_out(plan: Plan, size_of: SizeOf, gap_after: GapAfter = lambda nodes: GAP_X_PX) -> list[RegionLayout]:
    """Place all regions: the main graph first, each other one below what enters it."""
    regions: list[RegionLayout] = []
    owners = {
        plan.nodes[node.target].region: index
        for index, node in enumerate(plan.nodes)
        if node.target is not None
    }
    placed: dict[int, Box] = {}
    y = REGION_PADDING_PX
    for number in range(len(plan.regions)):
        layout = _lay_out_region(plan, number, size_of, gap_after)
        inset = REGION_PADDING_PX if number else 0.0
        x = REGION_PADDING_PX
        owner = placed.get(owners.get(number, -1))
        if owner is not None:
            first = layout.boxes[plan.regions[number].roots[0]]
            x = max(x, owner.x + owner.width / 2 - first.x - first.width / 2 - inset)
        layout.x, layout.y = x, y
        for box in _all_boxes(layout):
            box.x += x + inset
            box.y += y + inset
        layout.width += 2 * inset
        layout.height += 2 * inset
        y += layout.height + 2 * GAP_Y_PX
        placed.update(layout.boxes)
        regions.append(layout)
    return regions


def _all_boxes(layout: RegionLayout) -> list[Box]:
    found = {id(box): box for edge in layout.edges for box in edge}
    found.update({id(box): box for box in layout.boxes.values()})
    return list(found.values())


def _lay_out_region(plan: Plan, number: int, size_of: SizeOf, gap_after: GapAfter) -> RegionLayout:
    members = [index for index, node in enumerate(plan.nodes) if node.region == number]
    layer = dict.fromkeys(members, 0)
    for index in members:  # topological order, so every predecessor is done
        for following in plan.nodes[index].next:
            layer[following] = max(layer[following], layer[index] + 1)
    layout = RegionLayout(
        {index: Box(plan.nodes[index], *size_of(plan.nodes[index]), layer[index]) for index in members}
    )
    layers: list[list[Box]] = [[] for _ in range(max(layer.values()) + 1)]
    for index in members:
        layers[layer[index]].append(layout.boxes[index])
    for index in members:
        for following in plan.nodes[index].next:
            edge = [layout.boxes[index]]
            for between in range(layer[index] + 1, layer[following]):
                waypoint = Box(None, 0.0, WAYPOINT_PX, between)
                layers[between].append(waypoint)
                edge.append(waypoint)
            layout.edges.append([*edge, layout.boxes[following]])
    _reduce_crossings(layers, layout.edges)
    _place(layers, layout, gap_after)
    return layout


def _reduce_crossings(layers: list[list[Box]], edges: list[list[Box]]) -> None:
    """Sort each layer by the mean place of its neighbours, from left to right and back, a few times."""
    before: dict[int, list[Box]] = {}
    after: dict[int, list[Box]] = {}
    for edge in edges:
        for left, right in pairwise(edge):
            before.setdefault(id(right), []).append(left)
            after.setdefault(id(left), []).append(right)
    for sweep in range(4):
        neighbours = before if sweep % 2 == 0 else after
        for boxes in layers if sweep % 2 == 0 else layers[::-1]:
            place = {id(box): float(i) for layer in layers for i, box in enumerate(layer)}
            mean = {}
            for box in boxes:
                near = neighbours.get(id(box), [])
                mean[id(box)] = sum(place[id(one)] for one in near) / len(near) if near else place[id(box)]
            boxes.sort(key=lambda box: mean[id(box)])


def _place(layers: list[list[Box]], layout: RegionLayout, gap_after: GapAfter) -> None:
    heights = [sum(box.height for box in boxes) + GAP_Y_PX * (len(boxes) - 1) for boxes in layers]
    layout.height = max(heights)
    x = 0.0
    for boxes, height in zip(layers, heights, strict=True):
        width = max(box.width for box in boxes)
        y = (layout.height - height) / 2
        for box in boxes:
            if box.node is None:
                box.width = width  # an edge passes a layer straight
            box.x = x + (width - box.width) / 2
            box.y = y
            y += box.height + GAP_Y_PX
        layout.width = x + width
        x += width + gap_after([box.node for box in boxes if box.node is not None])
