"""Which waiting request runs first, as a class of the user's decides it.

`scheduler = "Name"` at a node names a class that derives from `Scheduler` and was registered with
`hami.register`. Classes are process-wide; each node makes an instance of its own, and calls it on the threads
that bring requests.
"""

from __future__ import annotations

from typing import Any

BUILT_IN = ("fifo", "priority", "edf")

_classes: dict[str, type[Scheduler]] = {}


class Scheduler:
    """Base class of schedulers: `order` gives each request a number, and the lower one runs first."""

    def order(self, request: dict[str, Any]) -> float:
        """Return the place of a request that has just arrived; equal ones run in order of arrival.

        `request` holds the keys of the item, `priority`, `request_size` (rows), and as `deadline_ms` the
        milliseconds that are left, or None. An exception is the error of that request.
        """
        raise NotImplementedError(f"`{type(self).__name__}` has no `order`")


def add(name: str, scheduler: type[Scheduler]) -> None:
    """Make a class known; hami.register has checked the name."""
    _classes[name] = scheduler


def find(name: str) -> type[Scheduler] | None:
    """Return the class of that name."""
    return _classes.get(name)


def names() -> list[str]:
    """Return what `scheduler` may be."""
    return [*BUILT_IN, *sorted(_classes)]
