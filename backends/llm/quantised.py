"""The types that tensors have in GGUF files, and their blocks as numbers.

A row is a sequence of blocks. A block of a quantised type holds 32 weights: a scale in float16, with Q4_1 a
minimum in float16, then the weights; of two that share a byte the low half is the earlier, the high half the
one 16 further.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class TensorType:
    """A type: how many weights a block holds, in how many bytes, and how a block becomes numbers."""

    name: str
    block: int
    block_bytes: int
    decode: Callable[[Array], Array]

    def row_bytes(self, length: int) -> int:
        """Return the bytes of a row of `length` weights."""
        return length // self.block * self.block_bytes


def dequantised(rows: Array, type_: TensorType) -> Array:
    """Return rows of blocks, [rows, bytes], as float32 [rows, weights]."""
    blocks = np.ascontiguousarray(rows).reshape(-1, type_.block_bytes)
    return type_.decode(blocks).reshape(rows.shape[0], -1)


def _scale(blocks: Array, start: int) -> Array:
    return np.ascontiguousarray(blocks[:, start : start + 2]).view("<f2").astype(np.float32)


def _halves(packed: Array) -> Array:
    return np.concatenate([packed & 15, packed >> 4], axis=1)


def _q4_0(blocks: Array) -> Array:
    return (_halves(blocks[:, 2:]).astype(np.float32) - 8) * _scale(blocks, 0)


def _q4_1(blocks: Array) -> Array:
    return _halves(blocks[:, 4:]).astype(np.float32) * _scale(blocks, 0) + _scale(blocks, 2)


def _q8_0(blocks: Array) -> Array:
    return np.ascontiguousarray(blocks[:, 2:]).view(np.int8).astype(np.float32) * _scale(blocks, 0)


def _f32(blocks: Array) -> Array:
    return blocks.view("<f4").copy()


def _f16(blocks: Array) -> Array:
    return blocks.view("<f2").astype(np.float32)


def _bf16(blocks: Array) -> Array:
    return (blocks.view("<u2").astype(np.uint32) << 16).view(np.float32)


# By their numbers in the format.
TYPES = {
    0: TensorType("F32", 1, 4, _f32),
    1: TensorType("F16", 1, 2, _f16),
    2: TensorType("Q4_0", 32, 18, _q4_0),
    3: TensorType("Q4_1", 32, 20, _q4_1),
    8: TensorType("Q8_0", 32, 34, _q8_0),
    30: TensorType("BF16", 1, 2, _bf16),
}
