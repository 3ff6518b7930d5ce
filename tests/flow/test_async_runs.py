"""Laws of coroutines under way: cancelled when unwanted, and fit for real asyncio code."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from async_meeting import Meeting, loop_threads

import hami

FOR_EVER_MS = 600_000
WAIT_S = 10.0

Batch = list[dict[str, Any]]


@pytest.fixture
def meeting() -> Meeting:
    """Return a Meeting with the backend `Meets`, which waits there and answers with its data."""
    place = Meeting()

    @hami.register("Meets")
    class Meets(hami.Backend):
        async def forward(self, batch: Batch) -> list[Any]:
            await place.wait([item["data"] for item in batch])
            return [item["data"] for item in batch]

    return place


# --- cancellation ---------------------------------------------------------------------------------


def test_a_run_that_nobody_wants_is_cancelled(open_pipe: Any, meeting: Meeting, eventually: Any) -> None:
    pipeline = open_pipe("Meets")
    future = pipeline.submit({"data": 1})
    assert eventually(lambda: meeting.num_inside == 1)
    assert future.cancel()
    assert eventually(lambda: meeting.cancelled == [[1]])


def test_a_deadline_cancels_the_run(open_pipe: Any, meeting: Meeting, eventually: Any) -> None:
    pipeline = open_pipe("Meets")
    with pytest.raises(hami.DeadlineExceeded):
        pipeline({"data": 1, "deadline_ms": 50})
    assert eventually(lambda: meeting.cancelled == [[1]])


def test_a_run_goes_on_while_one_of_its_items_is_wanted(
    open_pipe: Any, meeting: Meeting, eventually: Any
) -> None:
    pipeline = open_pipe({"backend": "Meets", "min": 2, "max": 2, "batching_timeout": FOR_EVER_MS})
    gone, stays = (pipeline.submit({"data": i}) for i in range(2))
    assert eventually(lambda: meeting.num_inside == 1)
    gone.cancel()
    meeting.open()
    assert stays.result(WAIT_S)["result"] == 1
    assert meeting.cancelled == [] and meeting.ended == [[0, 1]]


def test_a_cancelled_instance_serves_the_next_request(
    open_pipe: Any, meeting: Meeting, eventually: Any
) -> None:
    pipeline = open_pipe("Meets")
    first = pipeline.submit({"data": 1})
    assert eventually(lambda: meeting.num_inside == 1)
    first.cancel()
    second = pipeline.submit({"data": 2})
    assert eventually(lambda: meeting.num_inside == 1 and meeting.cancelled == [[1]])
    meeting.open()
    assert second.result(WAIT_S)["result"] == 2


def test_a_failed_sibling_of_for_each_cancels_the_run(
    open_pipe: Any, meeting: Meeting, eventually: Any
) -> None:
    class Fails(hami.Backend):
        async def forward(self, batch: Batch) -> list[Any]:
            if batch[0]["data"] == "bad":
                await eventually_inside()
                raise ValueError("bad")
            await meeting.wait("good")
            return [0 for _ in batch]

    async def eventually_inside() -> None:
        while meeting.num_inside == 0:
            await asyncio.sleep(0)

    hami.register("Fails", Fails)
    pipeline = open_pipe(
        {"each": {"backend": "ForEach(target=work)"}, "work": {"backend": "Fails", "instance_num": 2}}
    )
    with pytest.raises(ValueError, match="bad"):
        pipeline({"data": ["bad", "good"]})
    assert eventually(lambda: meeting.cancelled == ["good"])


def test_close_cancels_what_runs(open_pipe: Any, meeting: Meeting, eventually: Any) -> None:
    before = loop_threads()
    pipeline = open_pipe("Meets")
    future = pipeline.submit({"data": 1})
    assert eventually(lambda: meeting.num_inside == 1)
    pipeline.close(timeout=0)
    assert isinstance(future.exception(WAIT_S), hami.Closed)
    assert eventually(lambda: meeting.cancelled == [[1]] and loop_threads() == before)


def test_many_cancels_and_answers_race_without_harm(open_pipe: Any, in_threads: Callable[..., Any]) -> None:
    async def pauses(batch: Batch) -> list[Any]:
        await asyncio.gather(*(asyncio.sleep(0) for _ in batch))
        return [item["data"] for item in batch]

    hami.register("pauses", pauses)
    pipeline = open_pipe({"backend": "pauses", "instance_num": 4, "max": 2})

    def call(thread: int) -> None:
        for i in range(50):
            future = pipeline.submit({"data": (thread, i)})
            if i % 3 and future.cancel():
                assert future.cancelled()
            else:
                assert future.result(WAIT_S)["result"] == (thread, i)

    in_threads(6, call)
    assert pipeline({"data": "alive"})["result"] == "alive"


# --- real asyncio code ----------------------------------------------------------------------------


def test_a_backend_talks_http_with_many_requests_in_flight(open_pipe: Any) -> None:
    @hami.register
    class Serves(hami.Backend):
        """Ask a local server, which answers only once two requests are there."""

        async def forward(self, batch: Batch) -> list[str]:
            return list(await asyncio.gather(*(self.get(item["data"]) for item in batch)))

        async def get(self, path: str) -> str:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET /{path} HTTP/1.0\r\n\r\n".encode())
            await writer.drain()
            answer = await asyncio.wait_for(reader.read(), WAIT_S)
            writer.close()
            await writer.wait_closed()
            return answer.decode().split("\r\n\r\n")[1]

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal num_open
        path = (await reader.readline()).split()[1].decode()
        num_open += 1
        if num_open == 2:
            both.set()
        await both.wait()
        writer.write(f"HTTP/1.0 200 OK\r\n\r\nyou asked for {path}".encode())
        await writer.drain()
        writer.close()

    async def serve() -> None:
        nonlocal port, both
        both = asyncio.Event()
        stop = asyncio.Event()
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        stops.append((asyncio.get_running_loop(), stop))
        is_up.set()
        async with server:
            await stop.wait()

    num_open, port, both = 0, 0, asyncio.Event()
    is_up, stops = threading.Event(), []
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert is_up.wait(WAIT_S)
    try:
        pipeline = open_pipe({"backend": "Serves", "instance_num": 2})
        futures = [pipeline.submit({"data": name}) for name in ("a", "b", "c")]
        answers = [future.result(WAIT_S)["result"] for future in futures]
    finally:
        loop, stop = stops[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join(WAIT_S)
    assert answers == ["you asked for /a", "you asked for /b", "you asked for /c"]


def test_an_async_backend_awaits_another_pipeline(open_pipe: Any) -> None:
    inner = open_pipe({"backend": "Identities", "max": 8})

    async def outer(batch: Batch) -> list[Any]:
        answers = await asyncio.gather(*(inner.acall({"data": item["data"]}) for item in batch))
        return [answer["result"] for answer in answers]

    hami.register("outer", outer)
    pipeline = open_pipe({"backend": "outer", "max": 4})
    assert [answer["result"] for answer in pipeline([{"data": i} for i in range(10)])] == list(range(10))


def test_async_close_runs_on_the_loop_of_the_node(open_pipe: Any) -> None:
    seen: list[Any] = []

    @hami.register
    class Session(hami.Backend):
        async def forward(self, batch: Batch) -> list[int]:
            seen.append(asyncio.get_running_loop())
            return [0 for _ in batch]

        async def close(self) -> None:
            await asyncio.sleep(0)
            seen.append(asyncio.get_running_loop())

    pipeline = open_pipe("Session")
    pipeline({"data": 0})
    pipeline.close()
    assert len(seen) == 2 and seen[0] is seen[1]
