"""Conditions written in Python: a predicate on one item, under a name that expressions may use.

`big[A, B]` chooses with it, `S[(big)A, B]` runs A only where it holds. Process-wide like the classes, whose
names it shares; any thread may register one.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from .backend import Declaration, check_name, refuse, store

_Predicate = TypeVar("_Predicate", bound=Callable[[dict[str, Any]], Any])

# Words that a prefix has a meaning for already.
RESERVED = ("or", "run", "filter")


def condition(name: str) -> Callable[[_Predicate], _Predicate]:
    """Register the decorated predicate: `@hami.condition("big")`, or `hami.condition("big")(function)`.

    It gets the dict of one item and answers with a truth value; what it changes in the dict is gone
    afterwards, and what it raises fails that item alone. A name that is taken or cannot be one is a
    ConfigError, as is something that cannot be called with one dict.
    """

    def decorate(predicate: _Predicate) -> _Predicate:
        check_name(name, predicate, "condition", "condition")
        if name in RESERVED:
            raise refuse(name, f"`{name}` has a meaning of its own in a prefix", "choose another name")
        _check_predicate(name, predicate)
        doc = (inspect.getdoc(predicate) or "").strip().split("\n\n")[0].replace("\n", " ")
        declaration = Declaration(name, doc, "python", max_children=2, is_condition=True, python=predicate)
        store(name, predicate, declaration)
        return predicate

    return decorate


def _check_predicate(name: str, predicate: object) -> None:
    help = "write `def predicate(item)`, which returns True or False"
    if not callable(predicate):
        raise refuse(name, f"the predicate of `{name}` cannot be called", help)
    if (
        inspect.iscoroutinefunction(predicate)
        or inspect.isgeneratorfunction(predicate)
        or inspect.isasyncgenfunction(predicate)
    ):
        raise refuse(name, f"the predicate of `{name}` gives no truth value, but an object to wait for", help)
    try:
        inspect.signature(predicate).bind({})
    except TypeError:
        raise refuse(name, f"the predicate of `{name}` cannot be called with one item", help) from None
    except ValueError:  # some builtins do not tell their signature
        pass
