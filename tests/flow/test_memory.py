"""Laws of memory: it stays flat over any number of calls, whatever their outcome, and over pipelines."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable
from typing import Any

import pytest

import hami

MOST_KB = 1000
"""What a heap may grow by itself; a leak of one object per call is more."""


def resident_kb() -> int:
    """Return how much memory the process has."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def growth_kb(call: Callable[[int], Any], count: int) -> int:
    """Return how much memory `count` calls leave behind, after a tenth of them to warm up."""
    for i in range(count // 10):
        call(i)
    gc.collect()
    before = resident_kb()
    for i in range(count):
        call(i)
    gc.collect()
    return resident_kb() - before


@pytest.fixture(autouse=True)
def backends() -> None:
    """`Echo` returns its data, `Raise` raises."""
    hami.register("Echo", lambda batch: [item["data"] for item in batch])
    hami.register("Raise", lambda batch: 1 // 0)


CALLS: dict[str, tuple[int, Any, Callable[[hami.Pipeline, int], Any]]] = {
    "in_place": (200_000, "Identity", lambda pipe, i: pipe({"data": i})),
    "refused": (30_000, "Pow", lambda pipe, i: pipe({"data": i, "request_size": 0})),
    "wrong": (10_000, "Pow", lambda pipe, i: pipe({"data": f"text{i}" * 10})),
    "queued": (20_000, "Identities", lambda pipe, i: pipe({"data": i})),
    "python": (20_000, "Echo", lambda pipe, i: pipe({"data": [i], f"key{i}": f"value{i}"})),
    "raising": (10_000, "Raise", lambda pipe, i: pipe({"data": f"text{i}" * 10})),
    "submit": (5_000, "Echo", lambda pipe, i: pipe.submit({"data": b"x" * 1000}).result(10)),
    "submit_raising": (5_000, "Raise", lambda pipe, i: pipe.submit({"data": b"x" * 1000}).exception(10)),
    "cancel": (5_000, "Echo", lambda pipe, i: pipe.submit({"data": b"x" * 1000}).cancel()),
    "deadline": (10_000, "Echo", lambda pipe, i: pipe({"data": i, "deadline_ms": 1e6})),
    "list": (3_000, {"backend": "Echo", "max": 8}, lambda pipe, i: pipe([{"data": i} for i in range(8)])),
    "for_each": (
        5_000,
        {"e": {"backend": "ForEach(target=w)"}, "w": {"backend": "Pow"}},
        lambda pipe, i: pipe({"data": [1, 2, "text" if i % 2 else 3]}),
    ),
}


@pytest.mark.parametrize("kind", list(CALLS))
def test_memory_stays_flat_over_any_number_of_calls(open_pipe: Any, kind: str, caplog: Any) -> None:
    caplog.set_level("CRITICAL", logger="hami")  # pytest keeps what is logged
    count, source, call = CALLS[kind]
    pipeline = open_pipe(source)

    def attempt(i: int) -> None:
        with contextlib.suppress(ZeroDivisionError, hami.RequestError):
            call(pipeline, i)

    assert growth_kb(attempt, count) < MOST_KB


def test_pipelines_made_and_dropped_leave_no_memory() -> None:
    def call(i: int) -> None:
        with hami.pipe({"a": {"backend": "Echo", "next": "b"}, "b": {"backend": "Identities"}}) as pipe:
            pipe({"data": i})

    assert growth_kb(call, 200) < MOST_KB
