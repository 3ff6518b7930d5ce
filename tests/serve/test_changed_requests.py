"""The law of all ways through the server: whatever is changed in a request that it knows, the answers are
those of a server that knows nothing and lets its parser read everything.
"""

from __future__ import annotations

import http.client
import io
from collections.abc import Callable
from typing import Any

import pytest
from direct_requests import ask, post
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from serving import Served, read_all

KNOWN = post("/v1/pipeline", b"abcdef", Traceparent="00-1", X_Request_Id="r1", X_Forwarded_For="10.0.0.1")
LAST = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
# What heads are made of, and what has been used to make two readers disagree.
PARTS = [
    *(
        b"\r\n",
        b"\n",
        b"\r",
        b":",
        b" ",
        b"\t",
        b"\0",
        b"\x7f",
        b"\xff",
        b",",
        b"0",
        b"\r\n\r\n",
        b"HTTP/1.1",
    ),
    *(b"\r\nX-Request-Id: r2", b"\r\ntraceparent: 1", b"\r\n more", b"\r\nX-Request-Id : r2", b"\r\nb3:\t1 "),
    *(b"\r\nContent-Length: 6", b"\r\nContent-Length: 5", b"\r\nTransfer-Encoding: chunked", b"\r\nHost: y"),
    *(b"\r\nConnection: close", b"\r\nExpect: 100-continue", b"\r\nContent-Encoding: gzip"),
]


@st.composite
def changed(draw: Any) -> bytes:
    """The known request with one to three changes."""
    data = bytearray(KNOWN)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        end = draw(st.integers(at, min(len(data), at + 12)))
        kind = draw(st.sampled_from(["insert", "replace", "delete", "flip"]))
        if kind == "insert":
            data[at:at] = draw(st.sampled_from(PARTS))
        elif kind == "replace":
            data[at:end] = draw(st.sampled_from(PARTS) | st.binary(max_size=8))
        elif kind == "delete":
            del data[at:end]
        elif at < len(data):
            data[at] ^= 1 << draw(st.integers(0, 7))
    return bytes(data)


class Received(io.BytesIO):
    """What came, as `http.client` reads it: one response after another."""

    def makefile(self, *_: Any, **__: Any) -> Received:
        return self

    def close(self) -> None:
        """Stay open for the next response."""


def responses(received: bytes) -> list[tuple[int, bytes, str | None]]:
    """Status, body and id of each response; ids that the server made are left out."""
    source = Received(received)
    found = []
    while source.tell() < len(received):
        response = http.client.HTTPResponse(source)  # type: ignore[arg-type]
        response.begin()
        id = response.headers.get("x-request-id", "")
        body = response.read(response.length)
        found.append((response.status, body, id if id.startswith("r") else None))
    return found


@pytest.fixture
def both(serve: Callable[..., Served]) -> list[Served]:
    """A server that knows the request, and one that never learns."""
    knowing, strange = (serve("Identity", timeout_s=1) for _ in range(2))
    strange.server.config.http_protocol_class.direct.learn = lambda *_: None
    for served in (knowing, strange):
        for _ in range(3):
            with served.connect() as connection:
                assert ask(connection, KNOWN).body == b"abcdef"
    return [knowing, strange]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=changed())
def test_a_changed_request_gets_the_answers_of_the_parser(both: list[Served], data: bytes) -> None:
    found = []
    for served in both:
        with served.connect() as connection:
            assert ask(connection, KNOWN).body == b"abcdef"
            try:
                connection.sendall(data)
                connection.sendall(LAST)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it was refused already
            found.append(responses(read_all(connection)))
    assert found[0] == found[1]
