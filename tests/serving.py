"""A real server for tests: it listens on a free port, in a thread of this process."""

from __future__ import annotations

import http.client
import json
import socket
import threading
from typing import Any
from urllib.parse import urlsplit

import uvloop
from probes import WAIT_S

from hami.serve import Service, Settings
from hami.serve.server import Server


class Served:
    """A server that answers until `stop`. Every call opens a connection of its own."""

    def __init__(self, source: Any, routes: dict[str, Any] | None = None, **settings: Any) -> None:
        self._routes = routes or {}
        self.service = Service.open(source, Settings(**{"timeout_s": WAIT_S, "drain_s": WAIT_S} | settings))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._is_ready.wait(WAIT_S) and self._thread.is_alive(), "the server did not start"

    def _run(self) -> None:
        loop = uvloop.new_event_loop()
        self.loop = loop
        try:
            self.server = Server(self.service, self._note)
            for path, endpoint in self._routes.items():
                self.server.config.app.add_api_route(path, endpoint)
            loop.run_until_complete(self.server.serve([self._listener]))
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            loop.close()
            self._is_ready.set()  # also where it never was: nobody shall wait for that

    def _note(self, address: str) -> None:
        self.url = address
        self.netloc = urlsplit(address).netloc
        self.port = int(self.netloc.rpartition(":")[2])
        self._is_ready.set()

    def begin_to_stop(self) -> None:
        """Do what the first signal does."""
        self.loop.call_soon_threadsafe(self.server.stop)

    def stop(self) -> None:
        """End the server as a signal does, and wait for it."""
        if self._thread.is_alive():
            self.begin_to_stop()
        self._thread.join(WAIT_S * 2)
        assert not self._thread.is_alive(), "the server did not end"
        self.service.pipe.close(timeout=WAIT_S)
        self._listener.close()

    def request(
        self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None
    ) -> Answer:
        """Make one request; a body that is no bytes goes as JSON."""
        headers = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, headers=_header_names(headers))

    def post(self, path: str, body: Any, **headers: str) -> Answer:
        return self.request("POST", path, body, _header_names(headers))

    def connect(self) -> socket.socket:
        """Open a plain connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)

    def exchange(self, data: bytes) -> bytes:
        """Send `data`, and return all that comes until the server closes."""
        with self.connect() as connection:
            connection.sendall(data)
            return read_all(connection)


class Answer:
    """Status, headers and body of a response."""

    def __init__(self, status: int, headers: Any, body: bytes) -> None:
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        """The code of an error, which must have the form that all have."""
        error = self.json
        assert {"error", "code", "help", "where"} <= set(error)
        assert error["error"]
        return str(error["code"])

    def __repr__(self) -> str:
        return f"<{self.status}: {self.body[:300]!r}>"


def _header_names(headers: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "-"): value for name, value in headers.items()}


def read_all(connection: socket.socket) -> bytes:
    """Return what comes until the other side closes; a reset is a close as well."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def read_answer(connection: socket.socket) -> Answer:
    """Return one response of a connection that may stay open."""
    response = http.client.HTTPResponse(connection)
    response.begin()
    return Answer(response.status, response.headers, response.read())


def answers_of(data: bytes) -> list[int]:
    """Return the statuses of the responses in `data`."""
    return [int(part[:3]) for part in data.split(b"HTTP/1.1 ")[1:]]
