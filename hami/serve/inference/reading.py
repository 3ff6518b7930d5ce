"""The body of an inference request: a JSON header, and behind it the tensors that are sent as bytes."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

from ..arrays import NUMBERS
from ..json_values import read_json
from ..refusal import ServeError
from .tensors import BYTES, bad_tensor, from_binary, from_json

_MAX_RANK = 32  # as many as every version of numpy takes
_MAX_REPEATED, _MAX_REPEATED_BYTES = 256, 1024  # headers that are kept, and their size


@dataclass(slots=True)
class Input:
    """One tensor of a request: an array, or a list of bytes for the datatype BYTES."""

    datatype: str
    value: Any
    parameters: dict[str, Any]
    is_binary_data: bool


@dataclass(frozen=True, slots=True)
class Output:
    """One tensor that the client wants back; `is_binary` None: as the request says for all."""

    name: str
    is_binary: bool | None


@dataclass(slots=True)
class InferRequest:
    """What a client asks for. `outputs` is empty where it takes all there are."""

    id: str | None
    inputs: dict[str, Input]
    outputs: list[Output] = field(default_factory=list)
    parameters: dict[str, Any] = field(default_factory=dict)


def read_infer_request(body: bytes, header_bytes: str | None) -> InferRequest:
    """Return the request in `body`.

    `header_bytes` is the value of `Inference-Header-Content-Length`: how much of it is JSON, None for all.
    Raises ServeError.
    """
    size = len(body) if header_bytes is None else _header_size(header_bytes, len(body))
    view = memoryview(body)
    what = "the body" if header_bytes is None else "the header of the body"
    read = _read_header_again if size <= _MAX_REPEATED_BYTES else _read_header
    header = read(body[:size], what)
    rest = _Rest(view[size:])
    inputs = {
        name: Input(
            datatype, _value(name, datatype, shape, source, rest), parameters, not isinstance(source, list)
        )
        for name, datatype, shape, source, parameters in header.inputs
    }
    rest.check_is_empty()
    return InferRequest(header.id, inputs, header.outputs, header.parameters)


class _Header(NamedTuple):
    """The JSON of a request. The source of an input is its `binary_data_size`, or a list of its values."""

    id: str | None
    inputs: list[tuple[str, str, list[int], Any, dict[str, Any]]]
    outputs: list[Output]
    parameters: dict[str, Any]


def _read_header(text: bytes, what: str) -> _Header:
    header = read_json(text, what)
    if not isinstance(header, dict):
        raise _malformed("the body is no JSON object", 'send `{"inputs": [...]}`')
    inputs = [_read_input(_text(tensor, "name"), tensor) for tensor in _objects(header, "inputs")]
    names = set()
    for name, *_ in inputs:
        if name in names:
            raise bad_tensor(name, "is there twice", "send each input once")
        names.add(name)
    if not inputs:
        raise _malformed("the request has no inputs", "send at least one tensor under `inputs`")
    outputs = [_read_output(tensor) for tensor in _objects(header, "outputs")]
    id = header.get("id")
    if id is not None and not isinstance(id, str):
        raise _malformed("`id` is no text", "leave it out, or send text")
    return _Header(id, inputs, outputs, _parameters(header))


# Clients that send tensors as bytes send the same header again and again. Nobody changes what it returns.
_read_header_again = lru_cache(_MAX_REPEATED)(_read_header)


def _value(name: str, datatype: str, shape: list[int], source: Any, rest: _Rest) -> Any:
    if isinstance(source, list):
        return from_json(name, datatype, shape, source)
    return from_binary(name, datatype, shape, rest.take(name, source))


class _Rest:
    """The bytes behind the header, which the tensors take one after another."""

    def __init__(self, view: memoryview) -> None:
        self.view = view
        self.position = 0

    def take(self, name: str, size: Any) -> memoryview:
        if not isinstance(size, int) or isinstance(size, bool) or size < 0:
            raise bad_tensor(name, "has a `binary_data_size` that is no number of bytes", "send their number")
        end = self.position + size
        if end > len(self.view):
            what = f"wants {size} bytes behind the header, where {len(self.view) - self.position} are left"
            raise bad_tensor(name, what, "send the tensors in the order of `inputs`")
        part = self.view[self.position : end]
        self.position = end
        return part

    def check_is_empty(self) -> None:
        left = len(self.view) - self.position
        if left:
            message = f"{left} bytes are left behind the last tensor"
            raise _malformed(message, "give every tensor that is sent as bytes its `binary_data_size`")


def _header_size(text: str, num_bytes: int) -> int:
    if text.isascii() and text.isdigit() and len(text) < 19 and int(text) <= num_bytes:
        return int(text)
    message = f"`Inference-Header-Content-Length` is `{text[:40]}`, and the body has {num_bytes} bytes"
    raise _malformed(message, "send how many bytes of the body are JSON")


def _read_input(name: str, tensor: dict[str, Any]) -> tuple[str, str, list[int], Any, dict[str, Any]]:
    datatype = _text(tensor, "datatype")
    if datatype != BYTES and datatype not in NUMBERS:
        what = f"has the datatype `{datatype}`, which is none of the protocol"
        raise bad_tensor(name, what, f"use one of {', '.join(NUMBERS)} or {BYTES}")
    shape = _shape(name, tensor.get("shape"))
    parameters = _parameters(tensor)
    _refuse_shared_memory(name, parameters)
    size = parameters.pop("binary_data_size", None)
    if (size is None) == ("data" not in tensor):
        what = "has no data" if size is None else "has both `data` and a `binary_data_size`"
        raise bad_tensor(name, what, "send its values under `data`, or as bytes behind the header")
    if size is None and not isinstance(tensor["data"], list):
        raise bad_tensor(name, "has no list under `data`", "send the values in row-major order")
    return name, datatype, shape, tensor["data"] if size is None else size, parameters


def _read_output(tensor: dict[str, Any]) -> Output:
    name = _text(tensor, "name")
    parameters = _parameters(tensor)
    _refuse_shared_memory(name, parameters)
    if parameters.get("classification"):
        help = "take the scores, and rank them there"
        raise ServeError("the server ranks no classes", code="serve-classification", help=help)
    wish = parameters.get("binary_data")
    return Output(name, wish if isinstance(wish, bool) else None)


def _refuse_shared_memory(name: str, parameters: dict[str, Any]) -> None:
    if "shared_memory_region" in parameters:
        message = f"tensor `{name}` lies in shared memory, which this server does not read"
        raise ServeError(message, code="serve-shared-memory", help="send its bytes behind the header")


def _shape(name: str, shape: Any) -> list[int]:
    is_shape = isinstance(shape, list) and len(shape) <= _MAX_RANK
    if is_shape and all(type(extent) is int and 0 <= extent < 2**63 for extent in shape):
        return list(shape)
    help = f"send up to {_MAX_RANK} whole numbers"
    raise bad_tensor(name, "has no `shape` that is a list of extents", help)


def _objects(header: dict[str, Any], key: str) -> list[dict[str, Any]]:
    found = header.get(key, [])
    if isinstance(found, list) and all(isinstance(one, dict) for one in found):
        return found
    raise _malformed(f"`{key}` is no list of objects", "send a list of tensors")


def _text(tensor: dict[str, Any], key: str) -> str:
    text = tensor.get(key)
    if isinstance(text, str) and text:
        return text
    raise _malformed(f"a tensor has no `{key}`", "give it one, as text")


def _parameters(holder: dict[str, Any]) -> dict[str, Any]:
    found = holder.get("parameters", {})
    if isinstance(found, dict) and all(isinstance(one, (bool, int, float, str)) for one in found.values()):
        return found
    raise _malformed("`parameters` is no object of numbers, truth values and texts", "send such values only")


def _malformed(message: str, help: str) -> ServeError:
    return ServeError(message, code="serve-infer-request", help=help)
