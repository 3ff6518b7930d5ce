"""Random numbers by counting: a number depends on seed, answer and position, and on nothing else.

So a request draws the same tokens alone, among others, in any order, and after it was preempted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

_STEP, _FIRST, _SECOND = (
    np.uint64(value) for value in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)
_MASK = (1 << 64) - 1


def _mixed(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the finalizer of SplitMix64: a permutation of 64 bits that leaves no pattern of its input."""
    values = (values ^ (values >> np.uint64(30))) * _FIRST
    values = (values ^ (values >> np.uint64(27))) * _SECOND
    return values ^ (values >> np.uint64(31))


def uniforms(seeds: Sequence[int], answers: Sequence[int], positions: Sequence[int]) -> np.ndarray[Any, Any]:
    """Return a number of [0, 1) in float64 for each (seed, answer of the request, position of the token)."""
    state = np.array([seed & _MASK for seed in seeds], dtype=np.uint64)
    for part in (answers, positions):
        state = _mixed(state + _STEP) ^ (np.array(part, dtype=np.uint64) * _STEP)
    return (_mixed(state + _STEP) >> np.uint64(11)).astype(np.float64) * 2.0**-53
