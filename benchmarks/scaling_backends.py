"""The backend of `scaling.py`; worker processes import it from here by its name."""

from __future__ import annotations

from typing import Any

import numpy as np

import hami

NUM_STEPS = 20_000  # one or two milliseconds of pure Python


def compute(data: Any) -> Any:
    """Return `data` plus a number that takes long to find."""
    remainder = 0
    # An int of this call: without the GIL, threads of CPython 3.13 take turns at counting the references to a
    # constant that they share, and two of them are no faster than one.
    modulus = int("1000003")
    for i in range(NUM_STEPS):
        remainder = (remainder * 31 + i) % modulus
    return np.asarray(data) + np.float32(remainder)


@hami.register
class Steps(hami.Backend):
    """Compute in pure Python for a while, with a tensor in and a tensor out."""

    batch_range = (1, 16)

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` to `data` plus a number that takes long to find."""
        for item in batch:
            item["result"] = compute(item["data"])
