"""What the tests of OpenAI's API share: pipelines behind a real server on a real socket, and its clients.

It skips whoever imports it where something is not installed, and so has to be the first to import it: tests
take the fake engines from here.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs torch, which is not installed")
pytest.importorskip("fastapi", reason="needs fastapi, which is not installed")
pytest.importorskip("uvicorn", reason="needs uvicorn, which is not installed")
openai = pytest.importorskip("openai", reason="needs openai, which is not installed")

import uvicorn  # noqa: E402
from fastapi import FastAPI  # noqa: E402
from llm_engines import ByteTokenizer, Gate, Hooked, Script, fake_engine  # noqa: E402
from llm_samples import SMOLLM2  # noqa: E402

import hami  # noqa: E402
from hami.backends.llm import nodes  # noqa: E402
from hami.backends.llm.engine import Engine  # noqa: E402
from hami.serve.openai import router  # noqa: E402

__all__ = [
    "GREEDY",
    "MODEL",
    "SETTINGS",
    "WAIT_S",
    "ByteTokenizer",
    "Gate",
    "Hooked",
    "Script",
    "Served",
    "Service",
    "events_of",
    "fake_engine",
    "fake_node",
    "openai",
    "read_all",
    "served",
]

WAIT_S = 60.0
MODEL = "answer"
GREEDY = {"temperature": 0.0, "max_tokens": 24}
SETTINGS = {
    "backend": "LLM",
    "model": str(SMOLLM2),
    "dtype": "float32",
    "max_model_len": 512,
    "num_pages": 256,
}
SMALL_BUFFER = 4096


@dataclass
class Service:
    """All that the API may use of a service."""

    pipe: hami.Pipeline
    name: str = "demo"


@dataclass
class Served:
    """A pipeline behind a server. `engine` is that of its node; `llm` is the same engine's other face."""

    url: str
    pipe: hami.Pipeline
    engine: Engine
    llm: hami.LLM
    client: Any

    def connect(self) -> Any:
        """Return a client for asyncio."""
        return openai.AsyncOpenAI(base_url=self.url, api_key="none", max_retries=0, timeout=WAIT_S)

    def post(self, path: str, body: Any) -> socket.socket:
        """Send a request and read nothing; the socket takes little before it must be read."""
        host, port = self.address
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
        connection.settimeout(WAIT_S)
        connection.connect((host, port))
        head = f"POST /v1/{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(raw)}\r\nConnection: close\r\n\r\n".encode() + raw)
        return connection

    @property
    def address(self) -> tuple[str, int]:
        """Where the server listens."""
        host, _, port = self.url.removeprefix("http://").removesuffix("/v1").partition(":")
        return host, int(port)

    def wait_until_idle(self) -> dict[str, Any]:
        """Return the engine's figures once nothing runs in it; each look waits for a step."""
        while (stats := self.engine.stats())["running"] or stats["waiting"]:
            pass
        return stats

    def wait_until_running(self) -> None:
        """Wait until something runs in the engine."""
        while not self.engine.stats()["running"]:
            pass


@contextlib.contextmanager
def serving(pipe: hami.Pipeline, name: str = "demo") -> Iterator[str]:
    """Serve a pipeline on a free port of this machine; gives the address for clients."""
    app = FastAPI()
    app.include_router(router(Service(pipe, name)))
    listener = socket.create_server(("127.0.0.1", 0))  # clients may connect before the server looks
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL_BUFFER)
    config = uvicorn.Config(app, log_level="warning", lifespan="off", ws="none", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="server")
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join(WAIT_S)
        listener.close()


@contextlib.contextmanager
def served(source: Any, engine: Engine | None = None, name: str = "demo") -> Iterator[Served]:
    """Build a pipeline with one language model and serve it; `engine` takes the place of a real model."""
    made: list[Engine] = []
    load = nodes.load_engine

    def note(*arguments: Any) -> Engine:
        made.append(engine or load(*arguments))
        return made[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodes, "load_engine", note)
        pipe = hami.pipe(source)
    with pipe, serving(pipe, name) as url:
        client = openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=WAIT_S)
        with client:
            yield Served(url, pipe, made[0], hami.LLM.of_engine(made[0]), client)


def fake_node(**keys: Any) -> dict[str, Any]:
    """Return a pipeline whose model is a fake engine."""
    return {MODEL: {"backend": "LLM", "model": "fake", **keys}}


def events_of(raw: bytes) -> list[Any]:
    """Return what the events of a raw answer say: JSON, or `[DONE]`."""
    body = b"".join(chunk for chunk in _chunks(raw.partition(b"\r\n\r\n")[2]))
    lines = [line.removeprefix("data: ") for line in body.decode().split("\n\n") if line]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def _chunks(rest: bytes) -> Iterator[bytes]:
    """Yield the pieces of a body that is sent in chunks."""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        yield rest[:length]
        rest = rest[length + 2 :]


def read_all(connection: socket.socket) -> bytes:
    """Read until the server closes."""
    pieces = []
    while piece := connection.recv(1 << 16):
        pieces.append(piece)
    return b"".join(pieces)
