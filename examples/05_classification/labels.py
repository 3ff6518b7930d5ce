"""What stands after the network: scores of 1000 classes to the likeliest labels, with names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import hami


@hami.register
class TopLabels(hami.Backend):
    """Turn the scores of a network into its `count` likeliest labels: a list of {`label`, `probability`}."""

    group_by = "none"
    names = hami.param(type="path", doc="JSON file that maps the number of a class to its names")
    count = hami.param(3, min=1, doc="how many labels")

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Read the names."""
        named = json.loads(Path(self.names).read_text(encoding="utf-8"))
        self.labels = [named[str(number)] for number in range(len(named))]

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` of every item, the likeliest label first."""
        for item in batch:
            scores = np.asarray(item["data"], np.float64).reshape(-1)
            weights = np.exp(scores - scores.max())
            probabilities = weights / weights.sum()
            best = np.argsort(-probabilities, kind="stable")[: self.count]
            item["result"] = [
                {"label": self.labels[number], "probability": float(probabilities[number])} for number in best
            ]
