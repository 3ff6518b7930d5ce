"""What stands around the layout detector: its output to regions, regions to pictures, and the report.

Boxes are [x1, y1, x2, y2] as fractions of the page, so that nobody needs to know how large it was.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

import hami
from hami.backends.image.picture import as_picture

KINDS = (
    "text",
    "title",
    "figure",
    "figure_caption",
    "table",
    "table_caption",
    "header",
    "footer",
    "reference",
    "equation",
)
Floats = npt.NDArray[np.float32]


def decode(distances: Floats, stride: int, width: int) -> Floats:
    """Return the boxes of all cells of one grid, Nx4 in pixels of the network's input.

    For each side of its box a cell gives a distribution over whole strides, whose mean is the distance.
    """
    cells = np.arange(len(distances))
    columns = math.ceil(width / stride)
    x, y = (cells % columns + 0.5) * stride, (cells // columns + 0.5) * stride
    logits = distances.reshape(len(distances), 4, -1)
    weights = np.exp(logits - logits.max(axis=2, keepdims=True))
    left, top, right, bottom = ((weights @ np.arange(logits.shape[2])) / weights.sum(axis=2)).T * stride
    return np.stack([x - left, y - top, x + right, y + bottom], 1).astype(np.float32)


def overlap(box: Floats, others: Floats) -> Floats:
    """Return the area that a box shares with each of the others, over the area of both together."""
    low, high = np.maximum(box[:2], others[:, :2]), np.minimum(box[2:], others[:, 2:])
    shared = np.prod(np.clip(high - low, 0, None), axis=1)
    areas = np.prod(others[:, 2:] - others[:, :2], axis=1)
    both: Floats = shared / np.maximum(np.prod(box[2:] - box[:2]) + areas - shared, 1e-6)
    return both


def keep_best(boxes: Floats, scores: Floats, max_overlap: float) -> list[int]:
    """Return the indices of boxes that share little with a better one, the best first."""
    kept: list[int] = []
    for index in np.argsort(-scores, kind="stable"):
        if not kept or overlap(boxes[index], boxes[kept]).max() <= max_overlap:
            kept.append(int(index))
    return kept


@hami.register
class LayoutRegions(hami.Backend):
    """Turn what the layout network gives into a list of {`kind`, `box`, `score`}, from top to bottom."""

    group_by = "none"
    height = hami.param(800, min=1, unit="px", doc="rows of the network's input")
    width = hami.param(608, min=1, unit="px", doc="columns of the network's input")
    threshold = hami.param(0.5, min=0, max=1, doc="regions that the network is less sure of are dropped")
    max_overlap = hami.param(0.5, min=0, max=1, doc="of two regions that share more, the better one stays")

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` of every item."""
        for item in batch:
            item["result"] = self.regions(list(item["data"].values()))

    def regions(self, arrays: list[Any]) -> list[dict[str, Any]]:
        """Return the regions of a page, from the scores and distances of four grids."""
        flat = [np.asarray(array, np.float32) for array in arrays]
        flat = [array.reshape(array.shape[-2:]) for array in flat]
        scores = sorted((array for array in flat if array.shape[1] == len(KINDS)), key=len, reverse=True)
        distances = sorted((array for array in flat if array.shape[1] != len(KINDS)), key=len, reverse=True)
        strides = [8 * 2**level for level in range(len(scores))]
        boxes = np.concatenate(
            [decode(grid, stride, self.width) for grid, stride in zip(distances, strides, strict=True)]
        )
        size = np.array([self.width, self.height] * 2, np.float32)
        boxes = np.clip(boxes / size, 0, 1)
        all_scores = np.concatenate(scores)
        best, kinds = all_scores.max(axis=1), all_scores.argmax(axis=1)
        likely = np.flatnonzero(best >= self.threshold)
        kept = likely[keep_best(boxes[likely], best[likely], self.max_overlap)]
        found = [
            {"kind": KINDS[kinds[index]], "box": boxes[index].tolist(), "score": float(best[index])}
            for index in kept
        ]
        return sorted(found, key=lambda region: (region["box"][1], region["box"][0]))


@hami.register
class CropFigures(hami.Backend):
    """Cut the figures out of `page`: regions -> a list of pictures, in the order of the regions."""

    group_by = "none"

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` of every item; a page without figures gives an empty list."""
        for item in batch:
            page = as_picture(item["page"])
            boxes = [region["box"] for region in item["data"] if region["kind"] == "figure"]
            item["result"] = [crop(page, box) for box in boxes]


def crop(page: Any, box: list[float]) -> Any:
    """Return a copy of the pixels inside a box, at least one."""
    height, width = page.shape[:2]
    left, top = min(int(box[0] * width), width - 1), min(int(box[1] * height), height - 1)
    right, bottom = max(math.ceil(box[2] * width), left + 1), max(math.ceil(box[3] * height), top + 1)
    return page[top:bottom, left:right].copy()


@hami.register
class PageReport(hami.Backend):
    """Put the labels of the figures (`data`, in their order) beside their `regions`."""

    group_by = "none"

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` of every item: the regions, those of kind `figure` with `labels`."""
        for item in batch:
            labels = iter(item["data"])
            item["result"] = [
                {**region, "labels": next(labels)} if region["kind"] == "figure" else region
                for region in item["regions"]
            ]
