"""Chat templates: messages become the text that a model was trained on.

The templates come with the models, so they are programs of strangers: Jinja's sandbox runs them, without
access to attributes of Python, and with no product or power that could fill the memory.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from jinja2 import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from hami.errors import RequestError

MAX_PRODUCT = 1 << 20  # characters or items that a template may make by repetition
MAX_CHARACTERS = 1 << 24  # of a chat
_WIDE = re.compile(r"\*|[0-9]{5}")  # a width that is given apart, or one of five digits


class _Environment(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset({"*", "**", "%"})

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        numbers = isinstance(left, (int, float)) and isinstance(right, (int, float))
        if operator == "*" and not numbers:
            sizes = [
                len(side) if isinstance(side, (str, bytes, list, tuple)) else side for side in (left, right)
            ]
            if all(isinstance(size, int) for size in sizes) and abs(sizes[0] * sizes[1]) > MAX_PRODUCT:
                raise TemplateError("a repetition is too long")
        if operator == "**" and (not numbers or abs(right) > 64 or abs(left) > MAX_PRODUCT):
            raise TemplateError("a power is too large")
        if operator == "*" and numbers and max(abs(left), abs(right)) > 1 << 512:
            raise TemplateError("a product is too large")
        if operator == "%" and isinstance(left, str) and _WIDE.search(left):
            raise TemplateError("a field is too wide")
        return super().call_binop(context, operator, left, right)


def _raise_exception(message: str) -> None:
    raise TemplateError(message)


def _tojson(value: Any, indent: int | None = None, ensure_ascii: bool = False, **options: Any) -> str:
    return json.dumps(value, indent=indent, ensure_ascii=ensure_ascii, **options)


def _strftime_now(form: str) -> str:
    return datetime.now().strftime(form)


class ChatTemplate:
    """A model's template, compiled; `names` are what it may use besides the messages, such as `bos_token`."""

    def __init__(self, text: str, names: Mapping[str, Any]) -> None:
        environment = _Environment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
        environment.filters["tojson"] = _tojson
        environment.globals.update(raise_exception=_raise_exception, strftime_now=_strftime_now)
        self._names = dict(names)
        try:
            self._template = environment.from_string(text)
        except (TemplateError, RecursionError, ValueError) as error:
            raise template_error(error) from error

    def render(self, messages: Any, *, add_generation_prompt: bool = True, **names: Any) -> str:
        """Return the text of `messages`: dicts with `role` and `content`; raises RequestError `llm-chat`."""
        check_messages(messages)
        values = {**self._names, "tools": None, "documents": None, **names}
        values.update(messages=list(messages), add_generation_prompt=add_generation_prompt)
        parts, length = [], 0
        try:
            for part in self._template.generate(values):
                parts.append(part)
                length += len(part)
                if length > MAX_CHARACTERS:
                    raise TemplateError(f"the chat has more than {MAX_CHARACTERS} characters")
        except Exception as error:  # a template is a program of others, and may raise anything
            raise template_error(error) from error
        return "".join(parts)


def template_error(error: BaseException) -> RequestError:
    """Return the error for a template that cannot be compiled or refuses the messages."""
    return RequestError(
        f"the model's chat template refuses the messages: {type(error).__name__}: {error}",
        code="llm-chat",
        help="check the roles and their order, or give the prompt as text",
    )


def check_messages(messages: Any) -> None:
    """Raise RequestError `llm-chat` unless `messages` is a list of dicts with a role."""
    if isinstance(messages, (str, bytes)) or not isinstance(messages, Sequence) or not messages:
        raise _bad_messages(f"`messages` is `{messages!r:.80}`")
    for number, message in enumerate(messages):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            raise _bad_messages(f"message {number} is `{message!r:.80}`")


def _bad_messages(what: str) -> RequestError:
    return RequestError(
        f"{what}, and a chat is a list of messages",
        code="llm-chat",
        help='write `[{"role": "user", "content": "..."}]`',
    )
