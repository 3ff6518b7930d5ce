"""What stands around the model of file types: which bytes it sees, and what its scores mean.

The rules are those of the package `magika`: 1024 bytes from the start and from the end, without white space,
and no model for less than 8 bytes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import hami

NUM_BYTES = 1024
NUM_BYTES_READ = 4096
FEWEST_BYTES = 8
PADDING = 256
"""What stands where a file has no more bytes: one above the largest of them."""


@hami.condition("too_short")
def is_too_short(item: dict[str, Any]) -> bool:
    """Say whether a file holds too little for the model."""
    return len(item["data"][:NUM_BYTES_READ].strip()) < FEWEST_BYTES


@hami.register
class ShortFile(hami.Backend):
    """Tell text from anything else by its encoding alone."""

    batch_range = (1, 64)
    group_by = "none"

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` of every item to {`label`, `score`, `is_sure`}."""
        for item in batch:
            try:
                bytes(item["data"]).decode()
            except UnicodeDecodeError:
                label = "unknown"
            else:
                label = "txt" if item["data"] else "empty"
            item["result"] = {"label": label, "score": 1.0, "is_sure": True}


@hami.register
class FirstAndLastBytes(hami.Backend):
    """Turn a file into 2048 numbers, its first and its last bytes, so that all files have one shape."""

    batch_range = (1, 64)
    group_by = "none"

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` of every item to an int32 array of shape (2048,)."""
        for item in batch:
            first = np.frombuffer(item["data"][:NUM_BYTES_READ].lstrip()[:NUM_BYTES], np.uint8)
            last = np.frombuffer(item["data"][-NUM_BYTES_READ:].rstrip()[-NUM_BYTES:], np.uint8)
            features = np.full(2 * NUM_BYTES, PADDING, np.int32)
            features[: len(first)] = first
            features[2 * NUM_BYTES - len(last) :] = last
            item["result"] = features


@hami.register
class FileType(hami.Backend):
    """Turn the scores into {`label`, `score`, `is_sure`}; each label has a score from which on it is sure."""

    batch_range = (1, 64)
    group_by = "none"
    config = hami.param(type="path", doc="the labels of the model and their thresholds, as JSON")

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Read the labels."""
        config = json.loads(Path(self.config).read_text(encoding="utf-8"))
        self.labels: list[str] = config["target_labels_space"]
        self.thresholds: dict[str, float] = config["thresholds"]
        self.default_threshold: float = config["medium_confidence_threshold"]
        self.other_names: dict[str, str] = config["overwrite_map"]

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` of every item."""
        for item in batch:
            scores = np.asarray(item["data"]).reshape(-1)
            best = int(scores.argmax())
            label, score = self.labels[best], float(scores[best])
            item["result"] = {
                "label": self.other_names.get(label, label),
                "score": score,
                "is_sure": score >= self.thresholds.get(label, self.default_threshold),
            }
