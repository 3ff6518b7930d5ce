"""`(name)X`, `(name(args))X`, `(name=arg)X`, `(filter=name)X`: the condition in front of a backend.

`or`, `run` and file suffixes such as `.onnx` are words of their own.
"""

from __future__ import annotations

from ..backend import FAMILIES, declarations
from ..errors import ConfigError, Source, did_you_mean, quoted
from ..parser import Argument, Expr, canonical, parse_source
from ..plugins import fetch

# The backends that heed conditions in front of their children.
HEEDED_BY = ("S", "List")

_FORMS = "write `(name)X`, `(name(arguments))X` or `(name=argument)X`"


def condition_of(expr: Expr) -> Expr | None:
    """Return the condition in the prefix, with its arguments; None for other prefixes.

    Raises ConfigError for a prefix that can be neither.
    """
    if not expr.prefix or all(_is_suffix(argument) for argument in expr.prefix):
        return None
    argument = expr.prefix[0]
    if len(expr.prefix) > 1:
        raise _refused(expr, "a prefix is one condition", _FORMS)
    if argument.name not in (None, "filter"):
        name = canonical(argument.name or "")
        return Expr(name, (Argument(None, argument.value, argument.span),), span=argument.span)
    text = argument.value.value
    if text == "run" or (text == "or" and argument.name is None):
        return None
    if not isinstance(text, str):
        raise _refused(expr, f"`{argument.value.raw or text}` is no condition", _FORMS)
    found = parse_source(_source_of(argument, text))
    if found.phases or found.prefix:
        raise _refused(expr, f"`{text}` is more than a name with arguments", _FORMS)
    return Expr(canonical(found.name), found.args, span=found.span)


def _is_suffix(argument: Argument) -> bool:
    return argument.name is None and str(argument.value.value).startswith(".")


def _source_of(argument: Argument, text: str) -> Source:
    """Return the text of the prefix as a source, so that errors inside it have their place."""
    span = argument.value.span
    if span is None:
        return Source(text, name="prefix")
    is_as_written = span.source.text[span.start : span.end] == text
    offsets = range(span.start, span.end + 1) if is_as_written else [span.start] * (len(text) + 1)
    return span.source.replaced(text, offsets)


def known_condition(expr: Expr) -> Expr | None:
    """Return the condition in front of a backend, or None. Raises ConfigError for an unknown name."""
    condition = condition_of(expr)
    if condition is None:
        return None
    if condition.name in ("or", "run"):
        message = f"`{condition.name}` in a prefix stands alone"
        raise _refused(expr, message, f"write `({condition.name})X`")
    known = declarations()
    if condition.name not in known and fetch(condition.name) is not None:
        known = declarations()
    if condition.name not in known or not known[condition.name].is_condition:
        is_backend = condition.name in {*known, *FAMILIES}
        name = f"`{condition.name}`"
        message = f"{name} is a backend, but no condition" if is_backend else f"there is no condition {name}"
        names = sorted({"or", "run", *(one.name for one in known.values() if one.is_condition)})
        help = did_you_mean(condition.name, names, otherwise=f"the conditions are {quoted(names)}")
        raise _error(expr, "plan-unknown-prefix", message, help)
    return condition


def refuse_misplaced(expr: Expr) -> None:
    """Refuse a condition in front of a backend where nobody asks it. Raises ConfigError."""
    heeded = {id(child) for part in expr.walk() if part.name in HEEDED_BY for child in part.children}
    for part in expr.walk():
        condition = condition_of(part)
        if condition is not None and id(part) not in heeded:
            message = f"the condition `{condition.name}` in front of `{part.name}` has no effect here"
            help = f"a prefix works inside `S[...]`; anywhere else write `{condition.name}[{part.name}]`"
            raise _error(part, "plan-misplaced-prefix", message, help)


def _refused(expr: Expr, message: str, help: str) -> ConfigError:
    return _error(expr, "plan-bad-prefix", message, help)


def _error(expr: Expr, code: str, message: str, help: str) -> ConfigError:
    span = expr.prefix[0].span or expr.span
    if span is not None:
        return span.error(code, message, help)
    return ConfigError(message, code=code, where=expr.name, help=help)
