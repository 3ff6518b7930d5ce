"""What a worker and its parent say to each other, and how it goes through a socket."""

from __future__ import annotations

import asyncio
import pickle
import socket
import struct
from dataclasses import dataclass
from typing import Any

from ..settings import Settings

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True)
class Start:
    """To a new worker: what to serve, as which one, and how often that one was started."""

    number: int
    num_starts: int
    source: Any
    settings: Settings
    log_level: str


@dataclass(frozen=True)
class Ready:
    """From a worker: it listens."""


@dataclass(frozen=True)
class Failed:
    """From a worker: it could not start. `text` is what a command prints, `status` how it exits."""

    text: str
    status: int


@dataclass(frozen=True)
class Stop:
    """To a worker: the whole server ends."""


@dataclass(frozen=True)
class Ask:
    """From a worker: what do the others say about a topic? `id` comes back in the answer."""

    id: int
    topic: str


@dataclass(frozen=True)
class Question:
    """To a worker: what do you say about a topic?"""

    topic: str


@dataclass(frozen=True)
class Answer:
    """From a worker: what it says, as bytes that only workers read."""

    topic: str
    said: bytes


@dataclass(frozen=True)
class Member:
    """One worker as the parent knows it. `said` is None where it gave no answer.

    `state`: `running`, or in words why it is not there (`is starting`). `num_starts` counts processes.
    """

    number: int
    pid: int | None
    state: str
    num_starts: int
    said: bytes | None = None


@dataclass(frozen=True)
class Told:
    """To a worker that has asked: all workers but itself."""

    id: int
    members: tuple[Member, ...]


def send_now(line: socket.socket, message: Any) -> None:
    """Send a message before there is an event loop. Raises OSError."""
    line.sendall(_framed(message))


def receive_now(line: socket.socket) -> Any:
    """Return a message before there is an event loop. Raises EOFError and OSError."""
    (size,) = _LENGTH.unpack(_exactly(line, _LENGTH.size))
    return pickle.loads(_exactly(line, size))


def _framed(message: Any) -> bytes:
    data = pickle.dumps(message)
    return _LENGTH.pack(len(data)) + data


def _exactly(line: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        part = line.recv(size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


class Line:
    """One end of the line on an event loop. Nobody waits to send: whoever does not read harms only itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, end: socket.socket) -> Line:
        """Return the line whose end is `end`, which belongs to it from then on."""
        end.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=end))

    def send(self, message: Any) -> None:
        """Send a message; where nobody listens any more it is lost."""
        if not self._writer.is_closing():
            self._writer.write(_framed(message))

    async def receive(self) -> Any:
        """Return the next message, None at the end of the line."""
        try:
            (size,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
            return pickle.loads(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, OSError):
            return None

    def close(self) -> None:
        """Let the other side know that this one is gone."""
        self._writer.close()
