"""Requests and results between processes, through Ray, with the memory of arrays beside the pickle.

They are packed as for worker processes: tensors of the core travel as well, and what does not pickle is an
error that names its key. The other side gets plain values again.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping
from typing import Any

from ..errors import RequestError
from ..process.packing import pack, pack_dict, unpack

_PLAIN = (str, bytes, int, float, bool, type(None))


class Parcel:
    """A packed value; to whoever unpickles it, it is the value itself, with arrays that may be written."""

    def __init__(self, packed: list[Any]) -> None:
        self._packed = packed

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        head, *buffers = self._packed
        return _opened, (bytes(head), *(pickle.PickleBuffer(buffer) for buffer in buffers))


def _opened(head: bytes, *buffers: Any) -> Any:
    # Ray's own memory is read-only, and goes when nobody refers to it.
    return unpack([head, *(bytearray(buffer) for buffer in buffers)])


def to_wire(value: Any) -> Any:
    """Return what goes over the wire for a value. Raises RequestError for what does not pickle."""
    if isinstance(value, _PLAIN):
        return value
    try:
        return Parcel(pack_dict(value, "request or result") if isinstance(value, dict) else pack(value))
    except RequestError as error:
        error.code, error.help = "ray-pickle", "leave the key out, or give the class `__reduce__`"
        raise
    except Exception as error:
        message = f"a `{type(value).__name__}` does not pickle: {type(error).__name__}: {error}"
        raise RequestError(message, code="ray-pickle", help="give the class `__reduce__`") from error


def writable(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return a request that came through Ray as it would be in one process: its arrays may be written."""
    return {key: _writable(value) for key, value in request.items()}


def _writable(value: Any) -> Any:
    if type(value) is list:
        return [_writable(item) for item in value]
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray) and not value.flags.writeable:
        return value.copy()
    return value
