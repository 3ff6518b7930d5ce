"""Laws of the end: `close` takes nothing new, drains, and fails the rest with `Closed`; all may call it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000


def closing(pipeline: hami.Pipeline, timeout: float) -> tuple[threading.Thread, list[bool]]:
    """Close in a thread of its own; returns it and the list that will hold what `close` returned."""
    returned: list[bool] = []
    thread = threading.Thread(target=lambda: returned.append(pipeline.close(timeout)), daemon=True)
    thread.start()
    return thread, returned


def is_refused(pipeline: hami.Pipeline) -> bool:
    """Say whether the pipeline takes no new request."""
    try:
        pipeline.submit({"data": "late"}).cancel()
    except hami.Closed:
        return True
    return False


# --- drain ----------------------------------------------------------------------------------------


def test_close_lets_everything_inside_end(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    plug = seen.plug(pipeline)
    futures = [pipeline.submit({"data": i}) for i in range(20)]
    thread, returned = closing(pipeline, 20)
    seen.open()
    thread.join(20)
    assert returned == [True]
    assert [future.result(0)["result"] for future in (plug, *futures)] == ["plug", *range(20)]


def test_close_drains_the_whole_graph(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe(
        {
            "a": {"backend": "Identities", "next": "b"},
            "b": {"backend": "ForEach(target=work)", "next": "c"},
            "work": {"backend": "Probe", "max": 2, "batching_timeout": FOR_EVER_MS},
            "c": {"backend": "Identities"},
        }
    )
    seen.shut()
    futures = [pipeline.submit({"data": [i, i + 1, i + 2]}) for i in range(10)]
    seen.wait_for_runs(1)
    thread, returned = closing(pipeline, 20)
    seen.open()
    thread.join(20)
    assert returned == [True]
    assert [future.result(0)["result"] for future in futures] == [[i, i + 1, i + 2] for i in range(10)]


def test_close_does_not_wait_for_company_of_a_batch(open_pipe: Any, probe: Any) -> None:
    seen, other = probe("Probe"), probe("Other")
    pipeline = open_pipe(
        {
            "fast": {"backend": "Probe", "max": 4, "batching_timeout": FOR_EVER_MS, "next": "out"},
            "slow": {"backend": "Other", "next": "out"},
            "out": {"backend": "Identity", "map": "fast[result:data],slow[result:other]"},
        }
    )
    plug = other.plug(pipeline, node_name="slow")
    waits = pipeline.submit({"data": 1, "node_name": "fast"})
    thread, returned = closing(pipeline, 20)
    other.open()
    thread.join(20)
    assert returned == [True] and waits.result(0)["result"] == 1 and seen.items == [1]
    assert isinstance(plug.exception(0), hami.RequestError)


def test_while_it_drains_nothing_new_is_taken(open_pipe: Any, probe: Any, eventually: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    plug = seen.plug(pipeline)
    thread, _ = closing(pipeline, 20)
    assert eventually(lambda: is_refused(pipeline))
    assert not plug.done()
    seen.open()
    thread.join(20)
    assert plug.result(0)["result"] == "plug"


def test_an_idle_pipeline_closes_at_once(open_pipe: Any) -> None:
    pipeline = open_pipe({"backend": "Identities", "instance_num": 4})
    pipeline({"data": 1})
    began = time.monotonic()
    assert pipeline.close(timeout=60) is True
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("source", ["Identity", "Identities"])
def test_close_is_quick_while_others_call(open_pipe: Any, source: str) -> None:
    for _ in range(40):
        pipeline = hami.pipe(source)
        is_over = threading.Event()

        def hammer(pipeline: hami.Pipeline = pipeline, is_over: threading.Event = is_over) -> None:
            while not is_over.is_set():
                with contextlib.suppress(hami.Closed):
                    pipeline({"data": 1})

        callers = [threading.Thread(target=hammer) for _ in range(3)]
        for caller in callers:
            caller.start()
        pipeline({"data": 1})
        began = time.monotonic()
        assert pipeline.close(timeout=60) is True
        assert time.monotonic() - began < 10
        is_over.set()
        for caller in callers:
            caller.join(10)


# --- the rest fails -------------------------------------------------------------------------------


def test_after_the_timeout_queued_and_running_requests_fail_with_closed(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    requests = [{"data": i} for i in range(5)]
    plug = seen.plug(pipeline)
    futures = [pipeline.submit(request) for request in requests]
    assert pipeline.close(timeout=0) is False
    for future in (plug, *futures):
        error = future.exception(10)
        assert isinstance(error, hami.Closed) and isinstance(error, RuntimeError)
    assert requests == [{"data": i} for i in range(5)]
    seen.open()
    assert seen.items == ["plug"]


def test_blocked_callers_wake_with_closed(open_pipe: Any, probe: Any, waiting: Any, eventually: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    seen.shut()
    errors: list[BaseException] = []

    def call(many: bool) -> None:
        try:
            pipeline([{"data": 1}, {"data": 2}] if many else {"data": 3})
        except BaseException as error:
            errors.append(error)

    callers = [threading.Thread(target=call, args=(many,)) for many in (True, False)]
    for caller in callers:
        caller.start()
    assert eventually(lambda: waiting(pipeline) == 2)
    assert pipeline.close(timeout=0) is False
    for caller in callers:
        caller.join(10)
    assert [type(error) for error in errors] == [hami.Closed, hami.Closed]
    seen.open()


def test_waiting_parents_of_for_each_fail_with_closed(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    for on_error in ("fail", "keep", "drop"):
        pipeline = open_pipe(
            {
                "each": {"backend": f"ForEach(target=work, on_error={on_error})", "next": "last"},
                "work": {"backend": "Probe"},
                "last": {"backend": "Identities"},
            }
        )
        num_runs = len(seen.batches)
        seen.shut()
        future = pipeline.submit({"data": [1, 2, 3]})
        seen.wait_for_runs(num_runs + 1)
        assert pipeline.close(timeout=0) is False
        assert isinstance(future.exception(10), hami.Closed)
        seen.open()


def test_a_full_pipeline_closes_too(open_pipe: Any, probe: Any, waiting: Any, eventually: Any) -> None:
    seen = probe()
    pipeline = open_pipe(
        {
            "queue_capacity": 2,
            "a": {"backend": "Identities", "next": "b"},
            "b": {"backend": "Identities", "next": "c"},
            "c": {"backend": "Probe"},
        }
    )
    seen.shut()
    futures: list[Any] = []

    def is_full() -> bool:
        try:
            futures.append(pipeline.submit({"data": 1}))
        except hami.QueueFull:
            return [row["waiting"] for row in pipeline.stats()] == [2, 2, 2]
        return False

    assert eventually(is_full)
    assert pipeline.close(timeout=0) is False
    assert all(isinstance(future.exception(10), hami.Closed) for future in futures)
    seen.open()


# --- afterwards -----------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["call", "list", "submit", "acall", "empty_list"])
def test_a_closed_pipeline_refuses_every_call(open_pipe: Any, how: str) -> None:
    pipeline = open_pipe("Identity")
    pipeline.close()
    calls: dict[str, Callable[[], Any]] = {
        "call": lambda: pipeline({"data": 1}),
        "list": lambda: pipeline([{"data": 1}]),
        "submit": lambda: pipeline.submit({"data": 1}),
        "acall": lambda: asyncio.run(pipeline.acall({"data": 1})),
        "empty_list": lambda: pipeline([]),
    }
    with pytest.raises(hami.Closed) as caught:
        calls[how]()
    assert caught.value.code == "closed" and caught.value.help and caught.value.http_status == 503


def test_closing_again_is_harmless(open_pipe: Any) -> None:
    pipeline = open_pipe("Identity")
    assert [pipeline.close() for _ in range(3)] == [True] * 3


def test_many_threads_may_close_at_once(open_pipe: Any, probe: Any, in_threads: Any) -> None:
    probe()
    for _ in range(10):
        pipeline = open_pipe({"backend": "Probe", "instance_num": 2})
        futures = [pipeline.submit({"data": i}) for i in range(20)]
        in_threads(4, lambda _, pipeline=pipeline: pipeline.close(10))
        assert [future.result(10)["result"] for future in futures] == list(range(20))


def test_stats_stay_readable(open_pipe: Any) -> None:
    pipeline = open_pipe("Identities")
    pipeline([{"data": i} for i in range(3)])
    pipeline.close()
    assert pipeline.stats()[0]["items"] == 3


def test_a_refused_dict_is_free_for_another_pipeline(open_pipe: Any) -> None:
    request = {"data": 2}
    closed = open_pipe("Pow")
    closed.close()
    with pytest.raises(hami.Closed):
        closed(request)
    assert open_pipe("Pow")(request)["result"] == 4


def test_a_with_block_closes(open_pipe: Any) -> None:
    with hami.pipe("Pow") as pipeline:
        assert pipeline({"data": 2})["result"] == 4
    with pytest.raises(hami.Closed):
        pipeline({"data": 2})


def test_a_with_block_lets_an_exception_out_and_closes() -> None:
    with pytest.raises(LookupError), hami.pipe("Pow") as pipeline:
        raise LookupError
    with pytest.raises(hami.Closed):
        pipeline({"data": 2})


@pytest.mark.parametrize("timeout", [0, 0.0, 1e-9, 1e300, float("inf"), -5])
def test_any_number_of_seconds_is_a_timeout(open_pipe: Any, timeout: float) -> None:
    assert open_pipe("Identities").close(timeout) is True


# --- closing from within --------------------------------------------------------------------------


def test_a_callback_may_close_its_pipeline(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    seen.shut()
    is_closed = threading.Event()

    def on_done(_: Any) -> None:
        pipeline.close(timeout=1)
        is_closed.set()

    pipeline.submit({"data": 1}).add_done_callback(on_done)
    seen.open()
    assert is_closed.wait(10)
    assert is_refused(pipeline)


def test_close_keeps_to_its_timeout_while_a_callback_blocks(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    seen.shut()
    inside, leave = threading.Event(), threading.Event()

    def on_done(_: Any) -> None:
        inside.set()
        leave.wait(20)

    pipeline.submit({"data": 1}).add_done_callback(on_done)
    seen.open()
    assert inside.wait(10)
    thread, _ = closing(pipeline, 0.01)
    thread.join(5)
    is_hanging = thread.is_alive()
    leave.set()
    thread.join(10)
    assert not is_hanging


def test_a_backend_may_close_its_own_pipeline(open_pipe: Any) -> None:
    pipelines: list[hami.Pipeline] = []

    def forward(batch: list[dict[str, Any]]) -> list[Any]:
        pipelines[0].close(timeout=0.01)
        return [0 for _ in batch]

    hami.register("Suicidal", forward)
    pipelines.append(open_pipe("Suicidal"))
    with pytest.raises(hami.Closed):
        pipelines[0]({"data": 1})
    assert is_refused(pipelines[0])


def test_a_timer_thread_may_close_the_pipeline(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    seen.plug(pipeline)
    is_closed = threading.Event()

    def on_late(_: Any) -> None:
        pipeline.close(timeout=0)
        is_closed.set()

    pipeline.submit({"data": 1, "deadline_ms": 5}).add_done_callback(on_late)
    assert is_closed.wait(10)
    seen.open()


@pytest.mark.parametrize("timeout", ["soon", [], float("nan")])
def test_something_else_than_seconds_is_refused_in_plain_words(open_pipe: Any, timeout: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="timeout") as caught:
        open_pipe("Identities").close(timeout)
    assert "incompatible function arguments" not in str(caught.value)
