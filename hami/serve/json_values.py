"""JSON on the wire: what comes in is bounded, and what goes out may hold arrays and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import orjson
from fastapi import Response

from .arrays import to_array, to_numbers
from .refusal import ServeError


def read_json(body: bytes | memoryview, what: str = "the body") -> Any:
    """Return the value of a JSON text. Raises ServeError: no JSON, no UTF-8, or nested too deep."""
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError as error:
        message = f"{what} is no JSON: {error.msg} at byte {error.pos}"
        raise ServeError(message, code="serve-json", help="check the text, and its encoding") from None


def write_json(value: Any) -> bytes:
    """Return JSON with arrays as lists, and bytes as text. Raises ServeError for what has no such form."""
    try:
        return orjson.dumps(value, _plain, orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError as error:
        message = f"the result has no form in JSON: {error}"
        help = "let the last node return text, bytes, numbers, arrays, or lists and dicts of them"
        raise ServeError(message, status=500, code="serve-result-form", help=help) from None


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer with a value as JSON."""
    return Response(write_json(value), status, dict(headers or {}), "application/json")


def _plain(value: Any) -> Any:
    """Return what JSON shows of a value that it does not know."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, (set, frozenset)):
        return list(value)
    found = to_array(value)
    if found is not None:
        return to_numbers(*found).tolist()
    if isinstance(value, np.ndarray) and value.dtype.kind in "OSU":
        return value.tolist()
    raise TypeError(f"a `{type(value).__name__}` has no JSON form")
