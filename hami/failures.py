"""Exceptions on their way back to a caller: the core calls this module when a request has failed.

Each caller gets an exception of its own, so that tracebacks and notes of one do not grow with those of
another; a note says in which node it happened.
"""

from __future__ import annotations

import builtins
import contextlib
import inspect
import logging
from typing import Any, TypeVar

from . import errors

_MISSING: Any = object()
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


def report(exception: BaseException, node: str) -> None:
    """Log the failure of a request under the name of its node; the core calls it once for each.

    What the caller asked for, or has caused by closing, is no news. The message holds nothing of the request.
    """
    if isinstance(exception, (errors.Cancelled, errors.Closed)):
        return
    logger = logging.getLogger(f"hami.node.{node}" if node else "hami.pipeline")
    if logger.isEnabledFor(logging.WARNING):
        where = f"node `{node}`" if node else "the pipeline"
        logger.warning("a request failed in %s", where, exc_info=exception)


def _twin(exception: _E) -> _E:
    kind = type(exception)
    try:
        # Not copy.copy: it calls the class's own __init__ with args, which many exceptions do not accept.
        base: Any = next(one for one in kind.__mro__ if one.__module__ == builtins.__name__)
        args: tuple[Any, ...] = base.__reduce__(exception)[1]
        twin = kind.__new__(kind, *args)
        base.__init__(twin, *args)
        _copy_fields(exception, twin)
        state: dict[str, Any] = dict(vars(exception))
        if isinstance(state.get("__notes__"), list):
            state["__notes__"] = list(state["__notes__"])
        vars(twin).update(state)
        twin.args = exception.args
    except Exception:
        return exception
    return twin


def _copy_fields(exception: BaseException, twin: BaseException) -> None:
    """Copy what is in slots and C structures: `OSError.filename`, `ImportError.name`, users' `__slots__`."""
    for kind in type(exception).__mro__:
        for name, field in vars(kind).items():
            is_field = inspect.ismemberdescriptor(field) or inspect.isgetsetdescriptor(field)
            if not is_field or name.startswith("__") or name == "args":
                continue
            with contextlib.suppress(AttributeError, TypeError):
                value = getattr(exception, name)
                # Setting what is set already does harm: an OSError then counts a second file name as given.
                if getattr(twin, name, _MISSING) is not value:
                    setattr(twin, name, value)


def _add_note(exception: BaseException, note: str) -> None:
    notes: Any = getattr(exception, "__notes__", [])
    if note and isinstance(notes, list) and note not in notes:  # users may put anything there
        # By hand: add_note came with Python 3.11.
        vars(exception)["__notes__"] = [*notes, note]
