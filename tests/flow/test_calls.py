"""Laws of the ways to call: one dict, a list, `submit` with its future, and `await acall`."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

import hami


def raise_below_zero(item: dict[str, Any]) -> Any:
    """Work that refuses negative numbers."""
    if item["data"] < 0:
        raise ValueError(f"below zero: {item['data']}")
    return item["data"] * 10


def run(main: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine with a bound on its time."""
    return asyncio.run(asyncio.wait_for(main, 20))


# --- lists ----------------------------------------------------------------------------------------


def test_a_list_returns_the_same_list_of_the_same_dicts_in_order(open_pipe: Any) -> None:
    requests = [{"data": i} for i in range(100)]
    kept = list(requests)
    answered = open_pipe("Pow")(requests)
    assert answered is requests
    assert all(one is other for one, other in zip(answered, kept, strict=True))
    assert [request["result"] for request in answered] == [i * i for i in range(100)]


def test_an_empty_list_is_answered_with_itself(open_pipe: Any) -> None:
    requests: list[dict[str, Any]] = []
    assert open_pipe("Identity")(requests) is requests


def test_a_list_raises_the_first_error_in_order_and_the_others_keep_their_results(
    open_pipe: Any, probe: Any
) -> None:
    probe(work=raise_below_zero)
    requests = [{"data": i} for i in (1, -2, 3, -4, 5)]
    with pytest.raises(ValueError, match="below zero: -2"):
        open_pipe({"backend": "Probe", "instance_num": 2})(requests)
    assert requests == [
        {"data": 1, "result": 10},
        {"data": -2},
        {"data": 3, "result": 30},
        {"data": -4},
        {"data": 5, "result": 50},
    ]


def test_a_list_raises_only_after_all_have_ended(open_pipe: Any, probe: Any, in_threads: Any) -> None:
    gated = probe(work=raise_below_zero)
    pipeline = open_pipe({"backend": "Probe", "instance_num": 2})
    gated.shut()
    ended = threading.Event()

    def call() -> None:
        with pytest.raises(ValueError, match="-1"):
            pipeline([{"data": -1}, {"data": 1}])
        ended.set()

    caller = threading.Thread(target=call)
    caller.start()
    gated.wait_for_runs(2)
    assert not ended.is_set()
    gated.open()
    caller.join(20)
    assert ended.is_set()


