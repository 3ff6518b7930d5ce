"""Laws of the short way: a request under a known head is answered as on the long one; nothing else takes it.

The first request of a connection is read by the parser; the same head again goes the short way.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import socket
import struct
import termios
from typing import Any

import numpy as np
import pytest
from direct_requests import SEEN, ask, post
from serving import Answer, answers_of, read_all, read_answer


def lasting(answer: Answer) -> tuple[Any, ...]:
    """What two answers to the same request have in common, in any order of headers."""
    headers = {name.lower(): value for name, value in answer.headers.items()}
    assert headers.pop("x-request-id")
    headers.pop("date", None)
    body = answer.body
    if answer.status == 500 and answer.code == "serve-internal":
        body = answer.json["error"].partition(" under ")[0].encode()  # behind it is an id, new each time
        headers.pop("content-length")
    return answer.status, headers, body


def tensors(*shape: int, as_bytes: bool = True, **more: Any) -> tuple[bytes, dict[str, str]]:
    """A request of the Open Inference Protocol for numbers, and its headers."""
    numbers = np.arange(np.prod(shape), dtype=np.float32)
    tensor: dict[str, Any] = {"name": "data", "datatype": "FP32", "shape": list(shape)}
    if not as_bytes:
        return json.dumps({"inputs": [{**tensor, "data": numbers.tolist()}], **more}).encode(), {}
    tensor["parameters"] = {"binary_data_size": numbers.nbytes}
    text = json.dumps({"inputs": [tensor], **more}).encode()
    return text + numbers.tobytes(), {"Inference_Header_Content_Length": str(len(text))}


BINARY = {"parameters": {"binary_data_output": True}}
INFER = "/v2/models/seen/infer"


def infer(shape: tuple[int, ...], path: str = INFER, **more: Any) -> bytes:
    body, headers = tensors(*shape, **more)
    return post(path, body, **headers)


REQUESTS = {
    "bytes": post("/v1/pipeline", b"abc"),
    "no body": post("/v1/pipeline", b""),
    "JSON": post("/v1/pipeline", b'{"data": [1, 2.5]}', "application/json; charset=utf-8"),
    "a node": post("/v1/nodes/seen", b'{"data": 3}', "application/json"),
    "JSON that is none": post("/v1/pipeline", b'{"data"', "application/json"),
    "JSON that is no object": post("/v1/pipeline", b"[1]", "application/json"),
    "an event": post("/v1/pipeline", b'{"data": 1, "event": 2}', "application/json"),
    "an error of the backend": post("/v1/pipeline", b"raise"),
    "a result without a form": post("/v1/pipeline", b"object"),
    "tensors": infer((2, 3), **BINARY),
    "tensors, JSON back": infer((4,)),
    "tensors as JSON": post(INFER, tensors(2, 2, as_bytes=False)[0], "application/json"),
    "tensors with an id": infer((2,), id="mine"),
    "a version": infer((2,), "/v2/models/seen/versions/1/infer"),
    "tensors cut short": post(INFER, tensors(4)[0][:-1], **tensors(4)[1]),
    "a header of no size": post(INFER, b"{}", Inference_Header_Content_Length="many"),
}


def answer(item: dict[str, Any]) -> Any:
    data = item["data"]
    if isinstance(data, bytes) and data == b"raise":
        raise RuntimeError("private")
    return object() if isinstance(data, bytes) and data == b"object" else data


@pytest.mark.parametrize("data", REQUESTS.values(), ids=REQUESTS)
def test_the_answer_is_that_of_the_long_way(
    serve: Any, probe: Any, taken: list[str], eventually: Any, data: bytes
) -> None:
    probe("Seen", answer)
    served = serve(SEEN)
    with served.connect() as connection:
        first, second, third = (ask(connection, data) for _ in range(3))
    eventually(lambda: len(taken) == 2)
    assert lasting(first) == lasting(second) == lasting(third)


LONG_WAY = {
    "another method": b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a query": post("/v1/pipeline?output=result", b"abc"),
    "a path with percent signs": post("/v1/nodes/%73een", b"abc"),
    "an unknown node": post("/v1/nodes/lost", b"abc"),
    "a packed body": post("/v1/pipeline", b"abc", Content_Encoding="identity"),
    "a form": post("/v1/pipeline", b"data=1", "application/x-www-form-urlencoded"),
    "chunks": post("/v1/pipeline", b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
    + b"0\r\n\r\n",
    "many requests in one": post(
        INFER,
        b'{"inputs": [{"name": "data", "datatype": "BYTES", "shape": [2], "data": ["a", "b"]}]}',
        "application/json",
    ),
}


@pytest.mark.parametrize("data", LONG_WAY.values(), ids=LONG_WAY)
def test_what_needs_more_goes_the_long_way(serve: Any, probe: Any, taken: list[str], data: bytes) -> None:
    probe("Seen", lambda item: b"done")
    with serve(SEEN).connect() as connection:
        statuses = {ask(connection, data).status for _ in range(3)}
    assert len(statuses) == 1
    assert taken == []


def test_a_last_request_closes_the_connection_each_time(serve: Any, taken: list[str]) -> None:
    served = serve("Identity")
    for _ in range(3):
        assert answers_of(served.exchange(post("/v1/pipeline", b"x", Connection="close"))) == [200]
    assert taken == []


def test_the_old_version_of_http_closes_the_connection_each_time(serve: Any, taken: list[str]) -> None:
    served = serve("Identity")
    for _ in range(3):
        data = post("/v1/pipeline", b"x").replace(b"HTTP/1.1", b"HTTP/1.0")
        assert answers_of(served.exchange(data)) == [200]
    assert taken == []


def test_every_connection_profits_from_what_one_has_taught(
    serve: Any, taken: list[str], eventually: Any
) -> None:
    served = serve("Identity")
    for _ in range(3):
        with served.connect() as connection:
            assert ask(connection, post("/v1/pipeline", b"x")).body == b"x"
    eventually(lambda: len(taken) == 2)


def test_the_bodies_are_those_of_each_request(serve: Any, taken: list[str], eventually: Any) -> None:
    with serve("Identity").connect() as connection:
        for number in range(20):
            body = b"%04d" % number
            assert ask(connection, post("/v1/pipeline", body)).body == body
    eventually(lambda: len(taken) == 19)


def test_tensors_under_one_head_may_differ_in_shape_and_order(
    serve: Any, probe: Any, taken: list[str], eventually: Any
) -> None:
    probe("Seen", lambda item: item["data"] * 2)
    with serve(SEEN).connect() as connection:
        for shape in ((2, 3), (3, 2), (2, 3), (3, 2), (3, 2)):
            got = ask(connection, infer(shape, **BINARY))
            size = int(got.headers["Inference-Header-Content-Length"])
            assert json.loads(got.body[:size])["outputs"][0]["shape"] == list(shape)
            expected = 2 * np.arange(6, dtype=np.float32)
            assert np.frombuffer(got.body[size:], np.float32).tolist() == expected.tolist()
    eventually(lambda: len(taken) == 4)


# --- how a request arrives ----------------------------------------------------------------------------------


def test_a_request_in_pieces_is_put_together(serve: Any, probe: Any) -> None:
    seen = probe("Seen", lambda item: b"ok")
    data = post("/v1/pipeline", b"abcdef")
    with serve(SEEN).connect() as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for end in range(len(data) - 8, len(data)):
            connection.sendall(data[:end])
            wait_for_acknowledgement(connection)
            connection.sendall(data[end:])
            assert read_answer(connection).body == b"ok"
    assert seen.items == [b"abcdef"] * 8


def wait_for_acknowledgement(connection: socket.socket) -> None:
    """Wait until the other side has all that was sent, so that the rest comes in a piece of its own."""
    left = 1
    while left:
        (left,) = struct.unpack("i", fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)))


def test_requests_in_a_row_are_answered_in_order(serve: Any, probe: Any) -> None:
    seen = probe("Seen", lambda item: item["data"])
    served = serve(SEEN)
    with served.connect() as connection:
        ask(connection, post("/v1/pipeline", b"0"))
        seen.shut()
        connection.sendall(post("/v1/pipeline", b"1"))
        seen.wait_for_runs(2)
        connection.sendall(post("/v1/pipeline", b"2") + post("/v1/pipeline", b"3"))
        connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        seen.open()
        received = read_all(connection)
    bodies = [part.partition(b"\r\n\r\n")[2] for part in received.split(b"HTTP/1.1 200 OK")[1:]]
    assert bodies == [b"1", b"2", b"3", b'{"live":true}']


def test_noise_behind_a_known_head_is_400(serve: Any) -> None:
    served = serve("Identity")
    with served.connect() as connection:
        ask(connection, post("/v1/pipeline", b"x"))
        connection.sendall(post("/v1/pipeline", b"x") + b"\x00noise\r\n\r\n")
        assert answers_of(read_all(connection)) in ([200], [200, 400])
    assert served.post("/v1/pipeline", b"y").body == b"y"


def test_heads_without_end_are_not_kept(serve: Any, taken: list[str], eventually: Any) -> None:
    served = serve("Identity")
    with served.connect() as connection:
        for number in range(1200):
            assert ask(connection, post("/v1/pipeline", b"x", X_Number=str(number))).status == 200
        assert ask(connection, post("/v1/pipeline", b"x", X_Number="1199")).status == 200
        assert ask(connection, post("/v1/pipeline", b"x", X_Long="a" * 5000)).status == 200
        assert ask(connection, post("/v1/pipeline", b"x", X_Long="a" * 5000)).status == 200
    eventually(lambda: len(taken) == 1)
    heads = served.server.config.http_protocol_class.direct._heads
    assert len(heads) <= 512


# --- what is noted ------------------------------------------------------------------------------------------


def lines_of(caplog: Any) -> list[dict[str, Any]]:
    """What the log has of requests."""
    return [json.loads(one.getMessage()) for one in caplog.records if one.name == "hami.access"]


def test_ids_lines_and_counts_are_those_of_the_long_way(
    serve: Any, taken: list[str], eventually: Any, caplog: Any
) -> None:
    caplog.set_level(logging.INFO, "hami.access")
    served = serve({"copy": {"backend": "Identity"}})
    mine = post("/v1/nodes/copy", b"12345", X_Request_Id="mine")
    bad = post("/v1/nodes/copy", b"12345", X_Request_Id="two words")
    with served.connect() as connection:
        assert {ask(connection, mine).headers["X-Request-Id"] for _ in range(3)} == {"mine"}
        assert len({ask(connection, bad).headers["X-Request-Id"] for _ in range(3)}) == 3
    eventually(lambda: len(taken) == 5)
    eventually(lambda: len(lines_of(caplog)) == 6)
    lines = lines_of(caplog)
    for line in lines:
        assert line.pop("ms") >= 0
        line.pop("request_id")
        assert line.pop("pid") == os.getpid()
        assert line == {"method": "POST", "path": "/v1/nodes/copy", "status": 200, "bytes": 5}
    metrics = served.get("/metrics").body.decode()
    assert 'hami_http_requests_total{method="POST",route="/v1/nodes/{node}",status="200"} 6.0' in metrics
    assert "hami_http_open_requests 1.0" in metrics


def test_an_error_inside_is_logged_under_the_id_that_its_client_sees(
    serve: Any, probe: Any, taken: list[str], eventually: Any, caplog: Any
) -> None:
    probe("Seen", answer)
    with serve(SEEN).connect() as connection:
        ids = [ask(connection, post("/v1/pipeline", b"raise")).json["id"] for _ in range(3)]
    eventually(lambda: len(taken) == 2)
    assert all(id in caplog.text for id in ids)
    assert "private" in caplog.text
