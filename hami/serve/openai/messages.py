"""The messages of a chat, as the chat template of a model takes them: each content is one text."""

from __future__ import annotations

from typing import Any

from .errors import ApiError

_ROLES = {"developer": "system"}  # templates know the older name


def chat_of(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with their parts joined. Raises ApiError that names the part that is no text."""
    if not messages:
        raise ApiError("`messages` is empty: give at least one", param="messages")
    return [_message(message, f"messages[{number}]") for number, message in enumerate(messages)]


def _message(message: dict[str, Any], place: str) -> dict[str, Any]:
    role = message.get("role")
    if not isinstance(role, str):
        raise ApiError(f"`{place}.role` is missing, or no text", param=f"{place}.role")
    content = _content(message.get("content"), role, f"{place}.content")
    return {**message, "role": _ROLES.get(role, role), "content": content}


def _content(content: Any, role: str, place: str) -> str:
    if isinstance(content, str):
        return content
    if content is None and role == "assistant":  # it had called a tool
        return ""
    if not isinstance(content, list):
        raise ApiError(f"`{place}` must be a text, or a list of parts", param=place)
    return "".join(_part(part, f"{place}[{number}]") for number, part in enumerate(content))


def _part(part: Any, place: str) -> str:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind not in ("text", "refusal"):
        message = f"`{place}.type` is `{kind!r:.80}`: the models read parts of type `text`"
        raise ApiError(message, param=f"{place}.type", code="invalid_value")
    text = part.get(kind)
    if not isinstance(text, str):
        raise ApiError(f"`{place}.{kind}` is missing, or no text", param=f"{place}.{kind}")
    return text
