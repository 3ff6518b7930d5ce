"""Faults by odd ways to call: from inside, from callbacks, while closing, in masses."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import CancelledError
from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000


# --- calls from inside -----------------------------------------------------------------------------


def nest(open_pipe: Any, settings: dict[str, Any], traits: dict[str, Any] | None = None) -> hami.Pipeline:
    """Return a pipeline whose backend calls that pipeline with what `data` holds, and returns what came."""
    pipelines: list[hami.Pipeline] = []

    def forward(self: Any, batch: list[dict[str, Any]]) -> list[Any]:
        return [item["data"] and pipelines[0](item["data"])["result"] for item in batch]

    hami.register("Nest", type("Nest", (hami.Backend,), {**(traits or {}), "forward": forward}))
    pipelines.append(open_pipe(settings))
    return pipelines[0]


@pytest.mark.parametrize("instance_num", [1, 3])
@pytest.mark.parametrize("is_inline", [False, True])
def test_a_backend_that_would_wait_for_its_own_node_is_told_so(
    open_pipe: Any, instance_num: int, is_inline: bool
) -> None:
    """With every instance in such a call, nobody would be left to answer any of them."""
    pipeline = nest(open_pipe, {"backend": "Nest", "instance_num": instance_num}, {"is_inline": is_inline})
    with pytest.raises(hami.RequestError, match="node") as caught:
        pipeline({"data": {"data": 0}})
    assert caught.value.code == "request-waits-for-itself"
    assert pipeline({"data": 0})["result"] == 0


def test_a_deadline_ends_the_wait_for_the_own_node(open_pipe: Any) -> None:
    pipeline = nest(open_pipe, {"backend": "Nest"})
    with pytest.raises(hami.DeadlineExceeded):
        pipeline({"data": {"data": 0, "deadline_ms": 20}})
    assert pipeline({"data": 0})["result"] == 0


def test_a_backend_that_may_be_entered_again_may_call_itself(open_pipe: Any) -> None:
    pipeline = nest(open_pipe, {"backend": "Nest"}, {"is_inline": True, "is_reentrant": True})
    assert pipeline({"data": {"data": {"data": 0}}})["result"] == 0


def test_a_backend_may_call_another_entry_of_its_pipeline(open_pipe: Any) -> None:
    hami.register("Either", lambda batch: [item.get("one", item.get("two")) for item in batch])
    pipeline = nest(
        open_pipe,
        {
            "nest": {"backend": "Nest", "next": "last"},
            "other": {"backend": "Pow", "next": "last"},
            "last": {"backend": "Either", "map": "nest[result:one],other[result:two]"},
        },
    )
    request = {"data": {"data": 3, "node_name": "other"}, "node_name": "nest"}
    assert pipeline(request)["result"] == 9


def test_a_node_inside_for_each_cannot_wait_for_its_own_parent(open_pipe: Any) -> None:
    pipeline = nest(open_pipe, {"each": {"backend": "ForEach(target=nest)"}, "nest": {"backend": "Nest"}})
    with pytest.raises(hami.RequestError) as caught:
        pipeline({"data": [{"data": [0]}]})
    assert caught.value.code == "request-waits-for-itself"


def test_a_callback_that_would_wait_for_its_own_pipeline_is_told_so(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    plug = seen.plug(pipeline)
    outcome: list[Any] = []
    has_ended = threading.Event()

    def on_done(_: Any) -> None:
        try:
            outcome.append(pipeline({"data": 1}))
        except hami.RequestError as error:
            outcome.append(error.code)
        has_ended.set()

    plug.add_done_callback(on_done)
    seen.open()
    assert has_ended.wait(10) and outcome == ["request-waits-for-itself"]
    assert pipeline({"data": 2})["result"] == 2


def test_a_value_that_calls_the_running_node_when_it_dies_is_told_so(open_pipe: Any) -> None:
    outcome: list[Any] = []

    class Last:
        def __del__(self) -> None:
            try:
                pipeline({"data": 1})
            except hami.RequestError as error:
                outcome.append(error.code)

    hami.register("Drops", lambda batch: [Last() and 0 if item["data"] == 5 else 1 for item in batch])
    pipeline = open_pipe("Drops")
    assert pipeline({"data": 5})["result"] == 0
    assert outcome == ["request-waits-for-itself"]


def test_a_callback_that_raises_past_all_catchers_leaves_the_instance_at_work(
    open_pipe: Any, probe: Any, monkeypatch: Any
) -> None:
    raised: list[Any] = []
    monkeypatch.setattr("sys.unraisablehook", lambda info: raised.append(info.exc_type))
    seen = probe()
    pipeline = open_pipe("Probe")
    plug = seen.plug(pipeline)

    def on_done(_: Any) -> None:
        raise SystemExit(3)

    plug.add_done_callback(on_done)
    seen.open()
    assert plug.result(10)["result"] == "plug"
    assert pipeline({"data": 1})["result"] == 1
    assert raised == [SystemExit]


# --- closing ---------------------------------------------------------------------------------------


def test_a_second_close_says_how_things_stand(open_pipe: Any, probe: Any, eventually: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    plug = seen.plug(pipeline)
    outcome: list[bool] = []
    closer = threading.Thread(target=lambda: outcome.append(pipeline.close(timeout=10)))
    closer.start()
    assert eventually(lambda: "closed" in repr(pipeline))
    assert pipeline.close(timeout=0) is False
    seen.open()
    closer.join(10)
    assert outcome == [True] and plug.result(10)["result"] == "plug"
    assert pipeline.close() is True


def test_close_answers_what_was_handed_to_an_instance_and_has_not_begun(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    seen.shut()
    for _ in range(100):
        pipeline = open_pipe("Probe")
        future = pipeline.submit({"data": 1})
        pipeline.close(timeout=0)
        assert isinstance(future.exception(5), hami.Closed)
    seen.open()


def test_every_request_is_counted_once_also_when_close_ends_it(
    open_pipe: Any, probe: Any, eventually: Any
) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    plug = seen.plug(pipeline)
    futures = [pipeline.submit({"data": i}) for i in range(10)]
    for future in futures[:4]:
        future.cancel()
    assert pipeline.close(timeout=0) is False
    seen.open()
    assert isinstance(plug.exception(10), hami.Closed)
    assert eventually(lambda: pipeline.stats()[0]["items"] == 1)
    stats = pipeline.stats()[0]
    assert (stats["items"], stats["errors"], stats["dropped"], stats["waiting"]) == (1, 6, 4, 0)


def test_whoever_submits_while_another_closes_gets_an_answer(in_threads: Any) -> None:
    for _ in range(10):
        pipeline = hami.pipe({"backend": "Identities", "max": 4, "instance_num": 2})
        start = threading.Barrier(5)

        def work(thread: int, pipeline: hami.Pipeline = pipeline, start: threading.Barrier = start) -> None:
            start.wait(10)
            if thread == 0:
                pipeline.close(timeout=0)
                return
            for i in range(50):
                try:
                    future = pipeline.submit({"data": i})
                except hami.Closed:
                    return
                error = future.exception(10)
                assert error is None or isinstance(error, hami.Closed)

        in_threads(5, work)


# --- many, and at the limits -----------------------------------------------------------------------


def test_a_hundred_thousand_requests_fit_in_one_list(open_pipe: Any) -> None:
    hami.register("Echo", lambda batch: [item["data"] for item in batch])
    pipeline = open_pipe({"backend": "Echo", "max": 64, "queue_capacity": 200_000})
    requests = [{"data": i} for i in range(100_000)]
    assert pipeline(requests) is requests
    assert all(request["result"] == request["data"] for request in requests)
    assert pipeline.stats()[0]["items"] == 100_000


def test_a_hundred_thousand_elements_fit_in_one_for_each(open_pipe: Any) -> None:
    pipeline = open_pipe({"each": {"backend": "ForEach(target=pow)"}, "pow": {"backend": "Pow", "max": 64}})
    assert pipeline({"data": list(range(100_000))})["result"] == [i * i for i in range(100_000)]


def test_cancelling_thousands_one_by_one_is_quick_and_counted(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    plug = seen.plug(pipeline)
    futures = [pipeline.submit({"data": i, "deadline_ms": FOR_EVER_MS}) for i in range(10_000)]
    assert all(future.cancel() for future in futures)
    assert all(future.cancel() for future in futures)
    seen.open()
    plug.result(10)
    assert pipeline({"data": "after"})["result"] == "after"
    stats = pipeline.stats()[0]
    assert (stats["items"], stats["dropped"], stats["waiting"]) == (2, 10_000, 0)


@pytest.mark.parametrize("scheduler", ["fifo", "priority", "edf"])
def test_a_request_cancelled_under_any_policy_leaves_the_order_of_the_others(
    open_pipe: Any, probe: Any, scheduler: str
) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "scheduler": scheduler})
    plug = seen.plug(pipeline, deadline_ms=1000 * FOR_EVER_MS, priority=2**63 - 1)
    futures = [
        pipeline.submit({"data": i, "priority": (10 - i) * 10**6, "deadline_ms": FOR_EVER_MS + i * 1000})
        for i in range(10)
    ]
    for i in (0, 4, 9):
        assert futures[i].cancel()
    seen.open()
    plug.result(10)
    for future in futures:
        if not future.cancelled():
            future.result(10)
    assert seen.items[1:] == [1, 2, 3, 5, 6, 7, 8]


def test_an_awaited_request_survives_the_end_of_its_loop(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")

    async def leave() -> None:
        task = asyncio.ensure_future(pipeline.acall({"data": 1}))
        await asyncio.to_thread(seen.wait_for_runs, 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    seen.shut()
    asyncio.run(leave())
    seen.open()
    assert pipeline({"data": 2})["result"] == 2


def test_the_same_dict_twice_in_a_list_harms_no_later_call(open_pipe: Any) -> None:
    pipeline = open_pipe("Identities")
    twice = {"data": 1}
    for _ in range(3):
        with pytest.raises(hami.RequestError) as caught:
            pipeline([{"data": 0}, twice, twice])
        assert caught.value.code == "request-in-flight"
    assert pipeline(twice)["result"] == 1


def test_a_cancelled_dict_may_be_used_at_once(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    plug = seen.plug(pipeline)
    request = {"data": 1}
    for _ in range(20):
        future = pipeline.submit(request)
        assert future.cancel()
        with pytest.raises(CancelledError):
            future.result(10)
    seen.open()
    plug.result(10)
    assert pipeline(request)["result"] == 1


def test_a_cancelled_future_raises_like_any_other(open_pipe: Any, probe: Any) -> None:
    """Whoever waits for a future that somebody else cancels must not wait for ever."""
    seen = probe()
    pipeline = open_pipe("Probe")
    seen.plug(pipeline)
    future = pipeline.submit({"data": 1})
    waiter: list[BaseException] = []

    def wait() -> None:
        try:
            future.result(10)
        except BaseException as error:
            waiter.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    future.cancel()
    thread.join(10)
    assert isinstance(waiter[0], CancelledError)
    seen.open()
