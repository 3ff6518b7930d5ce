"""Exceptions on their way back to a caller: the core calls this module when a request has failed.

Each caller gets an exception of its own, so that tracebacks and notes of one do not grow with those of another; a
note says in which node it happened.
"""

from __future__ import annotations

import builtins
from typing import Any, TypeVar

from . import errors

_E = TypeVar("_E", bound=BaseException)


def make(kind: str, message: str, code: str, where: str, help: str, note: str) -> errors.Error:
    """Return an error of class `hami.errors.<kind>`; `note` says where it happened, or is empty."""
    error: errors.Error = getattr(errors, kind)(message, code=code, where=where, help=help)
    _add_note(error, note)
    return error


def copy(exception: _E, note: str) -> _E:
    """Return a copy of a user's exception, with its traceback, causes and notes, and one note more.

    An exception that cannot be copied is returned itself: better shared than lost.
    """
    twin = _twin(exception)
    if twin is not exception:
        twin.__traceback__ = exception.__traceback__
        twin.__cause__ = exception.__cause__
        twin.__context__ = exception.__context__
        twin.__suppress_context__ = exception.__suppress_context__
    _add_note(twin, note)
    return twin


def _twin(exception: _E) -> _E:
    kind = type(exception)
    try:
        # Not copy.copy: it calls __init__ with args, which many exceptions of users do not accept.
        twin = kind.__new__(kind, *exception.args)
        base = next(one for one in kind.__mro__ if one.__module__ == builtins.__name__)
        base.__init__(twin, *exception.args)
        state: dict[str, Any] = dict(vars(exception))
        if "__notes__" in state:
            state["__notes__"] = list(state["__notes__"])
        vars(twin).update(state)
        twin.args = exception.args
    except Exception:
        return exception
    return twin


def _add_note(exception: BaseException, note: str) -> None:
    if not note:
        return
    notes: list[str] = getattr(exception, "__notes__", [])
    if note not in notes:
        # By hand: add_note came with Python 3.11.
        vars(exception)["__notes__"] = [*notes, note]
