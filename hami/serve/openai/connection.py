"""The client's end of a call: whether it is still there, and events that go no faster than it reads.

A client that goes away cancels what runs for it. `send` waits while a client does not read, so that nothing
is taken out of the pipeline for it either; the node adds up what comes meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

_T = TypeVar("_T")


class ClientGone(Exception):  # noqa: N818  nobody did anything wrong
    """The client has closed its connection."""


async def while_connected(receive: Receive, work: Coroutine[Any, Any, _T]) -> _T:
    """Return what `work` returns; a client that goes away cancels it, which raises ClientGone."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientGone
        return working.result()
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


class EventStream(StreamingResponse):
    """Sends events, and ends their generator however the sending ends."""

    media_type = "text/event-stream"

    def __init__(self, events: AsyncGenerator[bytes]) -> None:
        super().__init__(events, headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        self._events = events

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with contextlib.aclosing(self._events):
            with contextlib.suppress(ClientGone):
                await while_connected(receive, self.stream_response(send))


async def _disconnect(receive: Receive) -> None:
    """Wait until the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
