"""JSON schemas of what the API answers, for the page that describes the server."""

from __future__ import annotations

from typing import Any

from ..raw_route import ERROR

_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


def _list(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


def _or_null(kind: str) -> dict[str, Any]:
    return {"type": [kind, "null"]}


def _answer(description: str, schema: dict[str, Any], *, is_streamed: bool = False) -> dict[str, Any]:
    content: dict[str, Any] = {"application/json": {"schema": schema}}
    if is_streamed:
        events = {**_TEXT, "description": "with `stream`: chunks as events, and `[DONE]`"}
        content["text/event-stream"] = {"schema": events}
    return {"description": description, "content": content}


_USAGE = _object(prompt_tokens=_NUMBER, completion_tokens=_NUMBER, total_tokens=_NUMBER)
_MESSAGE = _object(role=_TEXT, content=_or_null("string"), refusal=_or_null("string"))
_END = {"index": _NUMBER, "logprobs": _or_null("object"), "finish_reason": _TEXT}


def _completion(**choice: Any) -> dict[str, Any]:
    choices = _list(_object(**_END, **choice))
    return _object(id=_TEXT, object=_TEXT, created=_NUMBER, model=_TEXT, choices=choices, usage=_USAGE)


_MODEL = _object(id=_TEXT, object=_TEXT, created=_NUMBER, owned_by=_TEXT, root=_TEXT)
_ERROR = _object(error=_object(message=_TEXT, type=_TEXT, param=_or_null("string"), code=_or_null("string")))

MODEL = _answer("The model.", _MODEL)
MODELS = _answer("The models.", _object(object=_TEXT, data=_list(_MODEL)))
COMPLETION = _answer("The texts.", _completion(text=_TEXT), is_streamed=True)
CHAT_COMPLETION = _answer("The messages.", _completion(message=_MESSAGE), is_streamed=True)
FAILURE = _answer(
    "What went wrong: in OpenAI's form, or in that of the server for what reaches no model.",
    {"anyOf": [_ERROR, ERROR]},
)
