"""Which way up a line is: a crop to the input of the orientation model, and its answer to an upright crop.

`pipeline.toml` imports this module; its two backends stand before and after the model in node `turn`.
"""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

import hami
from hami.backends.image.tensor import planes, tables

HEIGHT_PX, WIDTH_PX = 48, 192
UPSIDE_DOWN = 1  # index of the model's second class


def orientation_input(
    image: npt.NDArray[np.uint8], table: list[npt.NDArray[np.float32]]
) -> npt.NDArray[np.float32]:
    """Resize a crop to 48 rows and at most 192 columns, and fill the rest of 3x48x192 with zeros."""
    height, width = image.shape[:2]
    filled = min(WIDTH_PX, math.ceil(HEIGHT_PX * width / height))
    result = np.zeros((3, HEIGHT_PX, WIDTH_PX), np.float32)
    result[:, :, :filled] = planes(cv2.resize(image, (filled, HEIGHT_PX)), table)
    return result


@hami.register
class OrientationInput(hami.Backend):
    """Turn a {`image`, `box`} into the orientation model's input, and keep it as `line` for `TurnUpright`."""

    group_by = "none"

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Make the table pixel -> network value."""
        self.table = tables(1 / 255, [0.5], [0.5])

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` and `line` of every item."""
        for item in batch:
            item["line"] = item["data"]
            item["result"] = orientation_input(item["data"]["image"], self.table)


@hami.register
class TurnUpright(hami.Backend):
    """Turn the crop by 180 degrees where the model says so."""

    group_by = "none"
    turn_threshold = hami.param(0.9, min=0, max=1, doc="probability above which a line counts as upside down")

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` to the {`image`, `box`} that came in, upright."""
        for item in batch:
            line = item.pop("line")
            probabilities = np.asarray(item["data"]).reshape(-1)
            is_upside_down = (
                int(probabilities.argmax()) == UPSIDE_DOWN
                and probabilities[UPSIDE_DOWN] > self.turn_threshold
            )
            item["result"] = (
                {**line, "image": cv2.rotate(line["image"], cv2.ROTATE_180)} if is_upside_down else line
            )
