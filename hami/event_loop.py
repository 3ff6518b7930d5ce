"""The event loop of a node whose `forward` is a coroutine function: one thread, shared by its instances.

The core makes one NodeLoop for such a node and calls it from the threads of the instances. A run is a Task on
the loop; the number of instances is the number of batches in flight.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any

CLOSE_S = 5.0
"""How long an `async def close` may take."""

Forward = Callable[[list[dict[str, Any]]], Coroutine[Any, Any, Any]]


class Run:
    """One coroutine on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[None] | None = None
        self._value: Any = None
        self._error: BaseException | None = None

    def begin(self, forward: Forward, batch: list[dict[str, Any]], on_end: Callable[[], None]) -> None:
        """Start the coroutine. Called on the loop's thread."""
        self._task = self._loop.create_task(self._run(forward, batch))
        # Not the last line of `_run`: a task that is cancelled before its first step runs none of it.
        self._task.add_done_callback(lambda task: self._note_end(task, on_end))

    async def _run(self, forward: Forward, batch: list[dict[str, Any]]) -> None:
        try:
            self._value = await forward(batch)
        except BaseException as error:  # SystemExit and KeyboardInterrupt would end the loop
            self._error = error

    def _note_end(self, task: asyncio.Task[None], on_end: Callable[[], None]) -> None:
        if task.cancelled():
            self._error = asyncio.CancelledError()
        on_end()

    def cancel(self) -> None:
        """Cancel the coroutine, from any thread."""
        self._loop.call_soon_threadsafe(self._cancel_task)

    def _cancel_task(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def outcome(self) -> Any:
        """Return what the coroutine returned, or raise what it raised. REQUIRES: it has ended."""
        if self._error is not None:
            raise self._error
        return self._value


class NodeLoop:
    """An event loop on a thread of its own, from the first `join` to the last `leave`."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._lock = threading.Lock()
        self._num_users = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def join(self) -> None:
        """Count one more instance; the first one starts the thread."""
        with self._lock:
            self._num_users += 1
            if self._loop is not None:
                return
            self._loop = asyncio.new_event_loop()
            # A daemon: at the end of the interpreter it must not be waited for before the pipelines close.
            self._thread = threading.Thread(
                target=self._serve, args=(self._loop,), name=f"{self._node} loop", daemon=True
            )
            self._thread.start()

    def leave(self) -> None:
        """Count one instance less; the last one ends the thread."""
        with self._lock:
            self._num_users -= 1
            if self._num_users > 0 or self._loop is None or self._thread is None:
                return
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        loop.call_soon_threadsafe(loop.stop)
        if thread is not threading.current_thread():
            thread.join(CLOSE_S)

    def start(self, forward: Forward, batch: list[dict[str, Any]], on_end: Callable[[], None]) -> Run:
        """Start a batch; `on_end()` is called on the loop's thread once it has ended."""
        loop = self._running()
        run = Run(loop)
        loop.call_soon_threadsafe(run.begin, forward, batch, on_end)
        return run

    def call(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        """Run a coroutine to its end, for CLOSE_S at most."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._running()).result(CLOSE_S)

    def _running(self) -> asyncio.AbstractEventLoop:
        assert self._loop is not None, "no instance has joined"
        return self._loop

    @staticmethod
    def _serve(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
        finally:
            _cancel_rest(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
            asyncio.set_event_loop(None)
            loop.close()


def _cancel_rest(loop: asyncio.AbstractEventLoop) -> None:
    """End the tasks that the user's code started and left behind."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
