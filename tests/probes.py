"""Backends under a test's control, and waiting without sleeping."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import hami

WAIT_S = 10.0
"""How long a test waits for what must happen; only a failing test takes this long."""

Work = Callable[[dict[str, Any]], Any]


def wait_until(condition: Callable[[], Any], timeout_s: float = WAIT_S) -> Any:
    """Return the first true value of `condition()`; fail when it stays false."""
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition never became true"
        pause.wait(0.001)
    return value


class Probe:
    """A Python backend that records its batches, and blocks inside them while its gate is shut."""

    def __init__(self, work: Work) -> None:
        self.batches: list[list[Any]] = []
        self._work = work
        self._changed = threading.Condition()
        self._gate = threading.Event()
        self._gate.set()

    @property
    def items(self) -> list[Any]:
        """The `data` of every item that reached the backend, in order."""
        return [data for batch in self.batches for data in batch]

    def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
        """Run one batch."""
        with self._changed:
            self.batches.append([item.get("data") for item in batch])
            self._changed.notify_all()
        # Longer than anybody waits for what the gate holds back.
        assert self._gate.wait(WAIT_S * 5), "nobody opened the gate"
        return [self._work(item) for item in batch]

    def shut(self) -> None:
        """Let runs that begin from now on block."""
        self._gate.clear()

    def open(self) -> None:
        """Let all runs go on."""
        self._gate.set()

    def wait_for_runs(self, num_runs: int) -> None:
        """Wait until that many runs have begun, counted from the start of the test."""
        with self._changed:
            is_reached = self._changed.wait_for(lambda: len(self.batches) >= num_runs, WAIT_S)
        assert is_reached, f"{len(self.batches)} of {num_runs} runs began"

    def plug(self, pipeline: hami.Pipeline, **keys: Any) -> Future[dict[str, Any]]:
        """Shut the gate and keep an instance busy; returns once it is."""
        num_runs = len(self.batches)
        self.shut()
        future = pipeline.submit({"data": "plug", **keys})
        self.wait_for_runs(num_runs + 1)
        return future

    def register(self, name: str, **traits: Any) -> Probe:
        """Make it the backend `name`."""

        def forward(backend: Any, batch: list[dict[str, Any]]) -> list[Any]:
            return self.forward(batch)

        hami.register(name, type(name, (hami.Backend,), {**traits, "forward": forward}))
        return self
