"""What callers hand over as an array, as a torch tensor that shares its memory where it can.

numpy arrays, DLPack objects (the core's own tensors among them), CUDA arrays, numbers and lists of numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils.dlpack import from_dlpack

from hami.errors import RequestError

CUDA_DLPACK_TYPE = 2
NUMPY_KINDS = "biufc"


def as_tensor(value: Any) -> torch.Tensor:
    """Return `value` as a tensor on the device where it is, without gradients.

    Memory is shared, but for read-only and reversed numpy arrays, and lists, which are copied. Raises
    RequestError `tensor-expected` for what is no array, `tensor-dtype` for types that torch does not have.
    """
    if isinstance(value, torch.Tensor):
        return _plain(value)
    if isinstance(value, (str, bytes, bytearray, memoryview, dict)) or value is None:
        raise _expected(value)
    try:
        if hasattr(value, "__array_interface__"):
            return from_numpy(value)
        if isinstance(value, (bool, int, float, list, tuple)):
            return _from_numbers(value)
        if hasattr(value, "__dlpack__"):
            return from_dlpack(value).detach()
        if hasattr(value, "__cuda_array_interface__"):
            return torch.as_tensor(value)
        if hasattr(value, "__array__"):
            return from_numpy(value)
    except RequestError:
        raise
    except (TypeError, ValueError, OverflowError, BufferError, RuntimeError) as error:
        message = f"a `{type(value).__name__}` cannot become a tensor: {error}"
        help = "pass a numpy array, a torch tensor, or numbers in rows of one length"
        raise RequestError(message, code="tensor-expected", help=help) from error
    raise _expected(value)


def from_numpy(value: Any) -> torch.Tensor:
    """Return a numpy array, or what becomes one, as a tensor on the CPU."""
    array = np.asarray(value)
    is_bfloat16 = array.dtype.name == "bfloat16"  # the type of the package ml_dtypes
    if is_bfloat16:
        array = array.view(np.int16)
    if array.dtype.kind not in NUMPY_KINDS:
        raise _no_type(str(array.dtype))
    size = array.dtype.itemsize
    is_shareable = array.flags.writeable and array.dtype.isnative
    if not is_shareable or any(stride < 0 or stride % size for stride in array.strides):
        array = array.astype(array.dtype.newbyteorder("="), order="C", copy=True)
    try:
        tensor = torch.from_numpy(array)
    except TypeError as error:
        raise _no_type(str(array.dtype)) from error
    return tensor.view(torch.bfloat16) if is_bfloat16 else tensor


def cuda_devices(value: Any) -> set[torch.device]:
    """Return the GPUs on which arrays inside `value` are: an array, or a dict or list of them."""
    if isinstance(value, torch.Tensor):
        return {value.device} if value.is_cuda else set()
    if isinstance(value, (dict, list, tuple)):
        inner = value.values() if isinstance(value, dict) else value
        return set().union(*(cuda_devices(part) for part in inner))
    if hasattr(value, "__dlpack_device__"):
        kind, index = value.__dlpack_device__()
        if kind == CUDA_DLPACK_TYPE:
            return {torch.device("cuda", index)}
    return set()


def describe(tensor: torch.Tensor) -> str:
    """Return `float32[2x3]`, as errors show an array."""
    shape = "x".join(str(extent) for extent in tensor.shape) or "scalar"
    return f"{type_name(tensor.dtype)}[{shape}]"


def type_name(kind: torch.dtype | torch.layout) -> str:
    """Return `float32` for `torch.float32`."""
    return str(kind).removeprefix("torch.")


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout != torch.strided or tensor.device.type == "meta":
        kind = "meta" if tensor.device.type == "meta" else type_name(tensor.layout)
        message = f"expected a tensor with memory of its own, in strides, got a `{kind}` one"
        raise RequestError(message, code="tensor-expected", help="convert it before the call: `x.to_dense()`")
    return tensor.detach() if tensor.requires_grad else tensor


def _from_numbers(value: bool | float | Sequence[Any]) -> torch.Tensor:
    if isinstance(value, (list, tuple)) and any(hasattr(part, "__array_interface__") for part in value):
        return from_numpy(value)
    return torch.tensor(value)


def _expected(value: Any) -> RequestError:
    name = type(value).__name__
    help = "pass a numpy array or a torch tensor"
    if isinstance(value, (bytes, bytearray, memoryview)):
        help = "put `DecodeTensor` before this backend, if these are the bytes of a picture"
    return RequestError(f"expected an array, got `{name}`", code="tensor-expected", help=help)


def _no_type(name: str) -> RequestError:
    return RequestError(
        f"torch has no element type `{name}`", code="tensor-dtype", help="convert the array before the call"
    )
