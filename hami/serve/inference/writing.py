"""The answer to an inference request: a JSON header, and behind it the tensors that go as bytes."""

from __future__ import annotations

from typing import Any

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


def infer_answer(model: Model, infer: InferRequest, outputs: dict[str, list[Any]]) -> Answer:
    """Return the answer. Raises ServeError for what cannot be sent in the form that was asked for."""
    wishes = {output.name: output.is_binary for output in infer.outputs}
    is_binary = bool(infer.parameters.get("binary_data_output", False))
    header: dict[str, Any] = {"model_name": model.name, "model_version": VERSION}
    if infer.id is not None:
        header["id"] = infer.id
    buffers: list[Any] = []
    tensors = []
    for name, values in outputs.items():
        wish = wishes.get(name)
        tensors.append(_tensor(name, values, buffers if (is_binary if wish is None else wish) else None))
    header["outputs"] = tensors
    text = write_json(header)
    if not buffers:
        return Answer(text, JSON)
    return Answer(b"".join([text, *buffers]), OCTETS, ((HEADER_SIZE, str(len(text))),))


def _tensor(name: str, values: list[Any], buffers: list[Any] | None) -> dict[str, Any]:
    """Return one output of the header; its data goes to `buffers` if there are some."""
    found = _joined(values)
    data: Any
    if found is not None:
        datatype, array = found
        tensor: dict[str, Any] = {"name": name, "datatype": datatype, "shape": list(array.shape)}
        if buffers is None:
            return {**tensor, "data": to_numbers(datatype, array).reshape(-1)}
        data = array.reshape(-1).data.cast("B") if array.size else b""  # none has no view of bytes
    else:
        elements = [_element(value) for value in values]
        tensor = {"name": name, "datatype": BYTES, "shape": [len(elements)]}
        if buffers is None:
            return {**tensor, "data": [_text(name, element) for element in elements]}
        data = packed(elements)
    buffers.append(data)
    return {**tensor, "parameters": {"binary_data_size": len(data)}}


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
