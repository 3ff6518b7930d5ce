"""Arrays among the results of a pipeline, of whichever library, as arrays of numpy with a wire type."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _core

BF16 = "BF16"
# The numbers of the Open Inference Protocol, with numpy's names.
NUMBERS = {
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
    BF16: "bfloat16",
    "FP32": "float32",
    "FP64": "float64",
}
OF_DTYPE = {dtype: datatype for datatype, dtype in NUMBERS.items()}
# Of arrays that numpy knows and that lie in the order of the wire: the name of a type is slow to make.
_OF_NATIVE = {
    np.dtype(dtype).newbyteorder("<"): datatype for datatype, dtype in NUMBERS.items() if datatype != BF16
}


def to_array(value: Any) -> tuple[str, np.ndarray[Any, Any]] | None:
    """Return datatype and array of a result, None where it is no array of numbers.

    The array is contiguous, in memory of the host. Of BF16 it holds the bits, as uint16.
    """
    if isinstance(value, _core.Tensor) and value.dtype != "bfloat16":
        value = np.from_dlpack(value)
    elif not isinstance(value, (np.ndarray, np.generic)):
        if not hasattr(value, "__dlpack__"):
            return None
        if hasattr(value, "detach"):  # torch
            value = value.detach().cpu()
        if str(value.dtype).rpartition(".")[2] == "bfloat16":
            value = _core.reinterpret(value, "uint16")
            return BF16, np.ascontiguousarray(value)
        value = np.from_dlpack(value)
    array = np.asarray(value)
    datatype = _OF_NATIVE.get(array.dtype)
    if datatype is not None and array.flags.c_contiguous:
        return datatype, array
    if array.dtype.name == "bfloat16":  # of the package ml_dtypes
        return BF16, np.ascontiguousarray(array).view(np.uint16)
    datatype = OF_DTYPE.get(array.dtype.name)
    if datatype is None:
        return None
    shape = array.shape
    # numpy makes a scalar an array of one.
    return datatype, np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(shape)


def to_numbers(datatype: str, array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the array with values that JSON can show: those of BF16 as float32."""
    if datatype != BF16:
        return array
    wide: np.ndarray[Any, Any] = array.astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32)
