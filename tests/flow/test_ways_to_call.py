"""All ways to call at once on one pipeline, under load: every request ends once, as it should."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest

import hami

WAIT_S = 30.0
NUM_ROUNDS = 40

Value = tuple[int, int]
Way = Callable[["Load", int], None]


class BadValueError(Exception):
    """What the backend raises; `value` says for whom."""

    def __init__(self, value: Value) -> None:
        super().__init__(value)
        self.value = value


def is_bad(value: Value) -> bool:
    """Say whether the backend raises for a value."""
    return value[1] % 7 == 3


@hami.register("Answers")
class Answers(hami.Backend):
    """Answer with the reversed pair, or raise."""

    batch_range = (1, 8)

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Run one batch."""
        for item in batch:
            if is_bad(item["data"]):
                item["error"] = BadValueError(item["data"])
            else:
                item["result"] = item["data"][::-1]


async def answers_later(batch: list[dict[str, Any]]) -> list[Any]:
    """Pass the data on, a little later."""
    await asyncio.sleep(0)
    return [item["data"] for item in batch]


class Load:
    """Callers of one pipeline; counts how every request ended."""

    def __init__(self, pipeline: hami.Pipeline) -> None:
        self.pipeline = pipeline
        self.ends: Counter[tuple[str, Value]] = Counter()
        self._lock = threading.Lock()

    def end(self, way: str, request: dict[str, Any], error: BaseException | None) -> None:
        """Check one answer and count it."""
        value = request["data"]
        if is_bad(value):
            assert isinstance(error, BadValueError) and error.value == value
            assert "result" not in request
        else:
            assert error is None and request["result"] == value[::-1]
        with self._lock:
            self.ends[way, value] += 1


def call(load: Load, caller: int) -> None:
    """Block for each."""
    for i in range(NUM_ROUNDS):
        request = {"data": (caller, i)}
        error = None
        try:
            load.pipeline(request)
        except BadValueError as raised:
            error = raised
        load.end("call", request, error)


def call_list(load: Load, caller: int) -> None:
    """Block for five at a time; the error that is raised is that of the first bad one."""
    for start in range(0, NUM_ROUNDS, 5):
        requests = [{"data": (caller, i)} for i in range(start, start + 5)]
        bad = [request["data"] for request in requests if is_bad(request["data"])]
        try:
            load.pipeline(requests)
            assert not bad
        except BadValueError as error:
            assert error.value == bad[0]
        for request in requests:
            error = BadValueError(request["data"]) if "result" not in request else None
            load.end("list", request, error)


def submit(load: Load, caller: int) -> None:
    """Start all, then look at the futures."""
    requests = [{"data": (caller, i)} for i in range(NUM_ROUNDS)]
    futures: list[Future[dict[str, Any]]] = [load.pipeline.submit(request) for request in requests]
    for request, future in zip(requests, futures, strict=True):
        load.end("submit", request, future.exception(WAIT_S))


def await_all(load: Load, caller: int) -> None:
    """Await all at once on an event loop."""

    async def one(request: dict[str, Any]) -> None:
        error = None
        try:
            assert await load.pipeline.acall(request) is request
        except BadValueError as raised:
            error = raised
        load.end("await", request, error)

    async def main() -> None:
        await asyncio.gather(*(one({"data": (caller, i)}) for i in range(NUM_ROUNDS)))

    asyncio.run(main())


def call_with_events(load: Load, caller: int) -> None:
    """Start each with an event of its own; the callbacks count."""
    requests = [{"data": (caller, i), "event": hami.Event()} for i in range(NUM_ROUNDS)]
    for request in requests:
        request["event"].add_callback(
            lambda event, request=request: load.end("event", request, event.exception())
        )
        assert load.pipeline(request) is request
    for request in requests:
        try:
            assert request["event"].wait(WAIT_S)
        except BadValueError as error:
            assert error.value == request["data"]


def call_lists_with_events(load: Load, caller: int) -> None:
    """Start five at a time with one event."""
    for start in range(0, NUM_ROUNDS, 5):
        event = hami.Event()
        requests = [{"data": (caller, i), "event": event} for i in range(start, start + 5)]
        load.pipeline(requests)
        has_bad = any(is_bad(request["data"]) for request in requests)
        try:
            assert event.wait(WAIT_S) and not has_bad
        except BadValueError:
            assert has_bad
        for request in requests:
            load.end("events", request, BadValueError(request["data"]) if "result" not in request else None)


