"""One live instance of a Python backend: how the core makes it, and how it ends.

The core calls this module, with the GIL held: `instantiate` for each copy while a pipeline is built, `end`
when the pipeline has closed. Classes and their declarations are in hami.backend.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .backend import Backend, WithPlans, answers_later, declared_params
from .errors import Error
from .event_loop import NodeLoop

if TYPE_CHECKING:
    from ._core import KVStorage


class FunctionBackend:
    """A plain function as a backend; attributes such as `batch_range` may be set on the function."""

    def __init__(self, function: Callable[[list[dict[str, Any]]], Any]) -> None:
        self.forward = function
        self.batch_range = getattr(function, "batch_range", Backend.batch_range)
        self.is_inline = getattr(function, "is_inline", Backend.is_inline)
        self.is_reentrant = getattr(function, "is_reentrant", Backend.is_reentrant)
        self.is_idempotent = getattr(function, "is_idempotent", Backend.is_idempotent)
        self.group_by = getattr(function, "group_by", Backend.group_by)


def instantiate(python: Any, params: dict[str, Any], options: dict[str, Any]) -> Any:
    """Make one instance: the object whose `forward` runs batches.

    Of a class: a new object, its declared parameters set as attributes, then `init(params, options)`. A
    function is wrapped; any other object is an instance already. What user code raises passes through.
    """
    plans: WithPlans | None = None
    if isinstance(python, WithPlans):
        plans, python = python, python.python
    if inspect.isroutine(python):
        return FunctionBackend(python)
    if not isinstance(python, type):
        return python
    instance = python()
    _hand_over_storage(instance, options.get("storage"))
    if plans is not None:
        instance.plans, instance.imports = plans.plans, plans.imports
    for declared in declared_params(python):
        setattr(instance, declared.name, params.get(declared.name, declared.default))
    init = getattr(instance, "init", None)
    if callable(init):
        try:
            init(params, options)
        except Error as error:  # it happened here, unless it names a place
            if not error.where and "node_name" in options:
                error.where = f"node `{options['node_name']}`"
            raise
    return instance


def _hand_over_storage(instance: Any, storage: KVStorage | None) -> None:
    """Set `storage`, unless the class means something of its own by that name or takes no attributes."""
    if storage is not None and not hasattr(type(instance), "storage"):
        with contextlib.suppress(AttributeError):
            instance.storage = storage


def is_async(forward: Any) -> bool:
    """Say whether `forward` is a coroutine function, which runs on the event loop of its node."""
    return inspect.iscoroutinefunction(forward)


def is_deferred(instance: Any) -> bool:
    """Say whether the object answers later: it has a `start`, and no `forward` of its own."""
    return answers_later(type(instance))


def end(node: str, instance: Any, loop: NodeLoop | None) -> None:
    """Close an instance whose pipeline has closed; None stands for one that is not the pipeline's own.

    What `close` raises is logged: nobody waits for it.
    """
    close = getattr(instance, "close", None)
    try:
        if callable(close):
            ending = close()
            if asyncio.iscoroutine(ending):
                _run_to_end(ending, loop)
    except BaseException as error:
        logging.getLogger(f"hami.node.{node}").error(
            "`close` of `%s` raised", type(instance).__name__, exc_info=error
        )
    finally:
        if loop is not None:
            loop.leave()


def _run_to_end(ending: Any, loop: NodeLoop | None) -> None:
    if loop is None:
        asyncio.run(ending)
    else:
        loop.call(ending)


def figures(node: str, stats: Any) -> dict[str, float]:
    """Return the numbers of what a backend's `stats()` returns; all else by that name means nothing here.

    What it raises is logged: whoever reads figures is not to blame.
    """
    try:
        told = stats() if callable(stats) else None
        return {
            name: float(value)
            for name, value in (told.items() if isinstance(told, Mapping) else ())
            if isinstance(name, str) and isinstance(value, (int, float))
        }
    except Exception as error:
        logging.getLogger(f"hami.node.{node}").warning("`stats` raised", exc_info=error)
        return {}


def report_abandoned(node: str, instance: Any, loop: NodeLoop | None) -> None:
    """Log that `close` of the pipeline left an instance behind, inside the user's code."""
    logging.getLogger(f"hami.node.{node}").warning(
        "the pipeline is closed, and an instance of `%s` is left to end alone inside `forward`",
        type(instance).__name__,
    )
