"""The answer to an inference request: a JSON header, and behind it the tensors that go as bytes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from ..answer import BYTES as OCTETS
from ..answer import JSON, Answer
from ..arrays import to_array, to_numbers
from ..json_values import write_json
from ..refusal import ServeError
from .models import VERSION, Model
from .reading import InferRequest
from .tensors import BYTES, packed

HEADER_SIZE = "Inference-Header-Content-Length"
"""The header that tells how much of a body is JSON."""


class _Tensor(NamedTuple):
    """One output: either `data` for the header, or a buffer behind it."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: Any
    buffer: Any


def infer_answer(model: Model, infer: InferRequest, outputs: dict[str, list[Any]]) -> Answer:
    """Return the answer. Raises ServeError for what cannot be sent in the form that was asked for."""
    wishes = {output.name: output.is_binary for output in infer.outputs}
    is_binary = bool(infer.parameters.get("binary_data_output", False))
    tensors = []
    for name, values in outputs.items():
        wish = wishes.get(name)
        tensors.append(_tensor(name, values, is_binary if wish is None else wish))
    buffers = [tensor.buffer for tensor in tensors if tensor.buffer is not None]
    if not buffers:
        return Answer(_header(model.name, infer.id, tensors), JSON)
    if len(buffers) == len(tensors):
        forms = tuple((one.name, one.datatype, one.shape, len(one.buffer)) for one in tensors)
        text = _header_again(model.name, infer.id, forms)
    else:
        text = _header(model.name, infer.id, tensors)
    return Answer(b"".join([text, *buffers]), OCTETS, ((HEADER_SIZE, str(len(text))),))


def _header(model: str, id: str | None, tensors: list[_Tensor]) -> bytes:
    header: dict[str, Any] = {"model_name": model, "model_version": VERSION}
    if id is not None:
        header["id"] = id
    header["outputs"] = [_described(tensor) for tensor in tensors]
    return write_json(header)


@lru_cache(256)
def _header_again(
    model: str, id: str | None, forms: tuple[tuple[str, str, tuple[int, ...], int], ...]
) -> bytes:
    """Return the header of tensors that all go as bytes: most answers of a model have the same."""
    return _header(
        model, id, [_Tensor(name, kind, shape, None, range(size)) for name, kind, shape, size in forms]
    )


def _described(tensor: _Tensor) -> dict[str, Any]:
    found = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}
    if tensor.buffer is None:
        return {**found, "data": tensor.data}
    return {**found, "parameters": {"binary_data_size": len(tensor.buffer)}}


def _tensor(name: str, values: list[Any], is_binary: bool) -> _Tensor:
    found = _joined(values)
    if found is not None:
        datatype, array = found
        if not is_binary:
            return _Tensor(name, datatype, array.shape, to_numbers(datatype, array).reshape(-1), None)
        data = array.reshape(-1).data.cast("B") if array.size else b""  # none has no view of bytes
        return _Tensor(name, datatype, array.shape, None, data)
    elements = [_element(value) for value in values]
    shape = (len(elements),)
    if not is_binary:
        return _Tensor(name, BYTES, shape, [_text(name, element) for element in elements], None)
    return _Tensor(name, BYTES, shape, None, packed(elements))


def _joined(values: list[Any]) -> tuple[str, np.ndarray[Any, Any]] | None:
    """Return datatype and array of all values, None unless they are arrays that go together."""
    first = to_array(values[0])
    if first is None or len(values) == 1:
        return first
    all_arrays = [to_array(value) for value in values]
    arrays = [found[1] for found in all_arrays if found is not None and found[0] == first[0]]
    if len(arrays) < len(values) or any(array.shape != first[1].shape for array in arrays):
        return None
    return first[0], np.stack(arrays)


def _element(value: Any) -> bytes:
    """Return the element of BYTES for a result: bytes as they are, anything else as JSON."""
    return bytes(value) if isinstance(value, (bytes, bytearray, memoryview)) else write_json(value)


def _text(name: str, element: bytes) -> str:
    try:
        return element.decode()
    except UnicodeDecodeError:
        message = f"output `{name}` is no text, and JSON holds no other bytes"
        help = "ask for `binary_data` of the output, or `binary_data_output` of all"
        raise ServeError(message, code="serve-output-form", help=help) from None
