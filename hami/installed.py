"""The backends that installed packages promise: entry points of the group `hami.backends`.

An entry point has the name of a backend, and leads to the module whose import registers it, to its class or
function, or to the path of a plugin. hami.plugins follows one when a text names its backend; until then the
package is not imported, so that a broken one harms nobody who does not use it.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .errors import ConfigError, quoted

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

GROUP = "hami.backends"

_log = logging.getLogger("hami.plugins")


@dataclass(frozen=True)
class Promise:
    """One backend of an installed package."""

    package: str
    entry: EntryPoint

    def follow(self) -> Any:
        """Return what the entry point leads to. Raises ConfigError that names the package."""
        try:
            return self.entry.load()
        except (Exception, SystemExit) as error:
            raise self.broken(error) from error

    def broken(self, error: BaseException) -> ConfigError:
        """Return the error about a promise that the package cannot keep."""
        return ConfigError(
            f"the package `{self.package}` cannot load its backend `{self.entry.name}` from "
            f"`{self.entry.value}`: {type(error).__name__}: {error}",
            code="entry-point-broken",
            help=f"repair, update or uninstall `{self.package}`",
        )


def promises() -> Mapping[str, tuple[Promise, ...]]:
    """Return the promised backends by name; several packages may promise one."""
    return _promises_on(tuple(sys.path))


def promise_of(name: str) -> Promise | None:
    """Return the promise of that name. Raises ConfigError where several packages have one."""
    found = promises().get(name, ())
    if len(found) > 1:
        packages = sorted(promise.package for promise in found)
        raise ConfigError(
            f"the packages {quoted(packages)} all have a backend `{name}`",
            code="entry-point-twice",
            help="uninstall all of them but one",
        )
    return found[0] if found else None


@lru_cache(maxsize=4)
def _promises_on(path: tuple[str, ...]) -> Mapping[str, tuple[Promise, ...]]:
    """Look through the packages on `path`, which is sys.path: a change of it is a new look."""
    from importlib import metadata

    found: dict[str, tuple[Promise, ...]] = {}
    seen: set[str] = set()
    for distribution in metadata.distributions():
        for promise in _promises_in(distribution):
            key = f"{promise.package.lower()} {promise.entry.name}"
            if key not in seen:  # the first one on the path is the one that is imported
                seen.add(key)
                found[promise.entry.name] = (*found.get(promise.entry.name, ()), promise)
    return found


def _promises_in(distribution: Distribution) -> Iterator[Promise]:
    try:
        if GROUP not in (distribution.read_text("entry_points.txt") or ""):
            return
        package = str(distribution.metadata["Name"])
        entries = [entry for entry in distribution.entry_points if entry.group == GROUP]
    except Exception as error:  # somebody's broken file must not stop what others need
        _log.warning("the entry points of a package cannot be read: %s: %s", type(error).__name__, error)
        return
    for entry in entries:
        yield Promise(package, entry)
