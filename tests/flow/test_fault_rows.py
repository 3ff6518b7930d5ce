"""Faults that people reported against systems of this kind, each with the small input that shows it.

docs/faults.md lists them all, with the tests elsewhere that hold the rest.
"""

from __future__ import annotations

import os
import random
import threading
import traceback
from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000
MB = 2**20


def resident_mb() -> float:
    """Return how much memory the process has."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / MB


def test_a_client_that_has_gone_while_queued_costs_no_run(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any
) -> None:
    """LitServe#165 and #48: work went on for clients that had hung up."""
    seen = probe()
    pipeline = open_pipe("Probe")
    plug = seen.plug(pipeline)
    futures = [pipeline.submit({"data": i}) for i in range(20)]
    for future in futures[::2]:
        assert future.cancel()
    seen.open()
    plug.result(10)
    assert [future.result(10)["result"] for future in futures[1::2]] == list(range(1, 20, 2))
    assert seen.items == ["plug", *range(1, 20, 2)]
    assert eventually(lambda: pipeline.stats()[0]["dropped"] == 10)
    assert pipeline.stats()[0]["items"] == 11


def test_memory_stays_flat_while_a_fast_node_feeds_a_slow_one(open_pipe: Any) -> None:
    """triton#7315, tensorrt-laboratory#19: unbounded queues between nodes ate the memory of the machine.

    2000 arrays of 8 MB are 16 GB when they pile up; here a few are alive at any time.
    """
    np = pytest.importorskip("numpy")
    pause = threading.Event()

    def use(batch: list[dict[str, Any]]) -> list[float]:
        pause.wait(0.0005)
        return [float(item["data"][-1]) for item in batch]

    hami.register("Make", lambda batch: [np.full(MB, float(item["data"])) for item in batch])
    hami.register("Use", use)
    pipeline = open_pipe(
        {"make": {"backend": "Make", "next": "use"}, "use": {"backend": "Use", "queue_capacity": 4}}
    )
    pipeline({"data": 0})
    before, most = resident_mb(), 0.0
    futures = [pipeline.submit({"data": i}) for i in range(2000)]
    for i, future in enumerate(futures):
        assert future.result(30)["result"] == i
        most = max(most, resident_mb())
    assert most - before < 40 * 8


def test_places_come_back_on_every_path(open_pipe: Any, probe: Any) -> None:
    """Morpheus#726: a place of a bounded queue was not given back when an item failed."""

    def work(item: dict[str, Any]) -> Any:
        if item["data"] % 10 == 3:
            raise ValueError(item["data"])
        return item["data"]

    probe(work=work)
    pipeline = open_pipe({"backend": "Probe", "queue_capacity": 4, "max": 2, "max_in_flight": 6})
    num_answers = num_errors = 0
    for start in range(0, 5000, 4):
        requests = [{"data": i} for i in range(start, start + 4)]
        try:
            pipeline(requests)
        except ValueError:
            num_errors += 1
        num_answers += sum("result" in request for request in requests)
    assert (num_answers, num_errors) == (4500, 500)
    stats = pipeline.stats()[0]
    # A batch that raises runs again in halves, but each of its items counts once.
    assert (stats["waiting"], stats["items"], stats["errors"]) == (0, 5000, 500)


def test_close_wakes_a_node_that_waits_for_room(open_pipe: Any, probe: Any, eventually: Any) -> None:
    """gst-interpipe#159: a sender that waited for room kept a lock that stopping needed."""
    slow = probe("Slow")
    pipeline = open_pipe(
        {"first": {"backend": "Identities", "next": "slow"}, "slow": {"backend": "Slow", "queue_capacity": 2}}
    )
    plug = slow.plug(pipeline)
    futures = [pipeline.submit({"data": i}) for i in range(50)]
    assert eventually(lambda: pipeline.stats()[1]["waiting"] == 2)
    assert pipeline.close(timeout=0) is False
    for future in [plug, *futures]:
        assert isinstance(future.exception(10), hami.Closed)
    slow.open()


def test_nothing_found_gives_an_empty_result_and_later_nodes_go_on(open_pipe: Any, probe: Any) -> None:
    """triton#968 and #5351: a detector without findings made the next model fail on zero rows."""
    np = pytest.importorskip("numpy")
    seen = probe("Recognise")
    hami.register("Detect", lambda batch: [np.zeros((item["data"], 4), np.float32) for item in batch])
    hami.register("Collect", lambda batch: [(item["boxes"], item["texts"]) for item in batch])
    pipeline = open_pipe(
        {
            "detect": {"backend": "Detect", "next": "each"},
            "each": {"backend": "ForEach(target=recognise)", "next": "collect"},
            "recognise": {"backend": "Recognise", "max": 8},
            "collect": {"backend": "Collect", "map": "detect[result:boxes],each[result:texts]"},
        }
    )
    boxes, texts = pipeline({"data": 0})["result"]
    assert (boxes.shape, boxes.dtype, texts) == ((0, 4), np.float32, [])
    assert seen.batches == []
    assert len(pipeline({"data": 3})["result"][1]) == 3


