"""The parent of the workers: it starts them, puts a new one in the place of a dead one, and ends them all.

The first worker starts alone: what is wrong with the configuration is said once, and engines that it builds
lie in their cache when the others come. Until all are ready, any failure is the end. Afterwards a dead worker
is replaced at once, and one that does not start again after a pause that doubles; when none is left, and the
last start of every one has failed, the server ends with that error.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from typing import Any

import uvloop

from ...errors import WorkerError, exit_of
from ..settings import Settings
from .messages import Ask, Failed, Line, Start, Told
from .slot import Slot

_logger = logging.getLogger("hami.serve")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ASK_S = 0.5
"""How long a worker may take to say something; the probes of health are not patient."""
_STEADY_S = 10.0
"""A worker that was ready for so long and dies is no one that cannot live."""
_FIRST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 30.0
_GRACE_S = 3.0
"""How long a worker may take to end beyond `drain_s`."""


class StartError(Exception):
    """A worker does not start. `text` is what a command prints, `status` how it exits."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.text = text
        self.status = status


def supervise(
    source: Any, settings: Settings, log_level: str, listener: socket.socket, on_ready: Callable[[], None]
) -> bool:
    """Serve with `settings.workers` processes until a signal comes; `on_ready` is called once all listen.

    Returns whether all of them ended by themselves. Raises StartError.
    """
    return uvloop.run(Supervisor(source, settings, log_level, listener).run(on_ready))


def next_pause(pause_s: float) -> float:
    """Return the pause before the start after the next one."""
    return min(max(2 * pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)


class Supervisor:
    """The workers of one server, on one event loop."""

    def __init__(self, source: Any, settings: Settings, log_level: str, listener: socket.socket) -> None:
        self._settings = settings
        share = dataclasses.replace(
            settings, max_connections=-(-settings.max_connections // settings.workers)
        )
        self._slots = [
            Slot(Start(number, 1, source, share, log_level), listener, self._on_ask)
            for number in range(settings.workers)
        ]
        self._stopping = asyncio.Event()
        self._is_serving = False
        self._failure: Failed | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self, on_ready: Callable[[], None]) -> bool:
        """Start all, and end all after the first signal. Returns whether they ended by themselves."""
        keepers: list[asyncio.Task[None]] = []
        with self._signals():
            for group in (self._slots[:1], self._slots[1:]):
                keepers += [asyncio.create_task(self._keep(slot)) for slot in group]
                await self._until_ready(group)
            if not self._stopping.is_set():
                self._is_serving = True
                on_ready()
            await self._stopping.wait()
            has_ended = await self._end(keepers)
        if self._failure is not None:
            raise StartError(self._failure.text, self._failure.status)
        return has_ended

    async def _until_ready(self, slots: list[Slot]) -> None:
        """Wait until these are ready, or the end has begun."""
        waiting = {asyncio.create_task(slot.is_ready.wait()) for slot in slots}
        stopping = asyncio.create_task(self._stopping.wait())
        while waiting and not self._stopping.is_set():
            done, _ = await asyncio.wait({*waiting, stopping}, return_when=asyncio.FIRST_COMPLETED)
            waiting -= done
        for task in (*waiting, stopping):
            task.cancel()

    async def _keep(self, slot: Slot) -> None:
        """Run one process after the other in a slot."""
        pause_s = 0.0
        while not self._stopping.is_set():
            ready_s = await slot.run()
            if self._stopping.is_set():
                return
            if not self._is_serving or self._is_hopeless():
                self._fail(slot)
                return
            if ready_s >= _STEADY_S:
                pause_s = 0.0
            reason = "" if slot.failure is None else f": {slot.failure.text}"
            when = f"in {pause_s:g} s" if pause_s else "now"
            _logger.warning("worker %d %s, a new one starts %s%s", slot.number, slot.state, when, reason)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)
            pause_s = next_pause(pause_s)

    def _is_hopeless(self) -> bool:
        return all(slot.has_failed for slot in self._slots)

    def _fail(self, slot: Slot) -> None:
        error = WorkerError(
            f"worker {slot.number} {slot.state} before it was ready",
            code="serve-worker-died",
            help="look for its last words on the standard error output",
        )
        self._failure = slot.failure or Failed(*exit_of(error))
        self._stopping.set()

    async def _end(self, keepers: list[asyncio.Task[None]]) -> bool:
        """End every worker. Returns whether all ended by themselves."""
        for slot in self._slots:
            slot.stop()
        _, late = await asyncio.wait(keepers, timeout=self._settings.drain_s + _GRACE_S)
        for slot, keeper in zip(self._slots, keepers, strict=False):
            if keeper in late:
                _logger.error("worker %d (pid %s) did not end, and is killed", slot.number, slot.pid)
                slot.kill()
        await asyncio.gather(*keepers)
        return not late

    # --- what workers ask ---

    def _on_ask(self, asking: Slot, ask: Ask, line: Line) -> None:
        task = asyncio.create_task(self._tell(asking, ask, line))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _tell(self, asking: Slot, ask: Ask, line: Line) -> None:
        others = [slot for slot in self._slots if slot is not asking]
        said = await asyncio.gather(*(slot.ask(ask.topic, _ASK_S) for slot in others))
        members = tuple(slot.member(one) for slot, one in zip(others, said, strict=True))
        line.send(Told(ask.id, members))

    # --- signals ---

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in _SIGNALS:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            yield
        finally:
            for number in _SIGNALS:
                loop.remove_signal_handler(number)

    def _on_signal(self, number: int) -> None:
        if not self._stopping.is_set():
            self._stopping.set()
            return
        for slot in self._slots:
            slot.kill()
        sys.stderr.flush()
        os._exit(128 + number)
