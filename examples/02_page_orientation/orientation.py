"""What stands before and after the page orientation model: the page's middle, the answer in degrees."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

import hami
from hami.backends.image.picture import as_picture


@hami.register
class MiddleSquare(hami.Backend):
    """Resize a picture until its shorter side is `short_side`, and cut out the middle `side` x `side`."""

    group_by = "none"
    short_side = hami.param(256, min=1, unit="px", doc="length of the shorter side after resizing")
    side = hami.param(224, min=1, unit="px", doc="sides of the result; at most `short_side`")

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Check the two lengths."""
        if self.side > self.short_side:
            raise ValueError(f"`side` = {self.side} is larger than `short_side` = {self.short_side}")

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` of every item to a `side` x `side` picture."""
        for item in batch:
            picture = as_picture(item["data"])
            height, width = (round(n * self.short_side / min(picture.shape[:2])) for n in picture.shape[:2])
            resized = cv2.resize(picture, (width, height), interpolation=cv2.INTER_LANCZOS4)
            top, left = (height - self.side) // 2, (width - self.side) // 2
            item["result"] = resized[top : top + self.side, left : left + self.side]


@hami.register
class PageAngle(hami.Backend):
    """Turn the four probabilities into {`angle`, `score`}: the page is turned clockwise by `angle`."""

    group_by = "none"

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` of every item."""
        for item in batch:
            probabilities = np.asarray(item["data"]).reshape(-1)
            best = int(probabilities.argmax())
            item["result"] = {"angle": 90 * best, "score": float(probabilities[best])}
