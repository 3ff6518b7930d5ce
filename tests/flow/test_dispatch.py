"""Laws of dispatch: which instance runs a batch, in which order, and what runs on the caller's thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import hami

# --- instances ------------------------------------------------------------------------------------


def test_as_many_batches_run_at_once_as_there_are_instances(open_pipe: Any, probe: Any, waiting: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "instance_num": 3})
    seen.shut()
    futures = [pipeline.submit({"data": i}) for i in range(5)]
    seen.wait_for_runs(3)
    assert len(seen.batches) == 3 and waiting(pipeline) == 2
    seen.open()
    assert [future.result(10)["result"] for future in futures] == list(range(5))


def test_every_instance_is_an_object_of_its_own(open_pipe: Any) -> None:
    made: list[Any] = []

    @hami.register
    class Counted(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            made.append(self)

        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            return [made.index(self) for _ in batch]

    pipeline = open_pipe({"backend": "Counted", "instance_num": 4})
    assert len({id(instance) for instance in made}) == 4
    assert pipeline({"data": 0})["result"] in range(4)


def test_an_instance_runs_one_batch_at_a_time_on_one_thread(open_pipe: Any, in_threads: Any) -> None:
    users: dict[int, set[int]] = {}
    is_busy: dict[int, threading.Lock] = {}

    @hami.register
    class Alone(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            lock = is_busy.setdefault(id(self), threading.Lock())
            assert lock.acquire(blocking=False), "two batches at once in one instance"
            users.setdefault(id(self), set()).add(threading.get_ident())
            lock.release()
            return [0 for _ in batch]

    pipeline = open_pipe({"backend": "Alone", "instance_num": 2, "max": 4})
    in_threads(8, lambda _: [pipeline({"data": i}) for i in range(50)])
    assert 1 <= len(users) <= 2
    assert all(len(threads) == 1 for threads in users.values())


def test_a_slot_comes_back_after_every_outcome(open_pipe: Any, probe: Any) -> None:
    def work(item: dict[str, Any]) -> Any:
        if item["data"] % 10 == 0:
            raise ValueError("one in ten")
        return item["data"]

    probe(work=work)
    pipeline = open_pipe({"backend": "Probe", "instance_num": 2, "queue_capacity": 1000, "max": 4})
    futures = [pipeline.submit({"data": i}) for i in range(500)]
    failed = [i for i, future in enumerate(futures) if future.exception(10) is not None]
    assert failed == list(range(0, 500, 10))
    again = [pipeline.submit({"data": 1}) for _ in range(1000)]
    assert all(future.result(10)["result"] == 1 for future in again)


# --- order ----------------------------------------------------------------------------------------


@pytest.fixture
def order_of(open_pipe: Any, probe: Any, waiting: Any, eventually: Any) -> Callable[..., list[Any]]:
    """Return a function that gives the order in which requests run that queued behind a busy instance."""

    def run(requests: list[dict[str, Any]], **settings: Any) -> list[Any]:
        seen = probe()
        pipeline = open_pipe({"backend": "Probe", **settings})
        plug = seen.plug(pipeline)
        futures = [pipeline.submit(request) for request in requests]
        assert eventually(lambda: waiting(pipeline) == len(requests))
        seen.open()
        for future in [plug, *futures]:
            future.result(10)
        return seen.items[1:]

    return run


def test_requests_run_in_the_order_of_arrival(order_of: Any) -> None:
    assert order_of([{"data": i, "priority": i} for i in range(50)]) == list(range(50))


def test_with_priorities_the_higher_runs_first_and_equals_in_order(order_of: Any) -> None:
    requests = [
        {"data": (priority, i), "priority": priority * 1000} for i, priority in enumerate([0, 2, 1, 2, 0, 1])
    ]
    assert order_of(requests, scheduler="priority") == [(2, 1), (2, 3), (1, 2), (1, 5), (0, 0), (0, 4)]


@pytest.fixture
def queue_order(open_pipe: Any, probe: Any, waiting: Any, eventually: Any) -> list[list[Any]]:
    """The batches of ten requests whose priority grows with their number."""
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "scheduler": "priority", "max": 4})
    plug = seen.plug(pipeline)
    futures = [pipeline.submit({"data": i, "priority": i * 1000}) for i in range(10)]
    assert eventually(lambda: waiting(pipeline) == 10)
    seen.open()
    for future in [plug, *futures]:
        future.result(10)
    return seen.batches[1:]


def test_priority_orders_the_items_of_batches_too(queue_order: Any) -> None:
    assert queue_order == [[9, 8, 7, 6], [5, 4, 3, 2], [1, 0]]


@pytest.mark.parametrize("priority", [2**62, -(2**62)])
def test_extreme_priorities_order_like_others(order_of: Any, priority: int) -> None:
    requests = [{"data": "zero"}, {"data": "extreme", "priority": priority}]
    expected = ["extreme", "zero"] if priority > 0 else ["zero", "extreme"]
    assert order_of(requests, scheduler="priority") == expected


def test_a_global_priority_is_the_default_of_requests(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any
) -> None:
    seen = probe()
    pipeline = open_pipe({"priority": 5000, "node": {"backend": "Probe", "scheduler": "priority"}})
    plug = seen.plug(pipeline)
    requests = [{"data": "low", "priority": 0}, {"data": "default"}, {"data": "high", "priority": 10_000}]
    futures = [pipeline.submit(request) for request in requests]
    assert eventually(lambda: waiting(pipeline) == 3)
    seen.open()
    for future in [plug, *futures]:
        future.result(10)
    assert seen.items[1:] == ["high", "default", "low"]


def test_with_edf_the_earliest_deadline_runs_first_and_none_last(order_of: Any) -> None:
    requests: list[dict[str, Any]] = [{"data": "never"}]
    requests += [{"data": ms, "deadline_ms": ms} for ms in (500_000, 100_000, 300_000)]
    assert order_of(requests, scheduler="edf") == [100_000, 300_000, 500_000, "never"]


def test_priority_travels_along_every_edge(open_pipe: Any, probe: Any, waiting: Any, eventually: Any) -> None:
    seen = probe()
    pipeline = open_pipe(
        {
            "first": {"backend": "Identities", "max": 16, "next": "second"},
            "second": {"backend": "S[Identity]", "next": "last"},
            "last": {"backend": "Probe", "scheduler": "priority", "map": "second[result:data]"},
        }
    )
    plug = seen.plug(pipeline)
    futures = [pipeline.submit({"data": i, "priority": i * 1000}) for i in range(6)]
    assert eventually(lambda: waiting(pipeline, 2) == 6)
    seen.open()
    for future in [plug, *futures]:
        future.result(10)
    assert seen.items[1:] == [5, 4, 3, 2, 1, 0]


def test_priority_reaches_the_children_of_for_each(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any
) -> None:
    seen = probe()
    pipeline = open_pipe(
        {
            "each": {"backend": "ForEach(target=work)"},
            "work": {"backend": "Probe", "scheduler": "priority"},
        }
    )
    seen.shut()
    plug = pipeline.submit({"data": ["plug"]})
    seen.wait_for_runs(1)
    low = pipeline.submit({"data": ["a", "b"], "priority": 0})
    high = pipeline.submit({"data": ["c", "d"], "priority": 100_000})
    assert eventually(lambda: waiting(pipeline) == 4)
    seen.open()
    assert [future.result(10)["result"] for future in (plug, low, high)] == [["plug"], ["a", "b"], ["c", "d"]]
    assert seen.items == ["plug", "c", "d", "a", "b"]


def test_an_unknown_scheduler_is_refused(open_pipe: Any) -> None:
    with pytest.raises(hami.ConfigError, match="scheduler"):
        open_pipe({"backend": "Identities", "scheduler": "random"})


# --- in place -------------------------------------------------------------------------------------


@pytest.fixture
def thread_of(open_pipe: Any) -> Callable[..., Callable[..., int]]:
    """Return a function that makes a pipeline whose result is the thread that ran its backend."""

    def make(is_inline: bool, is_reentrant: bool = False, **settings: Any) -> Any:
        def forward(self: Any, batch: list[dict[str, Any]]) -> list[int]:
            return [threading.get_ident() for _ in batch]

        traits = {"is_inline": is_inline, "is_reentrant": is_reentrant, "forward": forward}
        hami.register("Where", type("Where", (hami.Backend,), traits))
        return open_pipe({"backend": "Where", **settings})

    return make


@pytest.mark.parametrize("is_reentrant", [False, True])
def test_a_blocking_call_runs_an_inline_backend_on_its_own_thread(thread_of: Any, is_reentrant: bool) -> None:
    pipeline = thread_of(is_inline=True, is_reentrant=is_reentrant)
    assert pipeline({"data": 0})["result"] == threading.get_ident()
    assert pipeline.stats()[0]["releases"] == {"in_place": 1}


def test_a_python_backend_does_not_run_in_place_unless_it_declares_so(thread_of: Any) -> None:
    assert thread_of(is_inline=False)({"data": 0})["result"] != threading.get_ident()


@pytest.mark.parametrize("how", ["submit", "list", "deadline", "rows"])
def test_other_calls_never_run_in_place(thread_of: Any, how: str) -> None:
    pipeline = thread_of(is_inline=True, is_reentrant=True, max=4)
    request: dict[str, Any] = {"data": 0}
    if how == "submit":
        pipeline.submit(request).result(10)
    elif how == "list":
        pipeline([request])
    elif how == "deadline":
        request = pipeline({**request, "deadline_ms": 60_000})
    else:
        request = pipeline({**request, "request_size": 2})
    assert request["result"] != threading.get_ident()
    assert "in_place" not in pipeline.stats()[0]["releases"]


def test_a_global_deadline_keeps_calls_off_the_callers_thread(open_pipe: Any) -> None:
    pipeline = open_pipe({"deadline_ms": 60_000, "node": {"backend": "Identity"}})
    pipeline({"data": 0})
    assert "in_place" not in pipeline.stats()[0]["releases"]


def test_an_exclusive_inline_backend_in_use_is_not_entered_twice(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any, in_threads: Any
) -> None:
    seen = probe(is_inline=True)
    pipeline = open_pipe("Probe")
    seen.shut()
    callers = [threading.Thread(target=pipeline, args=({"data": i},)) for i in range(3)]
    for caller in callers:
        caller.start()
    seen.wait_for_runs(1)
    assert eventually(lambda: waiting(pipeline) == 2)
    assert len(seen.batches) == 1
    seen.open()
    for caller in callers:
        caller.join(10)
    assert sorted(seen.items) == [0, 1, 2]


def test_an_inline_backend_may_call_another_pipeline(open_pipe: Any) -> None:
    other = open_pipe({"a": {"backend": "Identity", "next": "b"}, "b": {"backend": "Pow"}})

    @hami.register
    class Calls(hami.Backend):
        is_inline = True

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            return [other({"data": item["data"]})["result"] for item in batch]

    pipeline = open_pipe(
        {
            "a": {"backend": "Identity", "next": "b"},
            "b": {"backend": "Calls", "next": "c"},
            "c": {"backend": "Pow"},
        }
    )
    assert pipeline({"data": 3})["result"] == 81


def test_a_long_chain_of_inline_nodes_keeps_the_stack_flat(open_pipe: Any) -> None:
    nodes: dict[str, Any] = {f"n{i}": {"backend": "Identity", "next": f"n{i + 1}"} for i in range(60)}
    assert open_pipe({**nodes, "n60": {"backend": "Pow"}})({"data": 3})["result"] == 9


def test_an_exception_raised_in_place_reaches_the_caller(open_pipe: Any) -> None:
    @hami.register
    class Raises(hami.Backend):
        is_inline = True

        def forward(self, batch: list[dict[str, Any]]) -> None:
            raise LookupError("in place")

    pipeline = open_pipe("Raises")
    for _ in range(3):
        with pytest.raises(LookupError, match="in place"):
            pipeline({"data": 0})
    assert pipeline.stats()[0]["errors"] == 3
