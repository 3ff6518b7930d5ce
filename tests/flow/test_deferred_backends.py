"""Laws of backends that answer later: `start` takes a request over, and its `reply` ends it once."""

from __future__ import annotations

import asyncio
import gc
import threading
from typing import Any

import pytest

import hami
from hami import _core

WAIT_S = 10.0


class Desk:
    """Where the requests lie that `start` took over, until the test answers them."""

    def __init__(self, eventually: Any) -> None:
        self.eventually = eventually
        self.lock = threading.Lock()
        self.held: list[tuple[dict[str, Any], Any]] = []
        self.closed = 0

    def take(self) -> tuple[dict[str, Any], Any]:
        with self.lock:
            return self.held.pop(0)

    def wait_for(self, count: int) -> None:
        assert self.eventually(lambda: len(self) == count)

    def __len__(self) -> int:
        with self.lock:
            return len(self.held)


@pytest.fixture
def desk(eventually: Any) -> Desk:
    """Return a Desk with the backend `Later`, which lays down there whatever comes."""
    place = Desk(eventually)

    @hami.register("Later")
    class Later(hami.Backend):
        factor = hami.param(1, doc="what the tests multiply with")

        def start(self, item: dict[str, Any], reply: Any) -> None:
            item["factor"] = self.factor
            with place.lock:
                place.held.append((item, reply))

        def close(self) -> None:
            place.closed += 1

        def problem(self) -> str:
            return "the desk is full" if len(place) > 2 else ""

    return place


def answer(held: tuple[dict[str, Any], Any], result: Any) -> bool:
    item, reply = held
    item["result"] = result
    return bool(reply.finish())


def stats_of(pipeline: Any) -> dict[str, Any]:
    (stats,) = pipeline.stats()
    return dict(stats)


# --- answers --------------------------------------------------------------------------------------


def test_answers_come_in_any_order_and_each_to_its_own_request(open_pipe: Any, desk: Desk) -> None:
    pipeline = open_pipe("Later(3)")
    futures = [pipeline.submit({"data": i}) for i in range(5)]
    desk.wait_for(5)
    for held in [desk.take() for _ in range(5)][::-1]:
        assert answer(held, held[0]["data"] * held[0]["factor"])
    assert [future.result(WAIT_S)["result"] for future in futures] == [0, 3, 6, 9, 12]


def test_a_blocked_caller_needs_no_thread_of_ours(open_pipe: Any, desk: Desk) -> None:
    pipeline = open_pipe("Later")
    num_threads = threading.active_count()
    futures = [pipeline.submit({"data": i}) for i in range(100)]
    desk.wait_for(100)
    assert threading.active_count() == num_threads
    for _ in range(100):
        answer(desk.take(), "done")
    assert all(future.result(WAIT_S)["result"] == "done" for future in futures)


def test_start_may_answer_at_once(open_pipe: Any) -> None:
    @hami.register("AtOnce")
    class AtOnce(hami.Backend):
        def start(self, item: dict[str, Any], reply: Any) -> None:
            item["result"] = item["data"] + 1
            assert reply.finish()

    assert open_pipe("S[AtOnce, AtOnce]")({"data": 1})["result"] == 3
    pipeline = open_pipe({"a": {"backend": "AtOnce", "next": "b"}, "b": {"backend": "Pow"}})
    assert pipeline({"data": 2})["result"] == 9


def test_it_stands_between_other_backends(open_pipe: Any, desk: Desk) -> None:
    pipeline = open_pipe("S[Pow, Later, Pow]")
    future = pipeline.submit({"data": 3})
    desk.wait_for(1)
    held = desk.take()
    assert held[0]["data"] == 9
    answer(held, 10)
    assert future.result(WAIT_S)["result"] == 100


def test_other_keys_that_it_writes_reach_the_caller(open_pipe: Any, desk: Desk) -> None:
    future = open_pipe("Later").submit({"data": 1, "mine": "kept"})
    desk.wait_for(1)
    item, reply = desk.take()
    item["usage"] = {"tokens": 3}
    item["result"] = "text"
    reply.finish()
    assert future.result(WAIT_S) == {
        "data": 1,
        "mine": "kept",
        "factor": 1,
        "usage": {"tokens": 3},
        "result": "text",
    }


# --- failures -------------------------------------------------------------------------------------


def test_an_error_reaches_its_caller_as_itself_and_names_the_node(open_pipe: Any, desk: Desk) -> None:
    future = open_pipe({"backend": "Later"}).submit({"data": 1})
    desk.wait_for(1)
    assert desk.take()[1].fail(KeyError("no such word"))
    with pytest.raises(KeyError, match="no such word") as caught:
        future.result(WAIT_S)
    assert "Later" in "".join(caught.value.__notes__)


