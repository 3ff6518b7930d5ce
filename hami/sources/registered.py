"""`hami.source`: Python iterables by name, and `Source`, the backend that reads one.

Names are process-wide, like those of backends; any thread may register. Every pipeline iterates for itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ..backend import param, register
from ..errors import BuildError, ConfigError, did_you_mean, quoted
from .stream import SourceBackend, optional_param, repeat_param

_T = TypeVar("_T", bound="Callable[[], Iterable[Any]] | Iterable[Any]")

_lock = threading.Lock()
_sources: dict[str, Any] = {}


def source(name: str) -> Callable[[_T], _T]:
    """Name a source: `@hami.source("frames")` on a generator function, or `hami.source("frames")(a_list)`.

    A function is called without arguments once per epoch; an iterable is iterated anew. Iterators, which can
    be read once only, are refused, as is a second source of one name. A function that is defined anew (a
    reloaded module) replaces the old one.
    """
    _check_name(name)

    def keep(target: _T) -> _T:
        _check(name, target)
        with _lock:
            old = _sources.get(name)
            if old is not None and old is not target and _place(old) != _place(target):
                raise _refuse(name, f"there is already a source `{name}`", "choose another name")
            _sources[name] = target
        return target

    return keep


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not name:
        raise _refuse(name, f"a source's name is text, got `{name!r}`", 'write `@hami.source("frames")`')


def _check(name: str, target: Any) -> None:
    if callable(target):
        return
    try:
        is_iterator = iter(target) is target
    except TypeError:
        message = f"source `{name}` is a `{type(target).__name__}`, which is not iterable"
        raise _refuse(name, message, "pass a generator function, or an iterable such as a list") from None
    if is_iterator:
        message = f"source `{name}` is an iterator, which can be read only once"
        raise _refuse(name, message, "pass the function that makes it")


def _place(target: Any) -> tuple[str, str] | int:
    """Return what stays the same when a module is loaded again; objects without a name are themselves."""
    name = getattr(target, "__qualname__", None)
    return id(target) if name is None else (str(getattr(target, "__module__", "")), str(name))


def _refuse(name: object, message: str, help: str) -> ConfigError:
    return ConfigError(message, code="register-refused", where=f"source {name}", help=help)


def find_source(name: str) -> Callable[[], Iterator[Any]]:
    """Return the function that begins an epoch of a registered source. Raises BuildError."""
    target = _sources.get(name)
    if target is None:
        otherwise = (
            f"there are {quoted(sorted(_sources))}" if _sources else "name one with `hami.source(...)`"
        )
        raise BuildError(
            f"there is no source `{name}`",
            code="source-unknown",
            help=did_you_mean(name, _sources, otherwise=otherwise),
        )
    return lambda: iter(target() if callable(target) else target)


@register
class Source(SourceBackend):
    """The next element of an iterable that `hami.source` has named."""

    name = param(type="str", doc="the name that `hami.source` gave it")
    repeat = repeat_param()
    optional = optional_param()

    def open(self) -> Callable[[], Iterator[Any]]:
        """Look the name up."""
        return find_source(self.name)
