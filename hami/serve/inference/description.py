"""JSON schemas of the Open Inference Protocol, for the page that describes the server."""

from __future__ import annotations

from typing import Any

from ..arrays import NUMBERS
from .tensors import BYTES


def _object(required: list[str], **properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": required, "properties": properties}


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


_NAME = {"type": "string"}
_DATATYPE = {"type": "string", "enum": [*NUMBERS, BYTES]}
_SHAPE = _list({"type": "integer"})
_PARAMETERS = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean"]},
}
_DATA = {"type": "array", "description": "values in row-major order, nested or flat"}
_TENSOR = _object(
    ["name", "datatype", "shape"],
    name=_NAME,
    datatype=_DATATYPE,
    shape=_SHAPE,
    parameters={**_PARAMETERS, "description": "`binary_data_size`: bytes of this tensor behind the header"},
    data=_DATA,
)
_PORT = _object(["name", "datatype", "shape"], name=_NAME, datatype=_DATATYPE, shape=_SHAPE)

INFER_REQUEST = _object(
    ["inputs"],
    id=_NAME,
    parameters={
        **_PARAMETERS,
        "description": "`priority`, `timeout` (microseconds), `sequence_id`, `sequence_end`, "
        "`content_type`, `binary_data_output`; any other becomes a key of the request",
    },
    inputs=_list(_TENSOR),
    outputs=_list(_object(["name"], name=_NAME, parameters=_PARAMETERS)),
)
INFER_RESPONSE = _object(
    ["model_name", "outputs"],
    model_name=_NAME,
    model_version=_NAME,
    id=_NAME,
    outputs=_list(_TENSOR),
)
MODEL = _object(
    ["name", "inputs", "outputs"],
    name=_NAME,
    versions=_list(_NAME),
    platform=_NAME,
    inputs=_list(_PORT),
    outputs=_list(_PORT),
)
SERVER = _object(["name", "version", "extensions"], name=_NAME, version=_NAME, extensions=_list(_NAME))
LIVE = _object(["live"], live={"type": "boolean"})
READY = _object(["ready"], ready={"type": "boolean"})
MODEL_READY = _object(["name", "ready"], name=_NAME, ready={"type": "boolean"})
BINARY = {
    "type": "string",
    "format": "binary",
    "description": "the JSON header, then the bytes of the tensors",
}
