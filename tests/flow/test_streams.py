"""Laws of partial results: what a generator yields comes out while it runs, in order, and bounded."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import Iterator
from typing import Any

import pytest

import hami

CAPACITY = 64


class Producer:
    """A generator backend that counts how far it got; each step may wait at a gate."""

    def __init__(self) -> None:
        self.num_yielded = 0
        self.was_closed = threading.Event()
        self.gate = threading.Semaphore(10**9)
        self.is_inside = threading.Event()

    def forward(self, item: dict[str, Any]) -> Iterator[Any]:
        self.is_inside.set()
        try:
            for i in range(item["data"]):
                self.gate.acquire()
                self.num_yielded += 1
                yield i
        except GeneratorExit:
            self.was_closed.set()
            raise


@pytest.fixture
def producer() -> Producer:
    """A producer registered as `Count`."""
    one = Producer()

    class Count(hami.Backend):
        def forward(self, item: Any) -> Iterator[Any]:
            yield from one.forward(item)

    hami.register("Count", Count)
    return one


def test_a_stream_gives_every_partial_result_in_order(open_pipe: Any, producer: Producer) -> None:
    request = {"data": 1000}
    assert list(open_pipe("Count").stream(request)) == list(range(1000))
    assert request == {"data": 1000, "result": 999}


def test_partial_results_come_out_while_the_backend_runs(open_pipe: Any, producer: Producer) -> None:
    producer.gate = threading.Semaphore(0)
    stream = open_pipe("Count").stream({"data": 3})
    for i in range(3):
        producer.gate.release()
        assert next(stream) == i
    with pytest.raises(StopIteration):
        next(stream)
    with pytest.raises(StopIteration):
        next(stream)


def test_a_blocking_call_gets_the_last_one(open_pipe: Any, producer: Producer) -> None:
    assert open_pipe("Count")({"data": 200})["result"] == 199


def test_a_generator_that_returns_a_value_gives_it_as_the_result(open_pipe: Any) -> None:
    @hami.register
    def Spell(item: dict[str, Any]) -> Iterator[str]:  # noqa: N802
        yield from item["data"]
        return item["data"].upper()

    request = {"data": "abc"}
    assert list(open_pipe("Spell").stream(request)) == ["a", "b", "c"]
    assert request["result"] == "ABC"


def test_a_generator_sets_other_keys_too(open_pipe: Any) -> None:
    @hami.register
    def Notes(item: dict[str, Any]) -> Iterator[int]:  # noqa: N802
        yield 1
        item["note"] = "n"

    assert open_pipe("Notes")({"data": 0}) == {"data": 0, "result": 1, "note": "n"}


def test_none_is_a_partial_result(open_pipe: Any) -> None:
    @hami.register
    def Nothing(item: dict[str, Any]) -> Iterator[None]:  # noqa: N802
        yield None
        yield None

    request = {"data": 0}
    assert list(open_pipe("Nothing").stream(request)) == [None, None]
    assert request["result"] is None


def test_a_generator_that_yields_nothing_has_no_result(open_pipe: Any, producer: Producer) -> None:
    with pytest.raises(hami.RequestError, match="without a `result`"):
        list(open_pipe("Count").stream({"data": 0}))


def test_other_backends_give_their_one_result(open_pipe: Any) -> None:
    request = {"data": 3}
    assert list(open_pipe("Pow").stream(request)) == [9]
    assert request["result"] == 9


def test_only_the_output_node_streams(open_pipe: Any, producer: Producer) -> None:
    pipeline = open_pipe({"a": {"backend": "Count", "next": "b"}, "b": {"backend": "Pow"}})
    assert list(pipeline.stream({"data": 5})) == [16]


def test_only_the_last_stage_of_a_sequence_streams(open_pipe: Any, producer: Producer) -> None:
    assert list(open_pipe("S[Count,Pow]").stream({"data": 5})) == [16]
    assert list(open_pipe("S[Pow,Count]").stream({"data": 2})) == [0, 1, 2, 3]


def test_elements_of_a_foreach_do_not_stream(open_pipe: Any, producer: Producer) -> None:
    pipeline = open_pipe({"each": {"backend": "ForEach(target=count)"}, "count": {"backend": "Count"}})
    assert list(pipeline.stream({"data": [2, 3]})) == [[1, 2]]


def test_a_producer_that_is_ahead_is_suspended(open_pipe: Any, producer: Producer, eventually: Any) -> None:
    stream = open_pipe("Count").stream({"data": 10_000})
    eventually(lambda: producer.num_yielded > CAPACITY)
    for taken in range(200):
        assert next(stream) == taken
        # One lies in the producer's hands, and it may have gone on to the next.
        assert producer.num_yielded <= taken + 1 + CAPACITY + 2
    stream.close()


@pytest.mark.parametrize("way", ["close", "with", "drop"])
def test_whoever_stops_iterating_cancels_the_request(open_pipe: Any, producer: Producer, way: str) -> None:
    pipeline = open_pipe("Count")
    request = {"data": 10_000}
    stream = pipeline.stream(request)
    assert next(stream) == 0
    if way == "close":
        stream.close()
    elif way == "with":
        with stream:
            pass
    else:
        del stream
        gc.collect()
    assert producer.was_closed.wait(10), "the generator was not closed"
    assert "result" not in request
    assert pipeline({"data": 1})["result"] == 0


def test_what_lies_in_the_buffer_comes_before_the_error(open_pipe: Any) -> None:
    @hami.register
    def Breaks(item: dict[str, Any]) -> Iterator[int]:  # noqa: N802
        yield 1
        yield 2
        raise LookupError("no third")

    request: dict[str, Any] = {"data": 0}
    stream = open_pipe("Breaks").stream(request)
    assert [next(stream), next(stream)] == [1, 2]
    with pytest.raises(LookupError, match="no third") as caught:
        next(stream)
    assert "in node `node`, backend `Breaks`, instance 0" in caught.value.__notes__
    assert "result" not in request


def test_a_deadline_ends_a_stream_and_its_producer(open_pipe: Any, producer: Producer) -> None:
    stream = open_pipe("Count").stream({"data": 10_000, "deadline_ms": 50})
    assert producer.is_inside.wait(10)
    assert producer.was_closed.wait(10)  # suspended by its full buffer until the deadline passed
    with pytest.raises(hami.DeadlineExceeded):
        list(stream)


def test_closing_the_pipeline_ends_a_stream(open_pipe: Any, producer: Producer) -> None:
    pipeline = open_pipe("Count")
    stream = pipeline.stream({"data": 10_000})
    assert next(stream) == 0
    pipeline.close(timeout=0)
    with pytest.raises(hami.Closed):
        list(stream)
    assert producer.was_closed.wait(10)


def test_a_stopiteration_of_the_backend_is_no_end_of_the_stream(open_pipe: Any, probe: Any) -> None:
    def stop(item: Any) -> Any:
        raise StopIteration

    probe(work=stop)
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(open_pipe("Probe").stream({"data": 1}))


def test_errors_of_submission_come_at_once(open_pipe: Any) -> None:
    pipeline = open_pipe("Identity")
    with pytest.raises(hami.RequestError):
        pipeline.stream({"data": 1, "request_size": 0})
    pipeline.close()
    with pytest.raises(hami.Closed):
        pipeline.stream({"data": 1})


def test_a_generator_for_batches_is_refused() -> None:
    class Many(hami.Backend):
        batch_range = (1, 8)

        def forward(self, item: Any) -> Iterator[Any]:
            yield item

    with pytest.raises(hami.ConfigError, match="a generator for batches"):
        hami.register("Many", Many)


def test_a_node_cannot_batch_a_generator(producer: Producer) -> None:
    with pytest.raises(hami.BuildError, match="`max` = `4` is above"):
        hami.pipe({"backend": "Count", "max": 4})


# --- async ---


def test_async_iteration_gives_every_partial_result_in_order(open_pipe: Any, producer: Producer) -> None:
    pipeline = open_pipe("Count")

    async def run() -> None:
        request = {"data": 1000}
        assert [result async for result in pipeline.astream(request)] == list(range(1000))
        assert request["result"] == 999
        assert [result async for result in open_pipe("Pow").astream({"data": 3})] == [9]

    asyncio.run(run())


def test_async_iteration_leaves_the_event_loop_free(open_pipe: Any, producer: Producer) -> None:
    producer.gate = threading.Semaphore(0)
    pipeline = open_pipe("Count")

    async def run() -> None:
        results: list[int] = []

        async def consume() -> None:
            async for result in pipeline.astream({"data": 3}):
                results.append(result)

        task = asyncio.create_task(consume())
        for i in range(3):
            producer.gate.release()
            while len(results) <= i:
                await asyncio.sleep(0)
        await task

    asyncio.run(run())


def test_leaving_async_iteration_cancels_the_request(open_pipe: Any, producer: Producer) -> None:
    pipeline = open_pipe("Count")

    async def run() -> None:
        results = pipeline.astream({"data": 10_000})
        async for result in results:
            if result == 3:
                break
        await results.aclose()

    asyncio.run(run())
    assert producer.was_closed.wait(10)


def test_cancelling_the_task_cancels_the_request(open_pipe: Any, producer: Producer) -> None:
    producer.gate = threading.Semaphore(1)
    pipeline = open_pipe("Count")

    async def run() -> None:
        async def consume() -> None:
            async for _ in pipeline.astream({"data": 10_000}):
                pass

        task = asyncio.create_task(consume())
        while not producer.num_yielded:
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    producer.gate.release(10_000)
    assert producer.was_closed.wait(10)


def test_async_iteration_raises_the_error(open_pipe: Any) -> None:
    @hami.register
    def Fails(item: dict[str, Any]) -> Iterator[int]:  # noqa: N802
        yield 1
        raise KeyError("gone")

    async def run() -> list[int]:
        results: list[int] = []
        with pytest.raises(KeyError, match="gone"):
            async for result in open_pipe("Fails").astream({"data": 0}):
                results.append(result)
        return results

    assert asyncio.run(run()) == [1]


# --- many at once ---


def test_many_streams_at_once_keep_apart(open_pipe: Any, in_threads: Any) -> None:
    @hami.register
    def Multiples(item: dict[str, Any]) -> Iterator[int]:  # noqa: N802
        for i in range(300):
            yield i * item["data"]

    pipeline = open_pipe({"backend": "Multiples", "instance_num": 3})

    def consume(index: int) -> None:
        for _ in range(5):
            assert list(pipeline.stream({"data": index})) == [i * index for i in range(300)]

    in_threads(8, consume)
