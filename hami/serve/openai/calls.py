"""One call of a client: its requests run in the pipeline, and their answers go back whole or as events."""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from fastapi import Request
from fastapi.responses import Response

from hami.pipeline import Pipeline

from .connection import ClientGone, EventStream, while_connected
from .errors import api_error
from .shapes import Part, Shape, parts_of, usage_of

DONE = b"data: [DONE]\n\n"
CLIENT_GONE = 499

Parts = AsyncGenerator[tuple[int, Part]]


def to_json(value: Any) -> bytes:
    """Return JSON; a lone surrogate, which no UTF-8 can have, becomes `?`."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


@dataclass
class Call:
    """What is asked of one model: `items` are the requests of the pipeline, one for each prompt.

    `names` are the client's names of parameters, for errors.
    """

    model: str
    items: list[dict[str, Any]]
    shape: Shape
    names: dict[str, str]
    is_streamed: bool = False
    has_usage: bool = False
    only_scores: bool = False
    created: int = field(default_factory=lambda: int(time.time()))

    def __post_init__(self) -> None:
        self._id = f"{self.shape.prefix}{secrets.token_hex(12)}"

    async def respond(self, pipe: Pipeline, request: Request) -> Response:
        """Run it. Raises ApiError while nothing has been sent; a client that has gone gets nothing."""
        try:
            if self.is_streamed:
                return await self._stream(pipe, request)
            answers = await while_connected(request.receive, answer_all(pipe, self.items))
        except ClientGone:
            return Response(status_code=CLIENT_GONE)
        except Exception as error:
            raise api_error(error, self.names) from error
        return Response(to_json(self._whole(answers)), media_type="application/json")

    def _whole(self, answers: list[dict[str, Any]]) -> dict[str, Any]:
        choices = [
            self.shape.choice(number, part)
            for number, answer in enumerate(answers)
            for part in parts_of(answer)
        ]
        return {**self._head(self.shape.whole), "choices": choices, "usage": self._usage()}

    async def _stream(self, pipe: Pipeline, request: Request) -> Response:
        """Return the events, once there is a first part: until then an error has a status of its own."""
        parts = merged([parts_while_running(pipe, item) for item in self.items])
        try:
            first = await while_connected(request.receive, _first(parts))
        except BaseException:
            await parts.aclose()
            raise
        return EventStream(self._events(first, parts))

    async def _events(self, first: tuple[int, Part], parts: Parts) -> AsyncGenerator[bytes]:
        head = self._head(self.shape.piece)
        if self.has_usage:
            head["usage"] = None
        try:
            async with contextlib.aclosing(parts):
                yield self._chunks(head, *first)
                async for number, part in parts:
                    yield self._chunks(head, number, part)
            if self.has_usage:
                yield _event({**head, "choices": [], "usage": self._usage()})
            yield DONE
        except Exception as error:
            yield _event(api_error(error, self.names).body())

    def _chunks(self, head: dict[str, Any], number: int, part: Part) -> bytes:
        return b"".join(_event({**head, "choices": [delta]}) for delta in self.shape.deltas(number, part))

    def _head(self, object: str) -> dict[str, Any]:
        return {"id": self._id, "object": object, "created": self.created, "model": self.model}

    def _usage(self) -> dict[str, Any]:
        usage = usage_of(self.items)
        if self.only_scores:
            usage |= {"completion_tokens": 0, "total_tokens": usage["prompt_tokens"]}
        return usage


async def answer_all(pipe: Pipeline, items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the answers of all; when one fails the others are cancelled."""
    running = [asyncio.ensure_future(pipe.acall(item)) for item in items]
    try:
        return list(await asyncio.gather(*running))
    finally:
        for task in running:
            task.cancel()


async def parts_while_running(pipe: Pipeline, item: dict[str, Any]) -> AsyncGenerator[Part]:
    """Yield what is new of each completion; all at once where the node does not stream.

    A node with others behind it does not, nor does a search.
    """
    has_parts = False
    async with contextlib.aclosing(pipe.astream(item)) as stream:
        async for part in stream:
            if isinstance(part, dict) and "finish_reason" in part:
                has_parts = True
                yield part
    if not has_parts:
        for part in parts_of(item):
            yield part


async def merged(streams: list[AsyncGenerator[Part]]) -> Parts:
    """Yield the parts of all streams as they come, each with the number of its stream."""
    if len(streams) == 1:
        async with contextlib.aclosing(streams[0]) as only:
            async for part in only:
                yield 0, part
        return
    waiting = {_coming(stream): number for number, stream in enumerate(streams)}
    try:
        while waiting:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                number, found = waiting.pop(task), task.result()
                if found is not None:
                    waiting[_coming(streams[number])] = number
                    yield number, found
    finally:
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        for stream in streams:
            await stream.aclose()


def _coming(stream: AsyncGenerator[Part]) -> asyncio.Task[Part | None]:
    """Start to wait for the next part, or for None at the end."""

    async def wait() -> Part | None:
        return await anext(stream, None)

    return asyncio.create_task(wait())


async def _first(parts: Parts) -> tuple[int, Part]:
    return await anext(parts)


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + to_json(data) + b"\n\n"