def test_what_start_raises_is_the_answer(open_pipe: Any) -> None:
    @hami.register("Raises")
    class Raises(hami.Backend):
        def start(self, item: dict[str, Any], reply: Any) -> None:
            raise LookupError("not here")

    with pytest.raises(LookupError, match="not here"):
        open_pipe("Raises")({"data": 1})


def test_a_request_ends_once(open_pipe: Any, desk: Desk) -> None:
    future = open_pipe("Later").submit({"data": 1})
    desk.wait_for(1)
    item, reply = desk.take()
    item["result"] = "first"
    assert reply.finish()
    item["result"] = "second"
    assert not reply.finish()
    assert not reply.fail(ValueError("third"))
    assert not reply.is_wanted
    assert not reply.emit("late")
    assert future.result(WAIT_S)["result"] == "first"


def test_a_reply_without_a_result_is_an_error_that_says_so(open_pipe: Any, desk: Desk) -> None:
    future = open_pipe("Later").submit({"data": 1})
    desk.wait_for(1)
    desk.take()[1].finish()
    with pytest.raises(hami.Error, match="result"):
        future.result(WAIT_S)


def test_letting_go_of_a_reply_is_an_error_of_that_request(open_pipe: Any, desk: Desk) -> None:
    future = open_pipe("Later").submit({"data": 1})
    desk.wait_for(1)
    desk.take()
    gc.collect()
    with pytest.raises(hami.RequestError, match="without an answer") as caught:
        future.result(WAIT_S)
    assert caught.value.code == "backend-reply-dropped"


def test_fail_takes_exceptions_only(open_pipe: Any, desk: Desk) -> None:
    future = open_pipe("Later").submit({"data": 1})
    desk.wait_for(1)
    item, reply = desk.take()
    with pytest.raises(TypeError, match="exception"):
        reply.fail("a text")
    answer((item, reply), 1)
    assert future.result(WAIT_S)["result"] == 1


def test_replies_are_made_by_the_core_only() -> None:
    with pytest.raises(TypeError, match="only the core"):
        _core.Reply()


# --- early ends -----------------------------------------------------------------------------------


def test_a_deadline_is_answered_on_time_and_the_reply_is_unwanted(open_pipe: Any, desk: Desk) -> None:
    pipeline = open_pipe("Later")
    with pytest.raises(hami.DeadlineExceeded):
        pipeline({"data": 1, "deadline_ms": 5})
    desk.wait_for(1)
    item, reply = desk.take()
    assert not reply.is_wanted
    item["result"] = "too late"
    reply.finish()
    assert pipeline.close(WAIT_S)


def test_a_cancelled_request_is_not_wanted_any_more(open_pipe: Any, desk: Desk) -> None:
    stream = open_pipe("Later").stream({"data": 1})
    desk.wait_for(1)
    assert desk.held[0][1].is_wanted
    stream.close()
    assert not desk.held[0][1].is_wanted


def test_close_waits_for_answers_and_then_ends_the_backend(open_pipe: Any, desk: Desk) -> None:
    pipeline = open_pipe("Later")
    future = pipeline.submit({"data": 1})
    desk.wait_for(1)
    closer = threading.Thread(target=lambda: pipeline.close(WAIT_S))
    closer.start()
    answer(desk.take(), "in time")
    closer.join(WAIT_S)
    assert future.result(WAIT_S)["result"] == "in time"
    assert desk.closed == 1


def test_what_is_inside_when_time_is_up_is_closed(open_pipe: Any, desk: Desk) -> None:
    pipeline = open_pipe("Later")
    futures = [pipeline.submit({"data": i}) for i in range(3)]
    desk.wait_for(3)
    pipeline.close(0)
    for future in futures:
        with pytest.raises(hami.Closed):
            future.result(WAIT_S)
    assert not any(answer(held, "late") for held in desk.held)
    assert desk.closed == 1


# --- partial results ------------------------------------------------------------------------------


def test_partial_results_are_streamed(open_pipe: Any, desk: Desk) -> None:
    request: dict[str, Any] = {"data": 1}
    stream = open_pipe("Later").stream(request)
    desk.wait_for(1)
    item, reply = desk.take()
    for part in ("a", "b", "c"):
        assert reply.emit(part)
    answer((item, reply), "abc")
    assert list(stream) == ["a", "b", "c"]
    assert request["result"] == "abc"


