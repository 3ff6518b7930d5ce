"""Engines for the tests of the server: they show which tensors came in."""

from __future__ import annotations

from typing import Any

import numpy as np

import hami
from hami import TensorSpec

DTYPES = {
    "BOOL": "bool",
    "UINT8": "uint8",
    "UINT16": "uint16",
    "UINT32": "uint32",
    "UINT64": "uint64",
    "INT8": "int8",
    "INT16": "int16",
    "INT32": "int32",
    "INT64": "int64",
    "FP16": "float16",
    "BF16": "bfloat16",
    "FP32": "float32",
    "FP64": "float64",
}


def register_echo(name: str, dtype: str, shape: tuple[int, ...] = (-1, 3)) -> None:
    """Register an engine whose output `y` is its input `x`."""

    def init(self: Any, params: dict[str, Any], options: dict[str, Any]) -> None:
        self.inputs, self.outputs = [TensorSpec("x", dtype, shape)], [TensorSpec("y", dtype, shape)]

    def run(self: Any, arrays: list[Any]) -> list[Any]:
        return list(arrays)

    hami.register(name, type(name, (hami.Engine,), {"init": init, "run": run}))


def register_arithmetic(name: str = "Arithmetic") -> list[tuple[int, ...]]:
    """Register an engine from `a` and `b` to `sum` and `product`; returns the shapes of its runs."""
    shapes: list[tuple[int, ...]] = []

    def init(self: Any, params: dict[str, Any], options: dict[str, Any]) -> None:
        self.inputs = [TensorSpec("a", "float32", (-1, 2)), TensorSpec("b", "float32", (-1, 2))]
        self.outputs = [TensorSpec("sum", "float32", (-1, 2)), TensorSpec("product", "float32", (-1, 2))]

    def run(self: Any, arrays: list[Any]) -> list[Any]:
        shapes.append(arrays[0].shape)
        return [arrays[0] + arrays[1], arrays[0] * arrays[1]]

    hami.register(name, type(name, (hami.Engine,), {"init": init, "run": run}))
    return shapes


def values_of(datatype: str, rows: int = 2) -> np.ndarray[Any, Any]:
    """Return an array [rows, 3] of a datatype with its extreme values; bfloat16 is of ml_dtypes."""
    if datatype == "BF16":
        import ml_dtypes

        return np.array([[1.5, -2.0, 3.25]] * rows, ml_dtypes.bfloat16)
    dtype = np.dtype(DTYPES[datatype])
    if dtype.kind == "b":
        row = [True, False, True]
    elif dtype.kind == "f":
        row = [0.5, float(np.finfo(dtype).max), float(np.finfo(dtype).min)]
    else:
        row = [1, np.iinfo(dtype).max, np.iinfo(dtype).min]
    return np.array([row] * rows, dtype)