@pytest.mark.parametrize("wrong", [5, None, [1], "text"])
def test_a_list_with_something_else_than_dicts_starts_nothing(open_pipe: Any, probe: Any, wrong: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    with pytest.raises(hami.RequestError, match="a request is a dict"):
        pipeline([{"data": 1}, wrong])
    pipeline({"data": 2})
    assert seen.items == [2]


def test_a_list_is_submitted_all_or_nothing(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    requests = [{"data": 1}, {"data": 2, "request_size": 0}]
    with pytest.raises(hami.RequestError, match="request_size"):
        pipeline(requests)
    assert pipeline(requests[0])["result"] == 1
    assert seen.items == [1]


def test_the_list_may_change_while_its_requests_are_in_flight(open_pipe: Any, probe: Any) -> None:
    gated = probe()
    pipeline = open_pipe({"backend": "Probe", "instance_num": 2})
    gated.shut()
    requests = [{"data": 1}, {"data": 2}]
    kept = list(requests)
    caller = threading.Thread(target=pipeline, args=(requests,))
    caller.start()
    gated.wait_for_runs(2)
    requests.clear()
    gated.open()
    caller.join(20)
    assert [request["result"] for request in kept] == [1, 2]


# --- submit ---------------------------------------------------------------------------------------


def test_submit_returns_a_future_of_the_same_dict(open_pipe: Any) -> None:
    request = {"data": 3}
    future = open_pipe("Pow").submit(request)
    assert isinstance(future, concurrent.futures.Future)
    assert future.result(20) is request
    assert request["result"] == 9


def test_submit_does_not_wait_for_the_backend(open_pipe: Any, probe: Any) -> None:
    gated = probe()
    pipeline = open_pipe("Probe")
    gated.shut()
    future = pipeline.submit({"data": 1})
    gated.wait_for_runs(1)
    assert not future.done()
    gated.open()
    assert future.result(20)["result"] == 1


def test_submit_never_runs_user_code_on_the_callers_thread(open_pipe: Any, probe: Any) -> None:
    threads = []
    probe(work=lambda item: threads.append(threading.get_ident()), is_inline=True, is_reentrant=True)
    pipeline = open_pipe("Probe")
    for _ in range(20):
        pipeline.submit({"data": 1}).result(20)
    assert threading.get_ident() not in threads


def test_a_failed_request_is_the_exception_of_its_future(open_pipe: Any, probe: Any) -> None:
    probe(work=raise_below_zero)
    future = open_pipe("Probe").submit({"data": -1})
    error = future.exception(20)
    assert type(error) is ValueError and str(error) == "below zero: -1"


def test_callbacks_of_a_future_see_the_result_in_the_dict(open_pipe: Any, probe: Any) -> None:
    gated = probe()
    pipeline = open_pipe("Probe")
    gated.shut()
    seen: list[Any] = []
    done = threading.Event()

    def on_done(future: concurrent.futures.Future[dict[str, Any]]) -> None:
        seen.append(future.result()["result"])
        done.set()

    pipeline.submit({"data": 4}).add_done_callback(on_done)
    gated.open()
    assert done.wait(20) and seen == [4]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_callback_that_raises_harms_nobody(open_pipe: Any, probe: Any) -> None:
    gated = probe()
    pipeline = open_pipe("Probe")
    gated.shut()
    future = pipeline.submit({"data": 1})
    future.add_done_callback(lambda _: 1 // 0)
    gated.open()
    assert future.result(20)["result"] == 1
    assert pipeline({"data": 2})["result"] == 2


@pytest.mark.parametrize("source", ["Identity", "Probe", {"a": {"backend": "Identity"}}])
def test_a_callback_may_call_a_pipeline(open_pipe: Any, probe: Any, source: Any) -> None:
    gated = probe("Gated")
    probe("Probe")
    first, second = open_pipe("Gated"), open_pipe(source)
    gated.shut()
    answers: list[Any] = []
    done = threading.Event()

    def on_done(_: Any) -> None:
        answers.append(second({"data": 5})["result"])
        answers.append(second.submit({"data": 6}).result(20)["result"])
        done.set()

    first.submit({"data": 1}).add_done_callback(on_done)
    gated.open()
    assert done.wait(20) and answers == [5, 6]


def test_a_callback_may_submit_to_its_own_pipeline(open_pipe: Any, probe: Any) -> None:
    gated = probe()
    pipeline = open_pipe("Probe")
    gated.shut()
    chained: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def on_done(future: Any) -> None:
        again = pipeline.submit({"data": future.result()["result"] + 1})
        again.add_done_callback(lambda last: chained.set_result(last.result()["result"]))

    pipeline.submit({"data": 1}).add_done_callback(on_done)
    gated.open()
    assert chained.result(20) == 2


def test_as_completed_and_wait_work_on_the_futures(open_pipe: Any) -> None:
    pipeline = open_pipe("Pow")
    futures = [pipeline.submit({"data": i}) for i in range(30)]
    assert sorted(f.result()["result"] for f in concurrent.futures.as_completed(futures, 20)) == [
        i * i for i in range(30)
    ]
    assert not concurrent.futures.wait(futures, 20).not_done


def test_a_result_with_a_timeout_gives_up_and_the_request_goes_on(open_pipe: Any, probe: Any) -> None:
    gated = probe()
    pipeline = open_pipe("Probe")
    gated.shut()
    future = pipeline.submit({"data": 1})
    gated.wait_for_runs(1)
    with pytest.raises(concurrent.futures.TimeoutError):
        future.result(0.01)
    gated.open()
    assert future.result(20)["result"] == 1


# --- cancel ---------------------------------------------------------------------------------------


def test_a_request_cancelled_while_queued_never_reaches_the_backend(
    open_pipe: Any, probe: Any, eventually: Any
) -> None:
    gated = probe()
    pipeline = open_pipe("Probe")
    plug = gated.plug(pipeline)
    futures = [pipeline.submit({"data": i}) for i in range(20)]
    assert all(future.cancel() for future in futures[::2])
    gated.open()
    assert [future.result(20)["result"] for future in futures[1::2]] == list(range(1, 20, 2))
    plug.result(20)
    assert gated.items == ["plug", *range(1, 20, 2)]
    assert eventually(lambda: pipeline.stats()[0]["dropped"] == 10)


def test_cancelling_a_running_request_answers_at_once(open_pipe: Any, probe: Any) -> None:
    gated = probe()
    pipeline = open_pipe("Probe")
    plug = gated.plug(pipeline)
    assert plug.cancel() and plug.cancelled()
    with pytest.raises(concurrent.futures.CancelledError):
        plug.result(20)
    gated.open()
    assert pipeline({"data": 1})["result"] == 1


def test_a_cancelled_dict_is_unchanged_and_free_again(open_pipe: Any, probe: Any) -> None:
    gated = probe()
    pipeline = open_pipe("Probe")
    gated.plug(pipeline)
    request = {"data": 1}
    assert pipeline.submit(request).cancel()
    assert request == {"data": 1}
    again = pipeline.submit(request)
    gated.open()
    assert again.result(20) == {"data": 1, "result": 1}
    assert gated.items == ["plug", 1]


def test_an_answered_request_cannot_be_cancelled(open_pipe: Any) -> None:
    future = open_pipe("Pow").submit({"data": 2})
    future.result(20)
    assert not future.cancel()
    assert future.result()["result"] == 4


def test_cancelling_twice_is_harmless(open_pipe: Any, probe: Any) -> None:
    gated = probe()
    pipeline = open_pipe("Probe")
    plug = gated.plug(pipeline)
    assert plug.cancel() and plug.cancel()


# --- acall ----------------------------------------------------------------------------------------


def test_acall_returns_the_same_dict(open_pipe: Any) -> None:
    pipeline = open_pipe("Pow")
    request = {"data": 3}
    assert run(pipeline.acall(request)) is request
    assert request["result"] == 9


def test_many_acalls_run_at_once_on_one_loop(open_pipe: Any, probe: Any) -> None:
    gated = probe()
    pipeline = open_pipe({"backend": "Probe", "instance_num": 4})

    async def main() -> list[Any]:
        gated.shut()
        tasks = [asyncio.create_task(pipeline.acall({"data": i})) for i in range(50)]
        await asyncio.to_thread(gated.wait_for_runs, 4)
        gated.open()
        return [answer["result"] for answer in await asyncio.gather(*tasks)]

    assert run(main()) == list(range(50))


@pytest.mark.parametrize(
    "error", [ValueError("x"), KeyError("k"), StopIteration("s"), StopAsyncIteration(), TimeoutError("t")]
)
def test_acall_ends_with_whatever_the_backend_raises(open_pipe: Any, probe: Any, error: Exception) -> None:
    def work(item: dict[str, Any]) -> Any:
        raise error

    probe(work=work)
    pipeline = open_pipe("Probe")

    async def main() -> None:
        await asyncio.wait_for(pipeline.acall({"data": 1}), 20)

    with pytest.raises(RuntimeError if isinstance(error, StopIteration) else type(error)):
        asyncio.run(main())


def test_cancelling_the_task_cancels_the_request(open_pipe: Any, probe: Any, eventually: Any) -> None:
    gated = probe()
    pipeline = open_pipe("Probe")

    async def main() -> None:
        gated.plug(pipeline)
        task = asyncio.create_task(pipeline.acall({"data": 1}))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())
    gated.open()
    assert pipeline({"data": 2})["result"] == 2
    assert gated.items == ["plug", 2]


def test_a_timeout_around_acall_cancels_the_request(open_pipe: Any, probe: Any) -> None:
    gated = probe()
    pipeline = open_pipe("Probe")

    async def main() -> None:
        gated.plug(pipeline)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(pipeline.acall({"data": 1}), 0.01)

    run(main())
    gated.open()
    pipeline({"data": 2})
    assert gated.items == ["plug", 2]


# --- threads --------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", ["Pow", {"backend": "Square", "instance_num": 3}])
def test_every_reply_belongs_to_its_request(
    open_pipe: Any, in_threads: Callable[..., Any], source: Any
) -> None:
    hami.register("Square", lambda batch: [item["data"] ** 2 for item in batch])
    pipeline = open_pipe(source)

    def call(thread: int) -> None:
        for i in range(thread * 1000, thread * 1000 + 300):
            assert pipeline({"data": i}) == {"data": i, "result": i * i}

    in_threads(8, call)


def test_a_blocked_call_lets_other_threads_run(open_pipe: Any, probe: Any) -> None:
    gated = probe()
    pipeline = open_pipe("Probe")
    gated.shut()
    caller = threading.Thread(target=pipeline, args=({"data": 1},))
    caller.start()
    gated.wait_for_runs(1)
    # Python runs here although the caller waits; the backend waits for this very thread.
    gated.open()
    caller.join(20)
    assert not caller.is_alive()