def test_a_consumer_64_behind_leaves_no_room_and_gets_everything(open_pipe: Any, desk: Desk) -> None:
    stream = open_pipe("Later").stream({"data": 1})
    desk.wait_for(1)
    item, reply = desk.take()
    for i in range(64):
        assert reply.has_room
        reply.emit(i)
    assert not reply.has_room
    assert next(stream) == 0
    assert reply.has_room
    reply.emit(64)
    answer((item, reply), "end")
    assert list(stream) == list(range(1, 65))


def test_without_a_listener_there_is_always_room(open_pipe: Any, desk: Desk) -> None:
    future = open_pipe("Later").submit({"data": 1})
    desk.wait_for(1)
    item, reply = desk.take()
    assert all(reply.emit(i) and reply.has_room for i in range(100))
    answer((item, reply), "end")
    assert future.result(WAIT_S)["result"] == "end"


def test_an_inner_node_streams_to_nobody(open_pipe: Any, desk: Desk) -> None:
    stream = open_pipe("S[Later, Identity]").stream({"data": 1})
    desk.wait_for(1)
    item, reply = desk.take()
    assert reply.emit("unheard")
    answer((item, reply), "end")
    assert list(stream) == ["end"]


def test_async_callers_stream_too(open_pipe: Any, desk: Desk) -> None:
    pipeline = open_pipe("Later")

    async def consume() -> list[Any]:
        parts = []
        async for part in pipeline.astream({"data": 1}):
            parts.append(part)
        return parts

    def produce() -> None:
        desk.wait_for(1)
        item, reply = desk.take()
        reply.emit("x")
        reply.emit("y")
        answer((item, reply), "xy")

    producer = threading.Thread(target=produce)
    producer.start()
    assert asyncio.run(consume()) == ["x", "y"]
    producer.join(WAIT_S)


# --- as a node ------------------------------------------------------------------------------------


def test_queue_capacity_bounds_what_is_inside(open_pipe: Any, desk: Desk) -> None:
    pipeline = open_pipe({"backend": "Later", "queue_capacity": 2})
    futures = [pipeline.submit({"data": i}) for i in range(2)]
    desk.wait_for(2)
    with pytest.raises(hami.QueueFull):
        pipeline({"data": 3})
    answer(desk.take(), 0)
    futures[0].result(WAIT_S)
    third = pipeline.submit({"data": 3})
    desk.wait_for(2)
    while len(desk):
        answer(desk.take(), 0)
    third.result(WAIT_S)


def test_stats_and_problems_show_it(open_pipe: Any, desk: Desk, eventually: Any) -> None:
    pipeline = open_pipe({"later": {"backend": "Later"}})
    futures = [pipeline.submit({"data": i}) for i in range(3)]
    desk.wait_for(3)
    assert any("the desk is full" in problem for problem in pipeline.problems())
    assert stats_of(pipeline)["waiting"] == 3
    answer(desk.take(), 0)
    desk.take()[1].fail(ValueError("bad"))
    answer(desk.take(), 0)
    assert not isinstance(futures[1].exception(WAIT_S), type(None))
    assert eventually(lambda: stats_of(pipeline)["items"] == 3)
    stats = stats_of(pipeline)
    assert (stats["errors"], stats["waiting"]) == (1, 0)


def test_it_cannot_stand_inside_another_backend(open_pipe: Any, desk: Desk) -> None:
    with pytest.raises(hami.ConfigError, match="cannot run inside another"):
        open_pipe("Register[Later]")


def test_many_threads_get_their_own_answers(open_pipe: Any) -> None:
    @hami.register("Worker")
    class Worker(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            self.inbox: list[Any] = []
            self.news = threading.Condition()
            self.is_open = True
            self.thread = threading.Thread(target=self.work, daemon=True)
            self.thread.start()

        def start(self, item: dict[str, Any], reply: Any) -> None:
            with self.news:
                self.inbox.append((item, reply))
                self.news.notify()

        def work(self) -> None:
            while True:
                with self.news:
                    self.news.wait_for(lambda: self.inbox or not self.is_open)
                    taken, self.inbox = self.inbox, []
                    if not taken:
                        return
                for held in taken:
                    answer(held, held[0]["data"] * 2)

        def close(self) -> None:
            with self.news:
                self.is_open = False
                self.news.notify()
            self.thread.join(WAIT_S)

    pipeline = open_pipe("S[Worker, Identity]")
    wrong: list[Any] = []

    def call(base: int) -> None:
        wrong.extend(i for i in range(base, base + 200) if pipeline({"data": i})["result"] != 2 * i)

    callers = [threading.Thread(target=call, args=(1000 * k,)) for k in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(WAIT_S)
    assert wrong == []
