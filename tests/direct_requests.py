"""Requests as bytes on plain connections, for tests of what takes the short way through the server."""

from __future__ import annotations

import socket

from serving import Answer, Served, read_answer

SEEN = {"seen": {"backend": "Seen"}}
"""A pipeline of one probe, which runs one request at a time."""


def post(path: str, body: bytes, kind: str = "image/png", **headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Type: {kind}", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


def ask(connection: socket.socket, data: bytes) -> Answer:
    connection.sendall(data)
    return read_answer(connection)


REQUEST = post("/v1/pipeline", b"x")


def learn(served: Served, data: bytes = REQUEST) -> None:
    with served.connect() as connection:
        ask(connection, data)
