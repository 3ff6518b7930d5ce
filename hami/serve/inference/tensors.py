"""Tensors of the Open Inference Protocol: from the wire to what a pipeline takes.

A tensor of numbers is an array of numpy; BF16, which numpy has not, is a tensor of the core. A tensor of
BYTES is a flat list. Errors are ServeErrors that name the tensor.
"""

from __future__ import annotations

import math
import struct
from array import array
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ... import _core
from ..arrays import BF16, NUMBERS
from ..refusal import ServeError

BYTES = "BYTES"
_LENGTH = struct.Struct("<I")  # of one element of BYTES
_BINARY = {name: np.dtype("uint16" if name == BF16 else dtype) for name, dtype in NUMBERS.items()}


def bad_tensor(name: str, what: str, help: str) -> ServeError:
    """Return the error for a tensor of a request."""
    return ServeError(f"tensor `{name}` {what}", code="serve-tensor", help=help)


def from_binary(name: str, datatype: str, shape: Sequence[int], data: memoryview) -> Any:
    """Return the tensor of the bytes `data`; numbers share their memory where they lie as they should."""
    count = math.prod(shape)
    if datatype == BYTES:
        return _split(name, count, data)
    dtype = _BINARY[datatype]
    if len(data) != count * dtype.itemsize:
        what = f"has {len(data)} bytes, and {datatype} of shape {list(shape)} takes {count * dtype.itemsize}"
        raise bad_tensor(name, what, "send as many values as the shape says")
    numbers = np.frombuffer(data, dtype).reshape(shape)
    if not numbers.flags.aligned:
        numbers = numbers.copy()
    return _core.reinterpret(numbers, "bfloat16") if datatype == BF16 else numbers


def _split(name: str, count: int, data: memoryview) -> list[bytes]:
    elements = []
    position = 0
    while position < len(data):
        start = position + _LENGTH.size
        size = _LENGTH.unpack_from(data, position)[0] if start <= len(data) else len(data)
        if start + size > len(data):
            what = "ends in the middle of an element"
            raise bad_tensor(name, what, "send each element after its length in 4 bytes, little-endian")
        elements.append(bytes(data[start : start + size]))
        position = start + size
    if len(elements) != count:
        raise _wrong_count(name, len(elements), count)
    return elements


def from_json(name: str, datatype: str, shape: Sequence[int], data: list[Any]) -> Any:
    """Return the tensor of `data`, the list of a JSON body, nested or flat."""
    count = math.prod(shape)
    if datatype == BYTES:
        elements = list(_flat_texts(name, data))
        if len(elements) != count:
            raise _wrong_count(name, len(elements), count)
        return elements
    try:
        found = _floats(data) if data and type(data[0]) is float else np.asarray(data)
        if datatype == "UINT64" and found.dtype.kind == "f":  # what numpy makes of large and small ones
            found = np.asarray(data, object)
    except (ValueError, OverflowError):
        raise bad_tensor(name, "is not one regular array", "send the values in row-major order") from None
    if found.size != count:
        raise _wrong_count(name, found.size, count)
    numbers = _converted(name, datatype, found).reshape(shape)
    return _core.reinterpret(_to_bfloat16(numbers), "bfloat16") if datatype == BF16 else numbers


def _floats(values: list[Any]) -> np.ndarray[Any, Any]:
    """Return what `np.asarray` does, for a list that begins with a float; in half the time for a flat one."""
    try:
        return np.frombuffer(array("d", values))
    except (TypeError, OverflowError):
        return np.asarray(values)


def _converted(name: str, datatype: str, found: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the values in their type, and refuse those that are not of it."""
    dtype = np.dtype("float32" if datatype == BF16 else NUMBERS[datatype])
    kinds = {"b": "biu", "f": "fiu"}.get(dtype.kind, "iu")
    is_whole = found.dtype.kind == "O" and all(type(value) is int for value in found.flat)
    if found.size and found.dtype.kind not in kinds and not is_whole:
        raise bad_tensor(name, f"has values that are no {datatype}", "send numbers, or the type they have")
    if found.size and dtype.kind != "f":
        lowest, highest = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        if int(found.min()) < lowest or int(found.max()) > highest:
            what = f"has values outside {datatype}, which holds {lowest} to {highest}"
            raise bad_tensor(name, what, "send a wider type")
    with np.errstate(over="ignore"):  # of a float, beyond the largest: infinity
        return found.astype(dtype)


def _flat_texts(name: str, values: list[Any]) -> Iterator[bytes]:
    for value in values:
        if isinstance(value, list):
            yield from _flat_texts(name, value)
        elif isinstance(value, str):
            yield value.encode()
        else:
            raise bad_tensor(name, "has values that are no text", "send text, or binary data")


def _wrong_count(name: str, found: int, wanted: int) -> ServeError:
    what = f"has {found} values, and its shape says {wanted}"
    return bad_tensor(name, what, "send as many values as the shape says")


def _to_bfloat16(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the upper halves of float32, rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(array).view(np.uint32)
    half = np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    rounded: np.ndarray[Any, Any] = ((bits + half) >> np.uint32(16)).astype(np.uint16)
    rounded[np.isnan(array)] = 0x7FC0
    return rounded


def packed(elements: Sequence[bytes]) -> bytes:
    """Return elements of BYTES as they go over the wire."""
    return b"".join(part for element in elements for part in (_LENGTH.pack(len(element)), element))
