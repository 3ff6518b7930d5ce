"""Laws of clients that go away: what waits for them never runs, and nobody else notices."""

from __future__ import annotations

import json
import logging
import socket
import struct
from typing import Any

import pytest
from serving import Served

HEAD = "POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\nContent-Type: {kind}\r\n\r\n"


def begin(served: Served, body: bytes, path: str = "/v1/pipeline", kind: str = "image/png") -> socket.socket:
    """Send a request, and return the connection on which its answer would come."""
    connection = served.connect()
    connection.sendall(HEAD.format(path=path, size=len(body), kind=kind).encode() + body)
    return connection


def reset(connection: socket.socket) -> None:
    """Close as a process that dies does."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


@pytest.fixture
def busy(serve: Any, probe: Any) -> Any:
    """A server whose only instance is busy; its probe, and what keeps it busy."""
    seen = probe("Seen", lambda item: "done")
    served = serve("Seen")
    return served, seen, seen.plug(served.service.pipe)


@pytest.mark.parametrize("end", [socket.socket.close, reset])
def test_a_request_that_waits_never_runs(busy: Any, eventually: Any, waiting_at: Any, end: Any) -> None:
    served, seen, plug = busy
    connection = begin(served, b"gone")
    eventually(lambda: waiting_at(served) == 1)
    end(connection)
    eventually(lambda: served.service.num_running == 0)
    seen.open()
    assert plug.result(10)["result"] == "done"
    assert served.post("/v1/pipeline", b"next").json == "done"
    assert seen.items == ["plug", b"next"]


def test_each_request_of_a_batch_of_bytes_is_cancelled(busy: Any, eventually: Any, waiting_at: Any) -> None:
    served, seen, plug = busy
    tensor = {"name": "data", "datatype": "BYTES", "shape": [5], "data": list("abcde")}
    body = json.dumps({"inputs": [tensor]}).encode()
    connection = begin(served, body, "/v2/models/pipeline/infer", "application/json")
    eventually(lambda: waiting_at(served) == 5)
    connection.close()
    eventually(lambda: served.service.num_running == 0)
    seen.open()
    assert plug.result(10)
    served.service.pipe.close()
    assert seen.items == ["plug"]


def test_a_request_that_runs_is_let_go(serve: Any, probe: Any, eventually: Any) -> None:
    seen = probe("Seen", lambda item: "done")
    served = serve("Seen")
    seen.shut()
    connection = begin(served, b"runs")
    seen.wait_for_runs(1)
    connection.close()
    eventually(lambda: served.service.num_running == 0)
    seen.open()
    assert served.post("/v1/pipeline", b"next").json == "done"


def test_one_that_goes_away_takes_nobody_along(busy: Any, eventually: Any, waiting_at: Any) -> None:
    served, seen, _plug = busy
    goes = begin(served, b"goes")
    with begin(served, b"stays") as stays:
        eventually(lambda: waiting_at(served) == 2)
        goes.close()
        eventually(lambda: served.service.num_running == 1)
        seen.open()
        assert stays.recv(65536).startswith(b"HTTP/1.1 200 ")
    assert seen.items == ["plug", b"stays"]


def test_it_is_a_line_in_the_log_and_no_error(
    busy: Any, eventually: Any, waiting_at: Any, caplog: Any
) -> None:
    served, _seen, _plug = busy
    caplog.set_level(logging.INFO)
    connection = begin(served, b"gone")
    eventually(lambda: waiting_at(served) == 1)
    connection.close()
    eventually(lambda: [one for one in caplog.records if one.name == "hami.access"])
    (line,) = [json.loads(one.getMessage()) for one in caplog.records if one.name == "hami.access"]
    assert (line["status"], line["bytes"]) == (499, 0)
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


def test_one_that_goes_away_within_its_body_is_no_error(serve: Any, eventually: Any, caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    served = serve("Identity")
    with served.connect() as connection:
        connection.sendall(HEAD.format(path="/v1/pipeline", size=100, kind="image/png").encode() + b"half")
        eventually(lambda: served.service.num_running == 1)
    eventually(lambda: served.service.num_running == 0)
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


def test_one_that_goes_away_within_a_form_is_no_error(serve: Any, eventually: Any, caplog: Any) -> None:
    caplog.set_level(logging.INFO)
    served = serve("Identity")
    kind = "multipart/form-data; boundary=b"
    with served.connect() as connection:
        connection.sendall(HEAD.format(path="/v1/pipeline", size=100, kind=kind).encode() + b"--b\r\n")
        eventually(lambda: served.service.num_running == 1)
    eventually(lambda: served.service.num_running == 0)
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


def test_many_that_come_and_go_leave_nothing_behind(
    serve: Any, eventually: Any, probe: Any, waiting_at: Any
) -> None:
    seen = probe("Seen", lambda item: "done", batch_range=(1, 8))
    served = serve({"backend": "Seen"})
    for round in range(60):
        connection = begin(served, b"x" * round)
        (reset if round % 2 else socket.socket.close)(connection)
    assert served.post("/v1/pipeline", b"last").json == "done"
    eventually(lambda: served.service.num_running == 0)
    eventually(lambda: waiting_at(served) == 0)
    assert seen.items[-1] == b"last"


def test_a_connection_whose_client_is_gone_between_requests_is_no_request(serve: Any) -> None:
    served = serve("Identity")
    with served.connect() as connection:
        connection.sendall(HEAD.format(path="/v1/pipeline", size=1, kind="image/png").encode() + b"x")
        assert connection.recv(65536)
    assert served.post("/v1/pipeline", b"y").body == b"y"
