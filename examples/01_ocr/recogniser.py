"""What a line says: an upright crop to the input of the CTC recogniser, and its answer to text.

Only crops of one width run together, so the text of a line does not depend on which lines share its batch.
`bucket` pads widths to a multiple, for fuller batches on hardware that gains from them; the network sees the
padding, which can change a space or a doubtful letter, so the default is the exact width.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

import hami
from hami.backends.image.tensor import planes, tables

HEIGHT_PX, NARROWEST_PX = 48, 320
BLANK = 0  # class 0 separates repeated letters


def recogniser_input(
    image: npt.NDArray[np.uint8], table: list[npt.NDArray[np.float32]], bucket: int
) -> npt.NDArray[np.float32]:
    """Resize a crop to 48 rows, proportions kept, and add zeros up to a multiple of `bucket` columns."""
    height, width = image.shape[:2]
    wanted = HEIGHT_PX * width / height
    filled = int(wanted) if wanted > NARROWEST_PX else math.ceil(wanted)
    columns = max(NARROWEST_PX, math.ceil(filled / bucket) * bucket)
    result = np.zeros((3, HEIGHT_PX, columns), np.float32)
    result[:, :, :filled] = planes(cv2.resize(image, (filled, HEIGHT_PX)), table)
    return result


def ctc_text(probabilities: npt.NDArray[np.float32], characters: list[str]) -> tuple[str, float]:
    """Read the best class of every step without repetitions and blanks; the score is the mean of those."""
    best = probabilities.argmax(1)
    is_kept = best != BLANK
    is_kept[1:] &= best[1:] != best[:-1]
    if not is_kept.any():
        return "", 0.0
    scores = probabilities[np.flatnonzero(is_kept), best[is_kept]]
    return "".join(characters[index] for index in best[is_kept]), float(scores.mean(dtype=np.float64))


@functools.cache
def read_letters(model: str) -> list[str]:
    """Return what each class of a recogniser stands for: blank, the letters in its metadata, space."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = (
        onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    )  # nothing is run here
    metadata = onnxruntime.InferenceSession(model, options).get_modelmeta().custom_metadata_map
    return ["", *metadata["character"].splitlines(), " "]


@hami.register
class RecogniserInput(hami.Backend):
    """Turn an upright {`image`, `box`} into the recogniser's 3x48xW input, and keep the box for `CtcText`."""

    group_by = "none"
    bucket = hami.param(1, min=1, unit="px", doc="widths are padded to multiples of it; 1: exact widths")

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Make the table pixel -> network value."""
        self.table = tables(1 / 255, [0.5], [0.5])

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` and `box` of every item."""
        for item in batch:
            item["box"] = item["data"]["box"]
            item["result"] = recogniser_input(item["data"]["image"], self.table, self.bucket)


@hami.register
class CtcText(hami.Backend):
    """Turn the recogniser's probabilities into {`text`, `box`, `score`}."""

    group_by = "none"
    model = hami.param(type="path", doc="the recogniser, whose metadata names its letters")

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Read the letters."""
        self.letters = read_letters(str(self.model))

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` of every item, and take its `box` away."""
        for item in batch:
            probabilities = np.asarray(item["data"])
            text, score = ctc_text(probabilities.reshape(probabilities.shape[-2:]), self.letters)
            item["result"] = {"text": text, "box": item.pop("box"), "score": score}


@hami.register
class JoinLines(hami.Backend):
    """Keep the lines that were read with confidence, in the order in which they came."""

    group_by = "none"
    text_score = hami.param(0.5, min=0, max=1, doc="lines with a lower score are left out")

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` of every item to a list of {`text`, `box`, `score`}."""
        for item in batch:
            item["result"] = [line for line in item["data"] if line["score"] >= self.text_score]
