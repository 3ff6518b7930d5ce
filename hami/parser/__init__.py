"""The bracket language: text -> Expr -> expanded Expr -> text.

hami.plan and the command line use it; it knows neither files nor backends. `parse` is the public entry; the
modules `expand` and `render` are loaded only by planning and printing.
"""

from __future__ import annotations

from ..errors import Source
from .aliases import ALIASES, alias, canonical, check_phases, macro_names, macro_text
from .expr import Argument, Expr, Value
from .parse import MAX_NESTING, parse_source

__all__ = [
    "ALIASES",
    "MAX_NESTING",
    "Argument",
    "Expr",
    "Source",
    "Value",
    "alias",
    "canonical",
    "macro_names",
    "macro_text",
    "parse",
    "parse_source",
]


def parse(text: str, *, file: str = "", line: int = 1, column: int = 1) -> Expr:
    """Parse one expression; syntax only, so its backends need not exist.

    `file`, `line` and `column` say where the text starts, for errors. Raises ConfigError.
    """
    if not isinstance(text, str):
        raise TypeError(f"an expression is a text, got `{type(text).__name__}`")
    expr = parse_source(Source(text, file, line, column))
    check_phases(expr)
    return expr
