"""What a drawing is made of: labels, edges, rows and regions, and the style that says what to draw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..plan import PlannedNode
from .columns import Box

INPUT = -1
"""In the place of a node: who sends the request."""

ANSWER = -2

SizeOf = Callable[[PlannedNode], tuple[float, float]]
"""Says the width and the height of a node's box."""


@dataclass(frozen=True)
class Label:
    """Lines of text with the room they take."""

    lines: tuple[str, ...]
    width: float
    height: float


LabelsOf = Callable[[int, int], tuple[Label | None, Label | None]]
"""Says what stands on the edge from a node, or INPUT, to another: where it starts, and where it ends."""


@dataclass(frozen=True)
class Style:
    """What there is to draw, and how much room it has.

    `has_ends`: boxes for where requests come from and where the answer goes; `has_taken`: edges from nodes of
    which a `map` takes keys though they are no predecessors; `max_width`: a row that is wider is folded where
    one edge alone passes; `frame_width` is that of a frame at least, and `enter_px` how far it stands below
    its operator.
    """

    size_of: SizeOf
    labels_of: LabelsOf = lambda source, target: (None, None)
    end_size: tuple[float, float] = (0.0, 0.0)
    has_ends: bool = False
    has_taken: bool = False
    frame_width: float = 0.0
    enter_px: float = 40.0
    max_width: float = float("inf")


@dataclass
class Edge:
    """An edge with all boxes that it passes, waypoints and labels too.

    `kind`: `next`; `taken` (keys of a node that is no predecessor); `request` and `answer` at the ends.
    """

    source: int
    target: int
    kind: str
    boxes: list[Box] = field(default_factory=list)


@dataclass
class Back:
    """An edge by which a Restart leads back; `lane` counts from the lowest one above its row."""

    source: int
    target: int
    lane: int = 0


@dataclass
class Row:
    """What is free above a row: `fold_y` for an edge from the last row, `lane_y` for those that lead back."""

    fold_y: float
    lane_y: float

    def move(self, y: float) -> None:
        """Move it down."""
        self.fold_y += y
        self.lane_y += y


@dataclass
class RegionLayout:
    """The boxes of one region, its edges, and its frame; `owner` is the operator above the frame."""

    owner: int | None = None
    boxes: dict[int, Box] = field(default_factory=dict)
    edges: list[Edge] = field(default_factory=list)
    backs: list[Back] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    labels: list[Box] = field(default_factory=list)
    x: float = 0.0
    y: float = 0.0
    width: float = 0.0
    height: float = 0.0

    def all_boxes(self) -> list[Box]:
        """Return the boxes, the labels and the waypoints, each once."""
        return list(
            dict.fromkeys([*self.boxes.values(), *(box for edge in self.edges for box in edge.boxes)])
        )
