"""Check one value against a declared parameter and give it the declared type.

hami.plan uses it for node keys, global keys and backends' parameters alike. Numbers may be written as text;
nothing else is converted silently.
"""

from __future__ import annotations

import math
import os
import re
from typing import Any

from .. import scheduler
from ..backend import Param
from ..errors import did_you_mean, quoted

_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,300}(?:\.[0-9]{0,300})?|\.[0-9]{1,300})(?:[eE][+-]?[0-9]{1,4})?")
_INTEGER = re.compile(r"[+-]?[0-9]{1,300}")
_LARGEST_INT = 2**63 - 1

_WANTED = {
    "int": "a whole number",
    "float": "a number",
    "bool": "`true` or `false`",
    "str": "text",
    "path": "a path",
    "list": "a list",
    "scheduler": "the name of a scheduler",
}


class BadValueError(Exception):
    """The value does not fit; the message says what was wanted and got, `help` what to do."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.help = help


def convert(param: Param, value: Any, directory: str | None = None) -> Any:
    """Return `value` with the declared type. Raises BadValueError.

    Relative paths start from `directory` if there is one. None is accepted where it is the default.
    """
    if value is None and not param.required and param.default is None:
        return None
    converted = _typed(param, value)
    if param.type == "scheduler":
        return _find_scheduler(param, converted)
    if param.type == "path" and directory is not None:
        converted = os.path.normpath(os.path.join(directory, os.path.expanduser(converted)))
    if param.choices and converted not in param.choices:
        choices = [str(choice) for choice in param.choices]
        help = f"use one of {quoted(choices)}"
        raise BadValueError(
            f"`{param.name}` cannot be `{value}`", did_you_mean(str(value), choices, otherwise=help)
        )
    if isinstance(converted, (int, float)) and not isinstance(converted, bool):
        _check_bounds(param, converted, value)
    return converted


def _find_scheduler(param: Param, name: str) -> Any:
    """Return the name of a built-in scheduler, or the class that was registered under it."""
    found = name if name in scheduler.BUILT_IN else scheduler.find(name)
    if found is None:
        otherwise = f"use one of {quoted(scheduler.names())}"
        raise BadValueError(
            f"`{param.name}` cannot be `{name}`", did_you_mean(name, scheduler.names(), otherwise=otherwise)
        )
    return found


def _check_bounds(param: Param, number: float, value: Any) -> None:
    unit = f" {param.unit}" if param.unit else ""
    for bound, is_outside, words in (
        (param.min, param.min is not None and number < param.min, "at least"),
        (param.max, param.max is not None and number > param.max, "at most"),
    ):
        if is_outside:
            limit = (
                f"{bound:g}" if isinstance(bound, float) and not bound.is_integer() else f"{int(bound or 0)}"
            )
            message = f"`{param.name}` must be {words} {limit}{unit}, got `{_short(value)}`"
            raise BadValueError(message, f"write `{param.name} = {limit}`, or another value in bounds")


def _typed(param: Param, value: Any) -> Any:
    match = _CONVERTERS.get(param.type)
    converted = value if match is None else match(value)
    if converted is None and match is not None:
        unit = f" in {param.unit}" if param.unit else ""
        raise BadValueError(
            f"`{param.name}` must be {_WANTED[param.type]}{unit}, got `{_short(value)}`",
            (param.doc and f"`{param.name}`: {param.doc}") or f"write {_WANTED[param.type]}",
        )
    return converted


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _int(value: Any) -> int | None:
    if isinstance(value, str) and _INTEGER.fullmatch(value.strip()):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    is_fit = isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _LARGEST_INT
    return value if is_fit else None


def _float(value: Any) -> float | None:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if (
        not isinstance(value, (int, float))
        or isinstance(value, bool)
        or abs(value) > 1e308
        or math.isnan(value)
    ):
        return None
    return float(value)


def _bool(value: Any) -> bool | None:
    if isinstance(value, bool):
        return value
    return {"true": True, "false": False}.get(value.lower()) if isinstance(value, str) else None


def _str(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _path(value: Any) -> str | None:
    if isinstance(value, os.PathLike):
        value = os.fsdecode(value)
    return value if isinstance(value, str) and value and "\0" not in value else None


def _list(value: Any) -> list[Any] | None:
    if isinstance(value, (list, tuple)):
        return list(value)
    if not isinstance(value, str):
        return None
    inner = value.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1]
    return [part.strip() for part in inner.split(",") if part.strip()]


_CONVERTERS = {
    "int": _int,
    "float": _float,
    "bool": _bool,
    "str": _str,
    "path": _path,
    "list": _list,
    "scheduler": _str,
}
