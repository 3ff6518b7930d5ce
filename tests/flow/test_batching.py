"""Laws of batching: what runs together, how large a batch gets, and how long an item waits for company.

Batches form behind a busy instance: a test plugs the only instance, lets requests queue up, and opens the
gate. The clock enters only as a timeout so long that waiting for it would fail the test.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import hami

np = pytest.importorskip("numpy")

FOR_EVER_MS = 600_000


@pytest.fixture
def queue_up(open_pipe: Any, probe: Any, waiting: Any, eventually: Any) -> Callable[..., Any]:
    """Return a function that runs requests which all queued behind a busy instance; it gives the batches."""

    def run(
        requests: list[dict[str, Any]], backend: dict[str, Any] | None = None, **settings: Any
    ) -> list[list[Any]]:
        seen = probe(**(backend or {}))
        pipeline = open_pipe({"backend": "Probe", **settings})
        plug = seen.plug(pipeline)
        futures = [pipeline.submit(request) for request in requests]
        assert eventually(lambda: waiting(pipeline) == len(requests))
        seen.open()
        for future in [plug, *futures]:
            future.result(10)
        return seen.batches[1:]

    return run


def numbers(count: int, **keys: Any) -> list[dict[str, Any]]:
    """Return requests with the data 0, 1, 2, ..."""
    return [{"data": i, **keys} for i in range(count)]


# --- size -----------------------------------------------------------------------------------------


def test_ten_items_in_one_call_into_max_4_run_as_4_4_2(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "max": 4, "batching_timeout": FOR_EVER_MS})
    pipeline(numbers(10))
    assert seen.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    stats = pipeline.stats()[0]
    assert stats["batch_rows"] == {4: 2, 2: 1}
    assert stats["releases"] == {"full": 2, "everyone_here": 1}
    assert stats["items"] == 10


@pytest.mark.parametrize("source", ["Identities", "S[Identities, Pow]"])
def test_backends_of_the_core_run_in_batches_too(open_pipe: Any, source: str) -> None:
    pipeline = open_pipe({"backend": source, "max": 4, "batching_timeout": FOR_EVER_MS})
    pipeline(numbers(10))
    assert pipeline.stats()[0]["batch_rows"] == {4: 2, 2: 1}


def test_a_batch_fills_while_every_instance_is_busy(queue_up: Any) -> None:
    assert queue_up(numbers(64), max=16) == [list(range(i, i + 16)) for i in range(0, 64, 16)]


def test_a_full_batch_does_not_wait_for_the_timeout(open_pipe: Any, probe: Any, in_threads: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "max": 2, "batching_timeout": FOR_EVER_MS})
    pipeline(numbers(2))
    assert seen.batches == [[0, 1]]
    assert pipeline.stats()[0]["releases"] == {"full": 1}


def test_max_is_1_unless_the_node_or_the_backend_says_otherwise(queue_up: Any) -> None:
    assert queue_up(numbers(3)) == [[0], [1], [2]]


def test_the_range_of_the_backend_is_the_default_max(queue_up: Any) -> None:
    assert queue_up(numbers(5), {"batch_range": (1, 2)}) == [[0, 1], [2, 3], [4]]


def test_max_of_the_node_narrows_the_range_of_the_backend(queue_up: Any) -> None:
    assert queue_up(numbers(5), {"batch_range": (1, 8)}, max=3) == [[0, 1, 2], [3, 4]]


def test_max_above_the_range_of_the_backend_is_a_build_error(open_pipe: Any, probe: Any) -> None:
    probe(batch_range=(1, 8))
    with pytest.raises(hami.BuildError, match=r"`9`.*`8`"):
        open_pipe({"backend": "Probe", "max": 9})


# --- rows -----------------------------------------------------------------------------------------


def test_the_rows_of_a_batch_never_exceed_max(queue_up: Any) -> None:
    assert queue_up(numbers(8, request_size=3), max=10) == [[0, 1, 2], [3, 4, 5], [6, 7]]


def test_the_first_item_that_does_not_fit_ends_the_batch(queue_up: Any) -> None:
    sizes = [2, 2, 3, 1, 4, 4]
    requests = [{"data": i, "request_size": size} for i, size in enumerate(sizes)]
    assert queue_up(requests, max=4) == [[0, 1], [2, 3], [4], [5]]


@pytest.mark.parametrize("seed", range(5))
def test_batches_of_random_rows_are_greedy_and_in_order(queue_up: Any, seed: int) -> None:
    sizes = [int(size) for size in np.random.default_rng(seed).integers(1, 8, 60)]
    expected: list[list[int]] = []
    room = 0
    for i, size in enumerate(sizes):
        if size > room:
            expected.append([])
            room = 7
        expected[-1].append(i)
        room -= size
    requests = [{"data": i, "request_size": size} for i, size in enumerate(sizes)]
    assert queue_up(requests, max=7) == expected


def test_an_item_as_large_as_max_runs_alone(queue_up: Any) -> None:
    requests = [{"data": 0}, {"data": 1, "request_size": 4}, {"data": 2}]
    assert queue_up(requests, max=4) == [[0], [1], [2]]


def test_an_oversized_item_fails_alone_and_never_reaches_the_backend(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    requests = [{"data": 0}, {"data": 1, "request_size": 5}, {"data": 2}]
    with pytest.raises(hami.RequestError, match="`max`"):
        open_pipe({"backend": "Probe", "max": 4, "batching_timeout": FOR_EVER_MS})(requests)
    assert seen.batches == [[0, 2]]
    assert [request.get("result") for request in requests] == [0, None, 2]


def test_too_few_rows_for_min_fail_after_the_timeout_and_say_so(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "min": 2, "max": 4, "batching_timeout": 1})
    with pytest.raises(hami.RequestError, match="`min`"):
        pipeline({"data": 0})
    pipeline(numbers(2))
    assert seen.batches == [[0, 1]]


# --- waiting --------------------------------------------------------------------------------------


@pytest.mark.parametrize("num_callers", [1, 2, 3, 8])
def test_closed_loop_callers_never_wait_for_someone_who_cannot_come(
    open_pipe: Any, probe: Any, in_threads: Any, num_callers: int
) -> None:
    probe()
    pipeline = open_pipe({"backend": "Probe", "max": 16, "batching_timeout": FOR_EVER_MS})

    def call(_: int) -> None:
        for i in range(20):
            pipeline({"data": i})

    began = time.monotonic()
    in_threads(num_callers, call)
    assert time.monotonic() - began < 10
    assert set(pipeline.stats()[0]["releases"]) == {"everyone_here"}


def test_an_item_waits_for_the_timeout_while_somebody_else_is_inside(
    open_pipe: Any, probe: Any, eventually: Any
) -> None:
    seen, other = probe("Probe"), probe("Other")
    pipeline = open_pipe(
        {
            "fast": {"backend": "Probe", "max": 4, "batching_timeout": 1, "next": "out"},
            "slow": {"backend": "Other", "next": "out"},
            "out": {"backend": "Identity", "map": "fast[result:data],slow[result:other]"},
        }
    )
    plug = other.plug(pipeline, node_name="slow")
    answer = pipeline({"data": 1, "node_name": "fast"})
    assert answer["result"] == 1
    assert seen.batches == [[1]]
    assert pipeline.stats()[0]["releases"] == {"timeout": 1}
    other.open()
    with pytest.raises(hami.RequestError):
        plug.result(10)  # `out` has nothing under `data` for it


def test_one_who_comes_in_time_joins_the_batch(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any
) -> None:
    seen, other = probe("Probe"), probe("Other")
    pipeline = open_pipe(
        {
            "fanout": "roots",
            "slow": {"backend": "Other", "next": "out"},
            "fast": {"backend": "Probe", "max": 2, "batching_timeout": FOR_EVER_MS, "next": "out"},
            "out": {"backend": "Identity", "map": "fast[result:data],slow[result:other]"},
        }
    )
    # Behind the plug in `slow` somebody is inside, so `fast` waits; the second request fills its batch.
    first = other.plug(pipeline)
    assert eventually(lambda: waiting(pipeline, 1) == 1)
    second = pipeline.submit({"data": "late"})
    seen.wait_for_runs(1)
    assert seen.batches == [["plug", "late"]]
    other.open()
    assert first.result(10)["result"] == "plug" and second.result(10)["result"] == "late"


def test_the_last_one_inside_wakes_a_waiting_batch(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any
) -> None:
    seen, other = probe("Probe"), probe("Other", work=lambda item: 1 // 0)
    pipeline = open_pipe(
        {
            "fast": {"backend": "Probe", "max": 4, "batching_timeout": FOR_EVER_MS, "next": "out"},
            "slow": {"backend": "Other", "next": "out"},
            "out": {"backend": "Identity", "map": "fast[result:data],slow[result:other]"},
        }
    )
    plug = other.plug(pipeline, node_name="slow")
    held_back = pipeline.submit({"data": 1, "node_name": "fast"})
    assert eventually(lambda: waiting(pipeline) == 1)
    assert seen.batches == []
    other.open()
    with pytest.raises(ZeroDivisionError):
        plug.result(10)
    assert held_back.result(10)["result"] == 1
    assert pipeline.stats()[0]["releases"] == {"everyone_here": 1}


def test_many_closed_loop_callers_fill_large_batches(open_pipe: Any, in_threads: Any) -> None:
    pause = threading.Event()

    def forward(batch: list[dict[str, Any]]) -> list[Any]:
        pause.wait(0.002)
        return [item["data"] for item in batch]

    hami.register("Busy", forward)
    pipeline = open_pipe({"backend": "Busy", "max": 16, "batching_timeout": 1000})
    in_threads(64, lambda _: [pipeline({"data": i}) for i in range(10)])
    rows = pipeline.stats()[0]["batch_rows"]
    assert sum(size * count for size, count in rows.items()) == 640
    assert 640 / sum(rows.values()) >= 12


@pytest.mark.parametrize("timeout", [-1, math.inf, math.nan, "soon", True])
def test_a_batching_timeout_that_is_no_finite_time_is_refused(open_pipe: Any, timeout: Any) -> None:
    with pytest.raises(hami.ConfigError, match="batching_timeout"):
        open_pipe({"backend": "Identities", "max": 4, "batching_timeout": timeout})


@pytest.mark.parametrize("timeout", [0, 0.001, 86_400_000])
def test_batching_timeouts_from_none_to_a_day_are_taken(open_pipe: Any, timeout: float) -> None:
    assert (
        open_pipe({"backend": "Identities", "max": 4, "batching_timeout": timeout})({"data": 1})["result"]
        == 1
    )


# --- groups ---------------------------------------------------------------------------------------

GROUPS: dict[str, list[Any]] = {
    "lengths": [np.zeros(5), np.zeros(7), np.zeros(5)],
    "dtypes": [np.zeros(3, "f4"), np.zeros(3, "f8"), np.zeros(3, "f4")],
    "ranks": [np.zeros(4), np.zeros((4, 1)), np.zeros(4)],
    "kinds": [1, "text", 1],
    "arrays_and_text": [np.zeros(1), "1", np.zeros(1)],
    "integers_of_one_width": [np.zeros(2, "i4"), np.zeros(2, "u4"), np.zeros(2, "i4")],
}


@pytest.mark.parametrize("data", GROUPS.values(), ids=GROUPS)
def test_items_of_different_shape_or_dtype_do_not_share_a_batch(queue_up: Any, data: list[Any]) -> None:
    batches = queue_up([{"data": value} for value in data], max=8)
    assert [[id(value) for value in batch] for batch in batches] == [
        [id(data[0]), id(data[2])],
        [id(data[1])],
    ]


def test_strides_do_not_split_a_batch(queue_up: Any) -> None:
    base = np.arange(6.0)
    requests = [{"data": base}, {"data": base[::-1]}, {"data": np.arange(12.0)[::2]}]
    assert [len(batch) for batch in queue_up(requests, max=8)] == [3]


def test_rows_of_several_sizes_share_a_batch(queue_up: Any) -> None:
    requests = [{"data": np.zeros((n, 3)), "request_size": n} for n in (2, 3, 2)]
    assert [[len(value) for value in batch] for batch in queue_up(requests, max=7)] == [[2, 3, 2]]


def test_a_backend_may_declare_that_unlike_items_share_a_batch(queue_up: Any) -> None:
    requests = [{"data": 1}, {"data": "text"}, {"data": np.zeros(3)}]
    assert [len(batch) for batch in queue_up(requests, {"group_by": "none"}, max=8)] == [3]


def test_a_group_that_fills_later_does_not_starve_the_others(queue_up: Any) -> None:
    requests = [{"data": 0}, *[{"data": f"{i}"} for i in range(8)], {"data": 1}]
    batches = queue_up(requests, max=4, batching_timeout=FOR_EVER_MS)
    assert sorted(map(len, batches)) == [2, 4, 4]
    assert [0, 1] in batches


def test_each_group_has_its_own_timeout(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "max": 4, "batching_timeout": FOR_EVER_MS})
    pipeline([{"data": i} for i in range(3)] + [{"data": "a"}] + [{"data": i / 2} for i in range(4)])
    assert sorted(map(len, seen.batches)) == [1, 3, 4]
    assert pipeline.stats()[0]["releases"] == {"full": 1, "everyone_here": 2}
