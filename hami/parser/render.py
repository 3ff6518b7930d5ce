"""Expr -> text, and Expr -> a tree for people.

`to_text` is the inverse of parsing: parsing its result gives an equal Expr. `hami show` and error messages
use both. Drawings of graphs are in graph.py.
"""

from __future__ import annotations

from collections.abc import Iterator

from .expr import Argument, Expr, Value

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r", "\0": "\\0"}

_NOTES = {"bound": "from phase 1", "instance": "instance"}


def to_text(expr: Expr) -> str:
    """Return the expression on one line."""
    if not expr.phases:
        return head_text(expr)
    phases = []
    for phase in expr.phases:  # loops, not comprehensions: one Python frame per level
        texts = []
        for child in phase:
            texts.append(to_text(child))
        phases.append(", ".join(texts))
    return f"{head_text(expr)}[{'; '.join(phases)}]"


def head_text(expr: Expr) -> str:
    """Return prefix, name and arguments, without the children."""
    prefix = f"({prefix_text(expr)})" if expr.prefix else ""
    args = f"({arguments_text(expr.args)})" if expr.args else ""
    return f"{prefix}{expr.name}{args}"


def prefix_text(expr: Expr) -> str:
    """Return what stands between the parentheses of the prefix: `or`, `.onnx`, `filter=run`."""
    return arguments_text(expr.prefix)


def arguments_text(arguments: tuple[Argument, ...]) -> str:
    """Return what stands between parentheses. After a space, `#` would start a comment."""
    text = ""
    for argument in arguments:
        one = argument_text(argument)
        text += f"{'' if not text else ',' if one.startswith('#') else ', '}{one}"
    return text


def argument_text(argument: Argument) -> str:
    """Return `value` or `name=value`."""
    value = value_text(argument.value)
    return value if argument.name is None else f"{argument.name}={value}"


def value_text(value: Value) -> str:
    """Return a value as it can be written in an expression."""
    if value.kind == "string":
        return quote(value.value)
    if value.kind == "placeholder":
        return f"{{{value.value}}}"
    if value.kind == "bool":
        return "true" if value.value else "false"
    if value.kind == "object":
        return _object_text(value.value)
    return value.raw or str(value.value)


def quote(text: str) -> str:
    """Return `text` between double quotes, with escapes."""
    return '"' + "".join(_ESCAPES.get(c, c) for c in text) + '"'


def _object_text(value: object) -> str:
    if isinstance(value, str):
        return quote(value)
    import json

    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def to_tree(expr: Expr) -> str:
    """Return the expression as an indented tree, one backend a line."""
    return "\n".join(_tree_lines(expr))


def _tree_lines(expr: Expr) -> Iterator[str]:
    note = _NOTES.get(expr.kind)
    yield f"{head_text(expr)} ({note})" if note else head_text(expr)
    phase_of = [number for number, phase in enumerate(expr.phases) for _ in phase]
    has_phases = len(expr.phases) > 1
    last = len(phase_of) - 1
    for index, child in enumerate(expr.children):
        branch, rest = ("└─ ", "   ") if index == last else ("├─ ", "│  ")
        mark = f"{phase_of[index] + 1}: " if has_phases else ""
        for number, line in enumerate(_tree_lines(child)):
            yield f"{branch}{mark}{line}" if number == 0 else f"{rest}{' ' * len(mark)}{line}"