def test_lengths_and_dtypes_of_one_moment_are_never_mixed(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any
) -> None:
    """triton#3776 and #6937: unlike items of one dynamic batch met buffers made for the first."""
    np = pytest.importorskip("numpy")
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "max": 8, "batching_timeout": 10})
    plug = seen.plug(pipeline)
    kinds = [(5, "f4"), (7, "f4"), (5, "f4"), (5, "f8"), (7, "f4"), (5, "f4")]
    arrays = [np.arange(length, dtype=dtype) for length, dtype in kinds]
    futures = [pipeline.submit({"data": array}) for array in arrays]
    assert eventually(lambda: waiting(pipeline) == len(arrays))
    seen.open()
    for future, array in zip(futures, arrays, strict=True):
        assert future.result(10)["result"] is array
    plug.result(10)
    for batch in seen.batches[1:]:
        assert len({(value.shape, value.dtype) for value in batch}) == 1
    assert sorted(map(len, seen.batches[1:])) == [1, 2, 3]


def test_batches_are_as_large_as_the_queue_allows_while_the_instance_is_busy(
    open_pipe: Any, in_threads: Any
) -> None:
    """triton#3885 and #5545, mosec#338, bentoml#4670, ray#43288: batches stayed small."""
    pause = threading.Event()

    def forward(batch: list[dict[str, Any]]) -> list[Any]:
        pause.wait(0.05)
        return [item["data"] for item in batch]

    hami.register("Busy", forward)
    pipeline = open_pipe({"backend": "Busy", "max": 16, "batching_timeout": 1000})
    in_threads(64, lambda thread: [pipeline({"data": (thread, i)}) for i in range(4)])
    stats = pipeline.stats()[0]
    num_runs = sum(stats["batch_rows"].values())
    assert stats["items"] / num_runs >= 12
    assert sum(stats["releases"].values()) == num_runs and max(stats["batch_rows"]) <= 16


def test_every_one_of_10000_replies_belongs_to_its_request(open_pipe: Any, in_threads: Any) -> None:
    """triton#4918: replies were in order within an instance, and mixed up across instances."""
    pause = threading.Event()
    chance = random.Random(4918)

    def forward(batch: list[dict[str, Any]]) -> list[int]:
        if chance.random() < 0.05:
            pause.wait(chance.random() / 500)
        return [item["data"] ** 2 for item in batch]

    hami.register("Uneven", forward)
    pipeline = open_pipe({"backend": "Uneven", "max": 4, "instance_num": 4})

    def call(thread: int) -> None:
        for start in range(thread * 1250, (thread + 1) * 1250, 10):
            requests = [{"data": i} for i in range(start, start + 10)]
            assert [one["result"] for one in pipeline(requests)] == [i * i for i in range(start, start + 10)]

    in_threads(8, call)
    assert pipeline.stats()[0]["items"] == 10_000


def test_an_error_three_frames_deep_arrives_with_all_its_frames(open_pipe: Any) -> None:
    """triton#2289 and #5548, LitServe#141: of an error in Python only its message arrived."""

    def inner() -> Any:
        empty: dict[str, int] = {}
        return empty["k"]

    def middle() -> Any:
        return inner()

    def outer(batch: list[dict[str, Any]]) -> Any:
        return middle()

    hami.register("Deep", outer)
    pipeline = open_pipe({"look_up": {"backend": "Deep"}})
    with pytest.raises(KeyError) as caught:
        pipeline({"data": 1})
    assert caught.value.args == ("k",)
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-3:] == ["outer", "middle", "inner"]
    notes = getattr(caught.value, "__notes__", [])
    assert any("look_up" in note and "Deep" in note for note in notes)


def test_close_with_a_hundred_queued_keeps_to_its_timeout(open_pipe: Any, probe: Any) -> None:
    """triton#8755, #5381, #7230 and #8448: stopping waited for ever for what was queued."""
    seen = probe()
    pipeline = open_pipe("Probe")
    plug = seen.plug(pipeline)
    futures = [pipeline.submit({"data": i}) for i in range(100)]
    assert pipeline.close(timeout=0.05) is False
    assert {type(future.exception(10)) for future in [plug, *futures]} == {hami.Closed}
    seen.open()
    with pytest.raises(hami.Closed):
        pipeline({"data": 1})


def test_priority_is_kept_between_the_steps_of_a_graph(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any
) -> None:
    """tensorrtllm_backend#422, triton#7116: the second step knew nothing of priorities."""
    seen = probe("Second")
    pipeline = open_pipe(
        {
            "scheduler": "priority",
            "first": {"backend": "Identities", "next": "second"},
            "second": {"backend": "Second"},
        }
    )
    plug = seen.plug(pipeline)
    low = [pipeline.submit({"data": f"low{i}", "priority": 0}) for i in range(8)]
    assert eventually(lambda: waiting(pipeline, 1) == 8)
    high = [pipeline.submit({"data": f"high{i}", "priority": 100}) for i in range(8)]
    assert eventually(lambda: waiting(pipeline, 1) == 16)
    seen.open()
    for future in [plug, *low, *high]:
        future.result(10)
    assert seen.items == ["plug", *(f"high{i}" for i in range(8)), *(f"low{i}" for i in range(8))]


def test_a_deadline_is_kept_between_the_steps_of_a_graph(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any
) -> None:
    """The same reports, for deadlines: what is late in the second step never reaches its backend."""
    seen = probe("Second")
    pipeline = open_pipe(
        {"first": {"backend": "Identities", "next": "second"}, "second": {"backend": "Second"}}
    )
    plug = seen.plug(pipeline)
    late = pipeline.submit({"data": "late", "deadline_ms": 20})
    in_time = pipeline.submit({"data": "in time", "deadline_ms": FOR_EVER_MS})
    assert isinstance(late.exception(10), hami.DeadlineExceeded)
    seen.open()
    plug.result(10)
    in_time.result(10)
    assert seen.items == ["plug", "in time"]
