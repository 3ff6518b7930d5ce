"""Laws of bounded queues: `queue_capacity` and `max_in_flight` refuse at submit, inner nodes wait."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import hami


def fill(pipeline: hami.Pipeline, limit: int = 1000, **keys: Any) -> list[Any]:
    """Submit until the pipeline is full; return the futures."""
    futures = []
    for i in range(limit):
        try:
            futures.append(pipeline.submit({"data": i, **keys}))
        except hami.QueueFull:
            return futures
    raise AssertionError(f"{limit} requests were taken")


# --- the entry ------------------------------------------------------------------------------------


@pytest.mark.parametrize("capacity", [1, 2, 7])
def test_queue_capacity_bounds_what_waits_exactly(
    open_pipe: Any, probe: Any, waiting: Any, capacity: int
) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "queue_capacity": capacity})
    plug = seen.plug(pipeline)
    futures = fill(pipeline)
    assert len(futures) == capacity == waiting(pipeline)
    seen.open()
    for future in [plug, *futures]:
        future.result(10)
    assert pipeline({"data": 1})["result"] == 1


def test_queue_full_says_what_to_do_and_leaves_the_dict_alone(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "queue_capacity": 1})
    seen.plug(pipeline)
    fill(pipeline)
    request = {"data": 1}
    for call in (pipeline, pipeline.submit):
        with pytest.raises(hami.QueueFull, match="queue_capacity") as caught:
            call(request)
        assert caught.value.help and caught.value.http_status == 429
    assert request == {"data": 1}
    seen.open()


def test_a_refused_dict_may_be_submitted_again(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "queue_capacity": 1})
    plug = seen.plug(pipeline)
    futures = fill(pipeline)
    request = {"data": "again"}
    with pytest.raises(hami.QueueFull):
        pipeline(request)
    seen.open()
    for future in [plug, *futures]:
        future.result(10)
    assert pipeline(request)["result"] == "again"


def test_a_list_without_room_for_all_is_refused_as_a_whole(open_pipe: Any, probe: Any, waiting: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "queue_capacity": 4})
    plug = seen.plug(pipeline)
    first = pipeline.submit({"data": 0})
    requests = [{"data": i} for i in range(1, 5)]
    with pytest.raises(hami.QueueFull):
        pipeline(requests)
    assert waiting(pipeline) == 1
    seen.open()
    plug.result(10)
    first.result(10)
    assert pipeline(requests)[3]["result"] == 4


def test_answered_requests_free_their_places_at_once(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "queue_capacity": 4})
    seen.plug(pipeline)
    for future in fill(pipeline):
        assert future.cancel()
    assert len(fill(pipeline)) == 4
    seen.open()


@pytest.mark.parametrize("how", ["fanout", "list"])
def test_every_entry_node_is_bounded(open_pipe: Any, probe: Any, how: str) -> None:
    seen = probe()
    pipeline = open_pipe(
        {
            "queue_capacity": 2,
            **({"fanout": "roots"} if how == "fanout" else {}),
            "a": {"backend": "Probe", "next": "out"},
            "b": {"backend": "Probe", "next": "out"},
            "out": {"backend": "Identity", "map": "a[result:data],b[result:other]"},
        }
    )
    seen.shut()
    if how == "fanout":
        taken = len(fill(pipeline, 50))
        seen.open()
        assert 2 <= taken <= 3
        return
    for name in "ab":
        fill(pipeline, node_name=name)
    with pytest.raises(hami.QueueFull):
        pipeline([{"data": 1, "node_name": "a"}, {"data": 2, "node_name": "b"}])
    seen.open()


def test_the_default_capacity_takes_tens_of_thousands(open_pipe: Any, probe: Any, waiting: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    plug = seen.plug(pipeline)
    futures = [pipeline.submit({"data": i}) for i in range(20_000)]
    assert waiting(pipeline) == 20_000
    for future in futures:
        future.cancel()
    seen.open()
    plug.result(10)


# --- the pipeline ---------------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [1, 3])
def test_max_in_flight_bounds_the_pipeline_exactly(open_pipe: Any, probe: Any, bound: int) -> None:
    seen = probe()
    pipeline = open_pipe({"max_in_flight": bound, "node": {"backend": "Probe"}})
    seen.shut()
    futures = fill(pipeline)
    assert len(futures) == bound
    with pytest.raises(hami.QueueFull, match="max_in_flight"):
        pipeline({"data": 1})
    seen.open()
    for future in futures:
        future.result(10)
    for _ in range(50):
        assert pipeline({"data": 1})["result"] == 1


def test_max_in_flight_counts_the_dicts_of_a_list(open_pipe: Any) -> None:
    pipeline = open_pipe({"max_in_flight": 3, "node": {"backend": "Pow"}})
    with pytest.raises(hami.QueueFull):
        pipeline([{"data": i} for i in range(4)])
    assert [request["result"] for request in pipeline([{"data": i} for i in range(3)])] == [0, 1, 4]


def test_failed_and_cancelled_requests_leave_the_pipeline(open_pipe: Any, probe: Any) -> None:
    seen = probe(work=lambda item: 1 // item["data"])
    pipeline = open_pipe({"max_in_flight": 1, "node": {"backend": "Probe"}})
    for _ in range(20):
        with pytest.raises(ZeroDivisionError):
            pipeline({"data": 0})
        with pytest.raises(hami.RequestError):
            pipeline({"data": 1, "request_size": 9})
    seen.shut()
    assert pipeline.submit({"data": 1}).cancel()
    seen.open()
    assert pipeline({"data": 1})["result"] == 1


def test_children_of_for_each_live_in_their_parents_place(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "max_in_flight": 1,
            "each": {"backend": "ForEach(target=work)"},
            "work": {"backend": "Identities", "queue_capacity": 2},
        }
    )
    assert pipeline({"data": list(range(100))})["result"] == list(range(100))


# --- inside the graph -----------------------------------------------------------------------------


def two_steps(capacity: int, **first: Any) -> dict[str, Any]:
    """Return a fast node before a slow one with a small queue."""
    return {
        "fast": {"backend": "Fast", "next": "slow", **first},
        "slow": {"backend": "Slow", "queue_capacity": capacity},
    }


def test_a_full_inner_node_stops_its_predecessor(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any
) -> None:
    fast, slow = probe("Fast"), probe("Slow")
    pipeline = open_pipe(two_steps(4))
    slow.shut()
    futures = [pipeline.submit({"data": i}) for i in range(40)]
    assert eventually(lambda: waiting(pipeline, 1) == 4)
    # One in the slow backend and four before it; the rest has not been started.
    assert len(fast.items) == 5
    assert waiting(pipeline, 0) == 35
    slow.open()
    assert [future.result(10)["result"] for future in futures] == list(range(40))


def test_pressure_reaches_the_caller_through_many_nodes(open_pipe: Any, probe: Any, eventually: Any) -> None:
    slow = probe("Slow")
    pipeline = open_pipe(
        {
            "queue_capacity": 2,
            "a": {"backend": "Identities", "next": "b"},
            "b": {"backend": "Identities", "next": "c"},
            "c": {"backend": "Slow"},
        }
    )
    slow.shut()
    futures: list[Any] = []

    def is_full_for_good() -> bool:
        futures.extend(fill(pipeline))
        # Rows of stats are read one after another, while items still move from one to the next.
        return len(futures) == 7 and [node["waiting"] for node in pipeline.stats()] == [2, 2, 2]

    assert eventually(is_full_for_good)
    assert fill(pipeline) == []
    slow.open()
    for future in futures:
        future.result(10)


def test_batches_and_instances_overshoot_by_no_more_than_what_runs(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any
) -> None:
    probe("Fast")
    slow = probe("Slow")
    pipeline = open_pipe(two_steps(4, max=8, instance_num=2))
    slow.shut()
    futures = [pipeline.submit({"data": i}) for i in range(200)]
    assert eventually(lambda: waiting(pipeline, 1) >= 4)
    assert waiting(pipeline, 1) <= 4 + 2 * 8
    slow.open()
    assert [future.result(10)["result"] for future in futures] == list(range(200))


def test_a_full_node_stops_blocking_callers_of_inline_nodes_too(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any, in_threads: Any
) -> None:
    slow = probe("Slow")
    pipeline = open_pipe(
        {"fast": {"backend": "Identity", "next": "slow"}, "slow": {"backend": "Slow", "queue_capacity": 2}}
    )
    slow.shut()
    callers = [threading.Thread(target=pipeline, args=({"data": i},)) for i in range(12)]
    for caller in callers:
        caller.start()
    assert eventually(lambda: waiting(pipeline, 0) + waiting(pipeline, 1) == 11)
    slow.open()
    for caller in callers:
        caller.join(10)
    assert sorted(slow.items) == list(range(12))


def test_pressure_of_one_branch_does_not_block_a_join_for_ever(open_pipe: Any, in_threads: Any) -> None:
    pipeline = open_pipe(
        {
            "root": {"backend": "Identities", "next": "left,right"},
            "left": {"backend": "Identities", "queue_capacity": 1, "next": "join"},
            "right": {"backend": "Identities", "queue_capacity": 3, "max": 4, "next": "join"},
            "join": {
                "backend": "Identities",
                "queue_capacity": 1,
                "map": "left[result:data],right[result:r]",
            },
        }
    )

    def call(_: int) -> None:
        requests = [{"data": i} for i in range(50)]
        assert [request["result"] for request in pipeline(requests)] == list(range(50))

    in_threads(4, call)


def test_for_each_before_a_full_node_stops_its_predecessor(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any
) -> None:
    before, work = probe("Before"), probe("Work")
    pipeline = open_pipe(
        {
            "before": {"backend": "Before", "next": "each"},
            "each": {"backend": "ForEach(target=work)"},
            "work": {"backend": "Work", "queue_capacity": 2},
        }
    )
    work.shut()
    futures = [pipeline.submit({"data": [i, i, i]}) for i in range(10)]
    assert eventually(lambda: waiting(pipeline, 1) >= 2)
    assert len(before.items) <= 2
    work.open()
    assert [future.result(10)["result"] for future in futures] == [[i, i, i] for i in range(10)]


def test_failing_and_cancelled_items_release_the_pressure(
    open_pipe: Any, probe: Any, eventually: Any, waiting: Any
) -> None:
    probe("Fast")
    slow = probe("Slow", work=lambda item: 1 // (item["data"] % 3))
    pipeline = open_pipe(two_steps(2))
    slow.shut()
    futures = [pipeline.submit({"data": i}) for i in range(60)]
    assert eventually(lambda: waiting(pipeline, 1) == 2)
    for future in futures[1::3]:
        future.cancel()
    slow.open()
    for i, future in enumerate(futures):
        if i % 3 == 0:
            assert isinstance(future.exception(10), ZeroDivisionError)
        elif i % 3 == 2:
            assert future.result(10)["result"] == 0


def test_memory_stays_flat_while_a_slow_node_is_fed(open_pipe: Any, probe: Any) -> None:
    alive = 0
    most = 0

    class Large:
        def __init__(self) -> None:
            nonlocal alive, most
            alive += 1
            most = max(most, alive)

        def __del__(self) -> None:
            nonlocal alive
            alive -= 1

    hami.register("Make", lambda batch: [Large() for _ in batch])
    hami.register("Use", lambda batch: [0 for _ in batch])
    pipeline = open_pipe(
        {"make": {"backend": "Make", "next": "use"}, "use": {"backend": "Use", "queue_capacity": 4}}
    )
    futures = [pipeline.submit({"data": i}) for i in range(1000)]
    for future in futures:
        assert future.result(10)["result"] == 0
    assert most <= 20
