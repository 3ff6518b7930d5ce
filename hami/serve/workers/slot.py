"""`Slot`: the place of one worker in the parent, filled by one process after the other."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
import time
from collections.abc import Callable
from typing import Any

from ...process.interpreter import how_it_ended, interpreter_command
from .messages import Answer, Ask, Failed, Line, Member, Question, Ready, Start, Stop

_WORKER = "hami.serve.workers.worker"

RUNNING = "running"
STARTING = "is starting"


class Slot:
    """Worker `start.number`. `on_ask` gets what it asks of the others. On the event loop of the parent."""

    def __init__(
        self, start: Start, listener: socket.socket, on_ask: Callable[[Slot, Ask, Line], None]
    ) -> None:
        self._start = start
        self._listener = listener
        self._on_ask = on_ask
        self._process: asyncio.subprocess.Process | None = None
        self._line: Line | None = None
        self._questions: dict[str, tuple[asyncio.Future[bytes], float]] = {}  # and since when
        self._is_stopping = False
        self._ready_at: float | None = None
        self.num_starts = 0
        self.state = STARTING
        self.is_ready = asyncio.Event()
        self.has_failed = False  # the last process that ended was never ready
        self.failure: Failed | None = None  # of that process, if it could say

    @property
    def number(self) -> int:
        """Which worker it is, from 0."""
        return self._start.number

    @property
    def pid(self) -> int | None:
        """The process that is there now."""
        return None if self._process is None else self._process.pid

    def member(self, said: bytes | None = None) -> Member:
        """Return what others may know of it."""
        return Member(self.number, self.pid, self.state, self.num_starts, said)

    async def run(self) -> float:
        """Start a process and wait for its end; returns for how many seconds it was ready.

        Afterwards `state` says how it ended.
        """
        self._begin()
        try:
            await self._launch()
        except OSError as error:
            self._end(f"did not start: {error}")
            return 0.0
        assert self._process is not None and self._line is not None
        while (message := await self._line.receive()) is not None:
            self._take(message)
        self._line.close()
        # One that has closed its line and stays would keep its place for ever.
        status = await self._process.wait()
        self._end(how_it_ended(status))
        return 0.0 if self._ready_at is None else time.monotonic() - self._ready_at

    def stop(self) -> None:
        """Let the process end in good order; one that does not serve yet ends at once."""
        self._is_stopping = True
        if self._process is None or self._line is None:
            return
        if self.is_ready.is_set():
            self._line.send(Stop())
        elif self._process.returncode is None:
            self._process.terminate()

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def ask(self, topic: str, timeout_s: float) -> bytes | None:
        """Return what the worker says about a topic; None if it is not there or hangs."""
        if self._line is None or not self.is_ready.is_set():
            return None
        now = time.monotonic()
        if topic not in self._questions:
            self._questions[topic] = (asyncio.get_running_loop().create_future(), now)
            self._line.send(Question(topic))
        # Whoever asks the same joins in; for one that hangs nobody waits again and again.
        answer, asked_at = self._questions[topic]
        done, _ = await asyncio.wait({answer}, timeout=max(asked_at + timeout_s - now, 0))
        return answer.result() if done and not answer.cancelled() else None

    # --- one process ---

    def _begin(self) -> None:
        self.num_starts += 1
        self.state = STARTING
        self._ready_at = None

    async def _launch(self) -> None:
        ours, theirs = socket.socketpair()
        try:
            descriptors = theirs.fileno(), self._listener.fileno()
            self._process = await asyncio.create_subprocess_exec(
                *interpreter_command(_WORKER, *descriptors),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=descriptors,
            )
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._line = await Line.open(ours)
        self._line.send(dataclasses.replace(self._start, num_starts=self.num_starts))
        if self._is_stopping:
            self.stop()

    def _take(self, message: Any) -> None:
        if isinstance(message, Ready):
            self._ready_at = time.monotonic()
            self.state = RUNNING
            self.has_failed, self.failure = False, None
            self.is_ready.set()
        elif isinstance(message, Failed):
            self.failure = message
        elif isinstance(message, Ask) and self._line is not None:
            self._on_ask(self, message, self._line)
        elif isinstance(message, Answer):
            answer, _ = self._questions.pop(message.topic)
            answer.set_result(message.said)

    def _end(self, how: str) -> None:
        self.state = how
        self.has_failed = not self.is_ready.is_set()
        self.is_ready.clear()
        self._process = self._line = None
        for answer, _ in self._questions.values():
            answer.cancel()
        self._questions.clear()
