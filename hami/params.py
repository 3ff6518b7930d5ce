"""Parameters of a backend as its class declares them: name, type, default, unit, bounds, and a line of doc.

Users write `x = hami.param(...)` in the body of a class. hami.plan checks values against what is declared.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from .errors import ConfigError

PARAM_TYPES = ("int", "float", "bool", "str", "path", "list", "any")

_NO_DEFAULT: Any = object()


@dataclass(frozen=True)
class Param:
    """One declared parameter: `type` is one of PARAM_TYPES, bounds are inclusive."""

    name: str
    type: str = "any"
    default: Any = None
    required: bool = False
    unit: str = ""
    min: float | None = None
    max: float | None = None
    choices: tuple[Any, ...] = ()
    doc: str = ""


class ParamSlot:
    """The declaration `x = hami.param(...)` in a class body; on an instance it reads as the value."""

    def __init__(self, param: Param) -> None:
        self.param = param

    def __set_name__(self, owner: type, name: str) -> None:
        self.param = replace(self.param, name=name)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self.param
        if self.param.required:
            raise AttributeError(f"parameter `{self.param.name}` has no value yet")
        return self.param.default


def param(
    default: Any = _NO_DEFAULT,
    *,
    type: Any = None,
    unit: str = "",
    min: float | None = None,
    max: float | None = None,
    choices: Sequence[Any] | None = None,
    doc: str = "",
) -> Any:
    """Declare a parameter in the body of a backend class.

    Without `default` it is required. `type` is a Python type or one of PARAM_TYPES and follows from the
    default; `min` and `max` are inclusive. The value is an attribute of the instance before `init` runs.
    """
    is_required = default is _NO_DEFAULT
    return ParamSlot(
        Param(
            name="",
            type=_type_name(type, None if is_required else default),
            default=None if is_required else default,
            required=is_required,
            unit=unit,
            min=min,
            max=max,
            choices=tuple(choices or ()),
            doc=doc,
        )
    )


def _type_name(declared: Any, default: Any) -> str:
    if isinstance(declared, str):
        if declared not in PARAM_TYPES:
            raise ConfigError(
                f"`{declared}` is no type of a parameter",
                code="register-refused",
                where="register param",
                help=f"use one of {', '.join(PARAM_TYPES)}",
            )
        return declared
    kind = declared if declared is not None else None if default is None else type(default)
    if kind is None:
        return "any"
    for python_type, name in (
        (bool, "bool"),
        (int, "int"),
        (float, "float"),
        (str, "str"),
        (os.PathLike, "path"),
        ((list, tuple), "list"),
    ):
        if isinstance(kind, type) and issubclass(kind, python_type):
            return name
    return "any"
