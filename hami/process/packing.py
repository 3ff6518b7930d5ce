"""Requests, results and exceptions as byte strings, for the way to another process.

Pickle protocol 5 keeps the memory of arrays apart from the rest, so that it is copied once. An item is packed
alone: what does not pickle fails no other item.
"""

from __future__ import annotations

import io
import pickle
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .. import _core
from ..errors import RequestError, WorkerError
from .channel import Frame

SEPARATE_BYTES = 4096
"""Buffers from this size on travel beside the pickle instead of inside."""

Packed = list[Frame]


class WorkerTraceback(Exception):  # noqa: N818  what a reader sees as the cause of an error
    """Stands as the cause of an exception from a worker, and shows where it was raised there."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


def _view_of(buffer: Any, format: str, shape: tuple[int, ...]) -> memoryview:
    """Return the view that a buffer had in the other process."""
    flat: Any = memoryview(buffer).cast("B")
    view: memoryview = flat.cast(format) if 0 in shape else flat.cast(format, shape)
    return view


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, _core.Tensor) and value.dtype == "bfloat16":  # for which buffers have no name
            return _core.reinterpret, (_core.reinterpret(value, "uint16"), "bfloat16")
        if isinstance(value, (memoryview, _core.Tensor)):
            view: Any = memoryview(value)  # type: ignore[arg-type]
            data = view if view.c_contiguous else memoryview(view.tobytes())
            return _view_of, (pickle.PickleBuffer(data), view.format, view.shape)
        return NotImplemented


class _Unpickler(pickle.Unpickler):
    before_main: Callable[[], None] | None = None

    def find_class(self, module: str, name: str) -> Any:
        if module == "__main__" and self.before_main is not None:
            self.before_main()
        return super().find_class(module, name)


def pack(value: Any) -> Packed:
    """Return the pickle of a value and the buffers that belong to it. Raises what pickle raises."""
    buffers: Packed = []

    def put_apart(buffer: pickle.PickleBuffer) -> bool:
        raw = buffer.raw()
        if len(raw) < SEPARATE_BYTES:
            return True  # into the pickle
        buffers.append(raw)
        return False

    stream = io.BytesIO()
    _Pickler(stream, protocol=5, buffer_callback=put_apart).dump(value)
    return [stream.getbuffer(), *buffers]


def unpack(packed: Sequence[Frame], before_main: Callable[[], None] | None = None) -> Any:
    """Return the value of what `pack` made; `before_main` runs before a name of `__main__` is looked up."""
    unpickler = _Unpickler(io.BytesIO(packed[0]), buffers=packed[1:])
    unpickler.before_main = before_main
    return unpickler.load()


def pack_dict(values: Mapping[str, Any], what: str) -> Packed:
    """Pack a dict; a RequestError names the key of what does not pickle. `what` is a request or a result."""
    try:
        return pack(values)
    except Exception as error:
        key, cause = _find_culprit(values) or ("", error)
        named = f"the value under `{key}`" if key else "the dict"
        raise RequestError(
            f"{named} of the {what} does not pickle, so it cannot go to another process: "
            f"{type(cause).__name__}: {cause}",
            code="worker-pickle",
            help="remove the key before `ProcessPool`, or give the class `__reduce__`",
        ) from cause


def _find_culprit(values: Mapping[str, Any]) -> tuple[str, Exception] | None:
    for key, value in values.items():
        try:
            pack(value)
        except Exception as error:
            return key, error
    return None


def join(parts: Sequence[Packed]) -> Packed:
    """Return one message of several packed values."""
    return [pack([len(part) for part in parts])[0], *(frame for part in parts for frame in part)]


def split(frames: Sequence[Any]) -> list[Packed]:
    """Return the packed values of a message that `join` made."""
    parts, start = [], 1
    for length in unpack(frames[:1]):
        parts.append(list(frames[start : start + length]))
        start += length
    return parts


def pack_error(error: BaseException) -> tuple[bytes | None, str, str]:
    """Return an exception as its pickle (None where it has none), one line, and its traceback."""
    line = "".join(traceback.format_exception_only(type(error), error)).strip()
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    data: bytes | None = None
    try:
        data = pickle.dumps(error)
        if type(pickle.loads(data)) is not type(error):
            data = None
    except Exception:
        data = None
    return data, line, text


def unpack_error(packed: tuple[bytes | None, str, str]) -> BaseException:
    """Return the exception again, its traceback in the worker as its cause."""
    data, line, text = packed
    error: BaseException | None = None
    if data is not None:
        try:
            loaded = pickle.loads(data)
            error = loaded if isinstance(loaded, BaseException) else None
        except Exception:
            error = None
    if error is None:
        error = WorkerError(
            line, code="worker-exception", help="the class of the exception must pickle to reach the caller"
        )
    error.__cause__ = WorkerTraceback(text)
    return error
