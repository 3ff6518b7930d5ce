"""Answers without a thread that waits: a dict that carries an Event starts its request and returns at once.

An Event is set once, when every dict that carried it has its answer; then its callbacks run, on the thread
that brought the last answer. Every method may be called from any thread.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Generator
from typing import Any

from . import failures
from .errors import RequestError

_logger = logging.getLogger("hami.event")

Callback = Callable[["Event"], Any]


class Dict(dict[str, Any]):
    """A request whose keys are attributes as well: `Dict(data=1).data`."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"the dict has no key `{name}`") from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(f"the dict has no key `{name}`") from None


class Event:
    """The end of a call. Put it under `event` into one dict, or into several dicts of one call."""

    # Thousands may be in flight: what only a waiting thread needs is made when one waits.
    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_error",
        "_is_claimed",
        "_is_set",
        "_lock",
        "_num_left",
        "_reached",
    )

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._reached: threading.Event | None = None
        self._is_claimed = False
        self._num_left = 0
        self._is_set = False
        self._error: BaseException | None = None
        self._callbacks: tuple[Callback, ...] = ()

    def is_set(self) -> bool:
        """Say whether every dict has its answer."""
        return self._is_set

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for `timeout` seconds at most, and say whether the event is set.

        Once it is, raises the first exception, first in time, that one of the dicts ended with.
        """
        with self._lock:
            if not self._is_set and self._reached is None:
                self._reached = threading.Event()
        if not self._is_set and self._reached is not None and not self._reached.wait(timeout):
            return False
        self._raise_error()
        return True

    def exception(self) -> BaseException | None:
        """Return the first exception until now, without waiting; None while there is none."""
        return self._error

    def add_callback(self, callback: Callback) -> None:
        """Call `callback(event)` once the event is set, or now if it is. What it raises is logged."""
        with self._lock:
            if not self._is_set:
                self._callbacks += (callback,)
                return
        self._call(callback)

    def __await__(self) -> Generator[Any, None, bool]:
        """Wait on an event loop; raises what `wait` raises."""
        return self._wait_on_loop().__await__()

    async def _wait_on_loop(self) -> bool:
        # loaded here: most programs that import hami await no event
        asyncio: Any = importlib.import_module("asyncio")
        loop = asyncio.get_running_loop()
        reached = asyncio.Event()

        def on_set(event: Event) -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(reached.set)

        self.add_callback(on_set)
        await reached.wait()
        self._raise_error()
        return True

    def __repr__(self) -> str:
        state = "set" if self._is_set else "in use" if self._is_claimed else "new"
        return f"<hami.Event {state}>"

    # --- for the pipeline ---------------------------------------------------------------------------

    def claim(self, num_dicts: int) -> None:
        """Take the event for a call with that many dicts. Raises RequestError if it was taken before."""
        with self._lock:
            if self._is_claimed:
                state = "was used already" if self._is_set else "is in use"
                raise RequestError(
                    f"the event under `event` {state}, and an event is set once",
                    code="request-event",
                    help="make a new one for each call: `hami.Event()`",
                )
            self._is_claimed = True
            self._num_left = num_dicts

    def unclaim(self) -> None:
        """Give the event back: nothing was submitted."""
        with self._lock:
            self._is_claimed = False
            self._num_left = 0

    def settle(self, error: BaseException | None) -> None:
        """Note that one dict has its answer."""
        with self._lock:
            if error is not None and self._error is None:
                self._error = error
            self._num_left -= 1
            if self._num_left > 0:
                return
            self._is_set = True
            callbacks, self._callbacks = self._callbacks, ()
            if self._reached is not None:
                self._reached.set()
        for callback in callbacks:
            self._call(callback)

    def _call(self, callback: Callback) -> None:
        try:
            callback(self)
        except BaseException as error:
            _logger.error("a callback of an event raised", exc_info=error)

    def _raise_error(self) -> None:
        # A copy for each: the traceback of one who waits must not grow with those of others.
        if self._error is not None:
            raise failures.copy(self._error, "")
