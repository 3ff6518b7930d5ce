"""Laws of answers that come in parts, as features of the server send them: time, errors, clients that go."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from fastapi.responses import StreamingResponse
from serving import read_all, read_answer

SHORT_S = 0.4
"""The time limit of tests in which it must pass."""
ASK = b"GET /parts HTTP/1.1\r\nHost: x\r\n\r\n"


def route_of(parts: Callable[[], AsyncIterator[bytes]]) -> dict[str, Any]:
    """Return a route that answers with these parts."""

    async def endpoint() -> StreamingResponse:
        return StreamingResponse(parts(), media_type="text/plain")

    return {"/parts": endpoint}


def ask(served: Any) -> socket.socket:
    connection = served.connect()
    connection.sendall(ASK)
    return connection


def test_a_stream_may_last_longer_than_the_limit_if_it_goes_on(serve: Any) -> None:
    async def parts() -> AsyncIterator[bytes]:
        for _ in range(8):
            await asyncio.sleep(SHORT_S / 4)
            yield b"x"

    with ask(serve("Identity", routes=route_of(parts), timeout_s=SHORT_S)) as connection:
        assert read_answer(connection).body == b"x" * 8


def test_a_stream_that_stands_still_is_cut_off_and_looks_so(serve: Any, eventually: Any) -> None:
    ended = threading.Event()

    async def parts() -> AsyncIterator[bytes]:
        yield b"first"
        try:
            await asyncio.Event().wait()  # for ever
        finally:
            ended.set()

    served = serve("Identity", routes=route_of(parts), timeout_s=SHORT_S)
    with ask(served) as connection:
        received = read_all(connection)
    assert b"first" in received
    assert not received.endswith(b"0\r\n\r\n")
    assert ended.wait(10)
    eventually(lambda: served.service.num_running == 0)


def test_a_stream_that_raises_is_cut_off_and_logged(serve: Any, caplog: Any) -> None:
    async def parts() -> AsyncIterator[bytes]:
        yield b"first"
        raise ValueError("in the middle")

    with caplog.at_level(logging.ERROR), ask(serve("Identity", routes=route_of(parts))) as connection:
        received = read_all(connection)
    assert b"first" in received
    assert not received.endswith(b"0\r\n\r\n")
    assert b"in the middle" not in received
    assert [one.name for one in caplog.records] == ["hami.serve"]


def test_a_stream_whose_client_goes_is_ended(serve: Any, eventually: Any, caplog: Any) -> None:
    ended = threading.Event()

    async def parts() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"x"
                await asyncio.sleep(0.001)
        finally:
            ended.set()

    served = serve("Identity", routes=route_of(parts))
    with caplog.at_level(logging.WARNING):
        with ask(served) as connection:
            assert connection.recv(1)
        assert ended.wait(10)
        eventually(lambda: served.service.num_running == 0)
    assert caplog.records == []


def test_a_client_that_does_not_read_holds_nothing_for_ever(serve: Any, eventually: Any) -> None:
    async def parts() -> AsyncIterator[bytes]:
        while True:
            yield bytes(1 << 20)

    served = serve("Identity", routes=route_of(parts), timeout_s=SHORT_S)
    with ask(served) as connection:
        eventually(lambda: served.service.num_running == 1)
        eventually(lambda: served.service.num_running == 0)
        read_all(connection)


@pytest.mark.parametrize("error", [ValueError("private"), KeyError("private"), asyncio.CancelledError()])
def test_what_a_route_raises_before_it_answers_is_500(serve: Any, error: BaseException) -> None:
    async def endpoint() -> None:
        raise error

    served = serve("Identity", routes={"/parts": endpoint})
    if isinstance(error, asyncio.CancelledError):
        with ask(served) as connection:
            assert b"private" not in connection.recv(65536)
    else:
        answer = served.get("/parts")
        assert (answer.status, answer.code) == (500, "serve-internal")
        assert b"private" not in answer.body
    assert served.get("/v2/health/live").status == 200
