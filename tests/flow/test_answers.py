"""Laws of answers on an event loop: each reaches its own loop, once, whatever became of that loop."""

from __future__ import annotations

import asyncio
import gc
import select
import sys
import threading
from typing import Any

import pytest

from hami import _core, answers


def test_a_queue_is_readable_while_there_are_answers(open_pipe: Any, probe: Any, eventually: Any) -> None:
    gated = probe()
    pipeline, queue = open_pipe("Probe"), _core.AnswerQueue()
    plug = gated.plug(pipeline)
    errors: list[Any] = []
    requests: list[dict[str, Any]] = [{"data": i} for i in range(5)]
    for request in requests:
        pipeline.start(request, errors.append, queue)
    assert select.select([queue], [], [], 0)[0] == []
    gated.open()
    plug.result(20)
    eventually(lambda: pipeline._num_requests == 0)
    assert select.select([queue], [], [], 20)[0] == [queue]
    assert errors == []
    queue.deliver()
    assert errors == [None] * 5
    assert [request["result"] for request in requests] == list(range(5))
    assert select.select([queue], [], [], 0)[0] == []


def test_a_loop_has_one_queue_and_another_loop_another_one() -> None:
    async def queues() -> tuple[Any, Any]:
        loop = asyncio.get_running_loop()
        return answers.answers_of(loop), answers.answers_of(loop)

    first, again = asyncio.run(queues())
    other, _ = asyncio.run(queues())
    assert first is again
    assert other is not first


def test_loops_in_many_threads_get_their_own_answers(open_pipe: Any) -> None:
    pipeline = open_pipe({"backend": "Pow", "instance_num": 2})
    results: dict[int, list[int]] = {}

    async def ask(start: int) -> list[int]:
        answered = await asyncio.gather(*(pipeline.acall({"data": start + i}) for i in range(200)))
        return [request["result"] for request in answered]

    def work(number: int) -> None:
        results[number] = asyncio.run(asyncio.wait_for(ask(number * 1000), 30))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: [(n * 1000 + i) ** 2 for i in range(200)] for n in range(4)}


def test_a_dict_that_was_given_up_is_free_at_once(open_pipe: Any, probe: Any) -> None:
    gated = probe()
    pipeline = open_pipe("Probe")
    request: dict[str, Any] = {"data": 1}

    async def main() -> None:
        plug = gated.plug(pipeline)
        for _ in range(3):
            task = asyncio.ensure_future(pipeline.acall(request))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        gated.open()
        await asyncio.wrap_future(plug)
        assert await pipeline.acall(request) is request

    asyncio.run(asyncio.wait_for(main(), 20))
    assert request["result"] == 1


def test_answers_for_a_loop_that_has_ended_disturb_nobody(
    open_pipe: Any, probe: Any, eventually: Any, recwarn: Any
) -> None:
    gated = probe()
    pipeline = open_pipe("Probe")
    request: dict[str, Any] = {"data": 1}

    async def leave() -> None:
        gated.shut()
        task = asyncio.ensure_future(pipeline.acall(request))
        await asyncio.to_thread(gated.wait_for_runs, 1)
        task.cancel()

    asyncio.run(asyncio.wait_for(leave(), 20))
    gated.open()
    eventually(lambda: pipeline._num_requests == 0)
    gc.collect()
    assert asyncio.run(pipeline.acall({"data": 2}))["result"] == 2
    assert "result" not in request
    assert not list(recwarn)


def test_a_queue_that_is_dropped_calls_back_all_the_same(open_pipe: Any, probe: Any, eventually: Any) -> None:
    gated = probe()
    pipeline, queue = open_pipe("Probe"), _core.AnswerQueue()
    gated.shut()
    errors: list[Any] = []
    early, late = {"data": 1}, {"data": 2}
    pipeline.start(early, errors.append, queue)
    gated.wait_for_runs(1)
    pipeline.start(late, errors.append, queue)
    del queue
    gc.collect()
    gated.open()
    eventually(lambda: errors == [None, None])
    assert (early["result"], late["result"]) == (1, 2)
    pipeline({"data": 3})


def test_what_a_callback_raises_reaches_no_other_answer(
    open_pipe: Any, eventually: Any, monkeypatch: Any
) -> None:
    pipeline, queue = open_pipe("Pow"), _core.AnswerQueue()
    errors: list[Any] = []
    seen: list[Any] = []

    def fail(error: BaseException | None) -> None:
        raise ValueError("mine")

    with monkeypatch.context() as patched:
        patched.setattr(sys, "unraisablehook", seen.append)
        pipeline.start({"data": 1}, fail, queue)
        pipeline.start({"data": 2}, errors.append, queue)
        eventually(lambda: pipeline._num_requests == 0)
        queue.deliver()
    assert errors == [None]
    assert [str(one.exc_value) for one in seen] == ["mine"]


def test_a_cheap_backend_answers_where_it_is_asked(open_pipe: Any, probe: Any) -> None:
    threads: list[int] = []

    def work(item: dict[str, Any]) -> Any:
        threads.append(threading.get_ident())
        return item["data"]

    probe("Cheap", work, is_inline=True)
    probe("Dear", work)
    assert asyncio.run(open_pipe("Cheap").acall({"data": 1}))["result"] == 1
    assert asyncio.run(open_pipe("Dear").acall({"data": 2}))["result"] == 2
    assert threads[0] == threading.get_ident() != threads[1]
