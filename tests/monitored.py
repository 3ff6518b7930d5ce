"""What the tests of the monitoring share: a service as the routers see it, on a real socket, and a client.

The routes of other parts of the server are small fakes here, which answer in the documented form.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response, StreamingResponse

import hami
from hami import backend

WAIT_S = 20.0
"""How long a test waits for what must happen; only a failing test takes this long."""


@dataclass
class Served:
    """A pipeline with a name, as the routers get it."""

    pipe: hami.Pipeline
    name: str = "demo"
    settings: Any = field(default_factory=lambda: SimpleNamespace(show_errors=True))
    peers: Any = None
    http_counts: Any = None


@dataclass
class Answer:
    """What came back from the server."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode()

    @property
    def json(self) -> Any:
        """The body as data."""
        return json.loads(self.body)


@contextmanager
def opened_pipes() -> Iterator[Callable[[Any], hami.Pipeline]]:
    """Yield `hami.pipe`; its pipelines are closed at the end, and classes registered meanwhile forgotten."""
    opened: list[hami.Pipeline] = []
    classes = dict(backend._classes)

    def open_one(source: Any) -> hami.Pipeline:
        opened.append(hami.pipe(source))
        return opened[-1]

    try:
        yield open_one
    finally:
        for pipeline in reversed(opened):
            pipeline.close(timeout=10)
        backend._classes.clear()
        backend._classes.update(classes)


@contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an app on a free port of this machine, and yield its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="error", lifespan="off", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=lambda: server.run(sockets=[listener]), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(WAIT_S)
        listener.close()
        assert not thread.is_alive(), "the server hangs"


def ask(address: str, path: str, *, method: str = "GET", body: Any = None, **headers: str) -> Answer:
    """Send one request; `_` in the names of headers stands for `-`."""
    place = urlsplit(address)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=WAIT_S)
    try:
        connection.request(
            method, path, body, {name.replace("_", "-"): text for name, text in headers.items()}
        )
        response = connection.getresponse()
        names = {name.lower(): text for name, text in response.getheaders()}
        return Answer(response.status, names, response.read())
    finally:
        connection.close()


def small_png(width: int = 2, height: int = 2) -> bytes:
    """Return a grey picture."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = (b"\0" + b"\x80" * width) * height
    parts = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def eventually(condition: Callable[[], Any]) -> Any:
    """Return the first true value of `condition()`; fail when it stays false."""
    deadline = time.monotonic() + WAIT_S
    pause = threading.Event()
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition never became true"
        pause.wait(0.005)
    return value


def add_pipeline_routes(app: FastAPI, service: Served) -> None:
    """Add `/v1/pipeline` and `/v1/nodes/{node}`: a JSON object is the request, other bodies its data.

    The answer is the result: bytes as they are, anything else as JSON.
    """

    async def run(request: Request) -> Response:
        body = await request.body()
        is_json = request.headers.get("content-type") == "application/json"
        sent = json.loads(body) if is_json else {"data": body}
        try:
            answer = await service.pipe.acall(sent)
        except Exception as error:
            told = {"error": str(error), "code": "request-failed", "help": "", "where": ""}
            return JSONResponse(told, status_code=422)
        if isinstance(answer["result"], bytes):
            return Response(answer["result"], media_type="application/octet-stream")
        return JSONResponse(answer["result"])

    @app.post("/v1/pipeline")
    async def pipeline(request: Request) -> Response:
        return await run(request)

    @app.post("/v1/nodes/{node}")
    async def node(node: str, request: Request) -> Response:
        answer = await run(request)
        answer.headers["x-node"] = node
        return answer


class FakeChat:
    """`/v1/chat/completions`: streams the pieces that a test gives, each when the test lets it go."""

    def __init__(self, app: FastAPI) -> None:
        self.pieces: list[str] = ["Hel", "lo"]
        self.asked: list[dict[str, Any]] = []
        self.refusal: dict[str, Any] | None = None
        self.is_open = threading.Event()
        self.is_open.set()
        self.num_left = 0

        @app.post("/v1/chat/completions")
        async def chat(request: Request) -> Response:
            self.asked.append(await request.json())
            if self.refusal is not None:
                return JSONResponse({"error": self.refusal}, status_code=400)
            return StreamingResponse(self._stream(request), media_type="text/event-stream")

    async def _stream(self, request: Request) -> AsyncIterator[str]:
        try:
            yield _event({"choices": [{"index": 0, "delta": {"role": "assistant"}}]})
            for place, piece in enumerate(self.pieces):
                if place > 0:
                    while not self.is_open.is_set():
                        await asyncio.sleep(0.005)
                yield _event({"choices": [{"index": 0, "delta": {"content": piece}}]})
            yield _event({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
            yield "data: [DONE]\n\n"
        finally:
            self.num_left += 1


def wait_for(page: Any, condition: str) -> None:
    """Wait until a condition in JavaScript holds; the policy of the page forbids playwright's own way."""
    eventually(lambda: page.evaluate(condition))


def text_of(locator: Any) -> str:
    return str(locator.inner_text())


def send(page: Any, text: str) -> None:
    page.fill("#data", text)
    page.click("#send")
    page.wait_for_selector("#answer .verdict")


def _event(chunk: dict[str, Any]) -> str:
    return f"data: {json.dumps({'object': 'chat.completion.chunk', **chunk})}\n\n"
