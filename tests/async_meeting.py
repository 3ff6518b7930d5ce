"""A place where coroutines of a test wait for each other, and the threads of event loops that live now."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

WAIT_S = 10.0


class Meeting:
    """A place where coroutines wait until the test lets them go; opened from any thread."""

    def __init__(self) -> None:
        self.num_inside = 0
        self.cancelled: list[Any] = []
        self.ended: list[Any] = []
        self.loops: set[int] = set()
        self.threads: set[threading.Thread] = set()
        self._gate: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def wait(self, what: Any) -> None:
        """Wait for `open`."""
        self._loop = asyncio.get_running_loop()
        self.loops.add(id(self._loop))
        self.threads.add(threading.current_thread())
        self._gate = self._gate or asyncio.Event()
        self.num_inside += 1
        try:
            await asyncio.wait_for(self._gate.wait(), WAIT_S)
        except asyncio.CancelledError:
            self.cancelled.append(what)
            raise
        finally:
            self.num_inside -= 1
            self.ended.append(what)

    def open(self) -> None:
        """Let everybody inside go on."""
        assert self._loop is not None and self._gate is not None
        self._loop.call_soon_threadsafe(self._gate.set)


def loop_threads() -> list[str]:
    """Return the names of the threads of event loops that live now."""
    return [thread.name for thread in threading.enumerate() if thread.name.endswith(" loop")]