def stream(load: Load, caller: int) -> None:
    """Iterate over each; there is one result."""
    for i in range(NUM_ROUNDS):
        request = {"data": (caller, i)}
        error = None
        try:
            assert list(load.pipeline.stream(request)) == [request["data"][::-1]]
        except BadValueError as raised:
            error = raised
        load.end("stream", request, error)


def stream_async(load: Load, caller: int) -> None:
    """Iterate over all at once on an event loop."""

    async def one(request: dict[str, Any]) -> None:
        error = None
        try:
            assert [result async for result in load.pipeline.astream(request)] == [request["data"][::-1]]
        except BadValueError as raised:
            error = raised
        load.end("astream", request, error)

    async def main() -> None:
        await asyncio.gather(*(one({"data": (caller, i)}) for i in range(NUM_ROUNDS)))

    asyncio.run(main())


WAYS: dict[str, Way] = {
    "call": call,
    "list": call_list,
    "submit": submit,
    "await": await_all,
    "event": call_with_events,
    "events": call_lists_with_events,
    "stream": stream,
    "astream": stream_async,
}

SOURCES: dict[str, Any] = {
    "one node": {"backend": "Answers", "instance_num": 2},
    "chain": {
        "first": {"backend": "Identities", "max": 4, "next": "later"},
        "later": {"backend": "answers_later", "instance_num": 2, "max": 4, "next": "last"},
        "last": {"backend": "Answers", "batching_timeout": 2},
    },
    "small rooms": {
        "queue_capacity": 500,
        "a": {"backend": "Identity", "next": "b"},
        "b": {"backend": "Answers"},
    },
}


@pytest.mark.parametrize("source", SOURCES)
def test_mixed_ways_to_call_end_every_request_once_with_its_own_answer(
    open_pipe: Any, in_threads: Any, eventually: Any, source: str
) -> None:
    hami.register("answers_later", answers_later)
    load = Load(open_pipe(SOURCES[source]))
    names = [*WAYS, *WAYS]
    random.Random(source).shuffle(names)

    in_threads(len(names), lambda caller: WAYS[names[caller]](load, caller))

    expected = {(way, (caller, i)): 1 for caller, way in enumerate(names) for i in range(NUM_ROUNDS)}
    assert eventually(lambda: len(load.ends) == len(expected))  # a callback may come after the wait
    assert load.ends == expected
    assert eventually(lambda: load.pipeline._num_requests == 0)


def test_mixed_ways_end_every_request_once_when_the_pipeline_closes(
    open_pipe: Any, in_threads: Any, eventually: Any, probe: Any
) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    seen.shut()
    ended: Counter[str] = Counter()
    lock = threading.Lock()

    def note(way: str, error: BaseException | None) -> None:
        assert error is None or isinstance(error, hami.Closed)
        with lock:
            ended[way] += 1

    def blocking(way: str, act: Callable[[], Any]) -> None:
        error = None
        try:
            act()
        except hami.Closed as raised:
            error = raised
        note(way, error)

    def work(caller: int) -> None:
        if caller == 5:
            assert eventually(lambda: pipeline._num_requests == 6)
            pipeline.close(timeout=0)
        elif caller == 0:
            blocking("call", lambda: pipeline({"data": 0}))
        elif caller == 1:
            blocking("list", lambda: pipeline([{"data": 0}, {"data": 1}]))
        elif caller == 2:
            blocking("submit", lambda: pipeline.submit({"data": 0}).result(WAIT_S))
        elif caller == 3:
            blocking("await", lambda: asyncio.run(pipeline.acall({"data": 0})))
        else:
            event = hami.Event()
            event.add_callback(lambda event: note("event", event.exception()))
            pipeline({"data": 0, "event": event})
            blocking("wait", lambda: event.wait(WAIT_S))

    in_threads(6, work)
    ways = ("call", "list", "submit", "await", "event", "wait")
    assert eventually(lambda: ended == Counter(ways))
    seen.open()
