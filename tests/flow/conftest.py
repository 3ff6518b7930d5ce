"""What the tests of running pipelines share: backends under the test's control, and waiting without sleeping.

A test makes its backends with `probe`, its pipelines with `open_pipe`, and waits with `eventually` or for the
runs of a probe. Whatever a test leaves behind, shut gates included, is opened and closed after it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from probes import WAIT_S, Probe, Work, wait_until
from registries import clean_registry

import hami

__all__ = ["clean_registry"]


@pytest.fixture
def eventually() -> Callable[[Callable[[], Any]], Any]:
    """Return the function that waits for a condition."""
    return wait_until


@pytest.fixture
def open_pipe() -> Iterator[Callable[[Any], hami.Pipeline]]:
    """Return `hami.pipe`; its pipelines are closed after the test."""
    opened: list[hami.Pipeline] = []

    def open_one(source: Any) -> hami.Pipeline:
        opened.append(hami.pipe(source))
        return opened[-1]

    yield open_one
    for pipeline in reversed(opened):
        pipeline.close(timeout=WAIT_S)


@pytest.fixture
def probe(open_pipe: Any) -> Iterator[Callable[..., Probe]]:
    """Return a function that registers a Probe: `probe("Name", work, batch_range=(1, 8), ...)`."""
    made: list[Probe] = []

    def make(name: str = "Probe", work: Work = lambda item: item["data"], **traits: Any) -> Probe:
        made.append(Probe(work).register(name, **traits))
        return made[-1]

    yield make
    for one in made:
        one.open()


@pytest.fixture
def in_threads() -> Callable[..., list[Any]]:
    """Return a function that runs `work(index)` in `count` threads at once, and returns their values."""

    def run(count: int, work: Callable[[int], Any]) -> list[Any]:
        outcomes: list[Any] = [None] * count
        errors: list[BaseException] = []
        barrier = threading.Barrier(count)

        def one(index: int) -> None:
            try:
                barrier.wait(WAIT_S)
                outcomes[index] = work(index)
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=one, args=(index,), daemon=True) for index in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WAIT_S * 2)
        assert not any(thread.is_alive() for thread in threads), "a thread hangs"
        if errors:
            raise errors[0]
        return outcomes

    return run


@pytest.fixture
def waiting() -> Callable[..., int]:
    """Return a function that says how many requests wait at a node."""

    def count(pipeline: hami.Pipeline, node: int = 0) -> int:
        return int(pipeline.stats()[node]["waiting"])

    return count


@pytest.fixture
def rounds() -> None:
    """`Work` adds one and asks for another round below 6; `AddOne` only adds; `Below` is a condition."""

    @hami.register
    def Work(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            item["result"] = item["data"] + 1
            if item["result"] < 6:
                item["restart"] = item.get("back_to", True)

    @hami.register
    def AddOne(batch: list[dict[str, Any]]) -> list[Any]:  # noqa: N802
        return [item["data"] + 1 for item in batch]

    @hami.register
    class Below(hami.Backend):
        limit = hami.param(6)

        def forward(self, batch: list[dict[str, Any]]) -> None:
            for item in batch:
                if item["data"] < self.limit:
                    item["result"] = True

    # Without a result the condition does not hold: no error, since LoopCondition asks and goes on.


@pytest.fixture
def new_threads() -> Callable[[], set[str]]:
    """Return a function that gives the threads begun since now, by number, those of the core included."""
    before = set(os.listdir("/proc/self/task"))
    return lambda: set(os.listdir("/proc/self/task")) - before
