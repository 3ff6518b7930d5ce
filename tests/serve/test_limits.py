"""No client can make the server hold more, wait longer or crash: plain sockets send what they like."""

from __future__ import annotations

import json
import socket
from typing import Any

import pytest
from serving import answers_of, read_all, read_answer

SHORT_S = 0.2
"""The time limit of tests in which it must pass."""

HEAD = b"POST /v1/pipeline HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\n"
CLOSE = b"Connection: close\r\n"


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def status_and_code(data: bytes) -> tuple[int, str]:
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["code"]


# --- sizes --------------------------------------------------------------------------------------------------


def test_a_body_of_the_largest_size_is_taken(serve: Any, probe: Any) -> None:
    probe("Length", lambda item: len(item["data"]))
    assert serve("Length", max_body_bytes=1000).post("/v1/pipeline", bytes(1000)).json == 1000


def test_a_larger_body_is_413(serve: Any) -> None:
    served = serve("Identity", max_body_bytes=1000)
    answer = served.post("/v1/pipeline", bytes(1001))
    assert (answer.status, answer.code) == (413, "serve-body-size")


def test_the_page_takes_no_larger_body_either(serve: Any) -> None:
    served = serve("Identity", max_body_bytes=1000)
    assert served.post("/ui", bytes(1001)).status == 413


def test_a_much_larger_body_is_413_and_its_client_hears_it(serve: Any) -> None:
    served = serve("Identity", max_body_bytes=1000)
    answer = served.post("/v1/pipeline", bytes(8 << 20))
    assert (answer.status, answer.code) == (413, "serve-body-size")


def test_a_larger_body_in_chunks_is_413(serve: Any, probe: Any) -> None:
    seen = probe("Seen")
    served = serve("Seen", max_body_bytes=1000)
    data = HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(*[bytes(100)] * 11)
    with served.connect() as connection:
        connection.sendall(data)
        answer = read_answer(connection)
    assert (answer.status, answer.code) == (413, "serve-body-size")
    assert seen.items == []


def test_a_body_in_chunks_is_put_together(serve: Any, probe: Any) -> None:
    seen = probe("Seen", lambda item: "ok")
    data = HEAD + CLOSE + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(b"ab", b"c", b"def")
    assert answers_of(serve("Seen").exchange(data)) == [200]
    assert seen.items == [b"abcdef"]


def test_after_413_the_connection_serves_the_next_request(serve: Any) -> None:
    served = serve("Identity", max_body_bytes=10)
    with served.connect() as connection:
        connection.sendall(HEAD + b"Content-Length: 20\r\n\r\n" + bytes(20))
        assert read_answer(connection).status == 413
        connection.sendall(HEAD + b"Content-Length: 2\r\n\r\nok")
        assert read_answer(connection).body == b"ok"


@pytest.mark.parametrize("what", ["one header", "many headers", "the path"])
def test_a_huge_head_is_431(serve: Any, what: str) -> None:
    served = serve("Identity", max_header_bytes=2000)
    filler = {
        "one header": b"GET /v2 HTTP/1.1\r\nHost: x\r\nX-Long: " + b"a" * 3000 + b"\r\n\r\n",
        "many headers": b"GET /v2 HTTP/1.1\r\nHost: x\r\n" + b"X-A: b\r\n" * 400 + b"\r\n",
        "the path": b"GET /" + b"a" * 3000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    }[what]
    assert status_and_code(served.exchange(filler)) == (431, "serve-header-size")


def test_an_endless_head_is_431_before_it_ends(serve: Any) -> None:
    served = serve("Identity", max_header_bytes=2000)
    with served.connect() as connection:
        connection.sendall(b"GET /v2 HTTP/1.1\r\n" + b"X-A: b\r\n" * 300)
        assert status_and_code(read_all(connection))[0] == 431


def test_a_large_body_behind_a_small_head_is_no_large_head(serve: Any, probe: Any) -> None:
    probe("Length", lambda item: len(item["data"]))
    assert serve("Length", max_header_bytes=500).post("/v1/pipeline", bytes(100_000)).json == 100_000


def test_the_heads_of_many_requests_on_one_connection_are_counted_apart(serve: Any) -> None:
    served = serve("Identity", max_header_bytes=500)
    with served.connect() as connection:
        for _ in range(20):
            connection.sendall(b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n")
            assert read_answer(connection).status == 200


# --- time ---------------------------------------------------------------------------------------------------


def test_a_head_that_does_not_come_is_408(serve: Any) -> None:
    served = serve("Identity", timeout_s=SHORT_S)
    assert status_and_code(served.exchange(b"GET /v2 HTTP/1.1\r\nHost: ")) == (408, "serve-slow-head")


def test_a_head_that_drips_is_408(serve: Any) -> None:
    served = serve("Identity", timeout_s=SHORT_S)
    with served.connect() as connection:
        connection.settimeout(0.02)
        received = b""
        try:
            connection.sendall(b"GET /v2 HTTP/1.1\r\n")
            while not received:
                connection.sendall(b"X-A: b\r\n")
                try:
                    received = connection.recv(65536)
                except TimeoutError:
                    continue
        except (BrokenPipeError, ConnectionResetError):
            pytest.fail("closed without an answer")
    assert received.startswith(b"HTTP/1.1 408 ")


def test_a_connection_that_says_nothing_is_closed(serve: Any) -> None:
    assert serve("Identity", timeout_s=SHORT_S).exchange(b"") == b""


def test_a_body_that_does_not_come_is_408(serve: Any, probe: Any) -> None:
    seen = probe("Seen")
    served = serve("Seen", timeout_s=SHORT_S)
    data = served.exchange(HEAD + b"Content-Length: 100\r\n\r\nhalf")
    assert status_and_code(data) == (408, "serve-slow-body")
    assert seen.items == []


def test_a_body_in_chunks_that_does_not_end_is_408(serve: Any) -> None:
    served = serve("Identity", timeout_s=SHORT_S)
    data = served.exchange(HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
    assert status_and_code(data) == (408, "serve-slow-body")


def test_an_answer_that_does_not_come_is_504_and_its_request_is_cancelled(serve: Any, probe: Any) -> None:
    seen = probe("Seen")
    served = serve("Seen", timeout_s=SHORT_S)
    plug = seen.plug(served.service.pipe)
    answer = served.post("/v1/pipeline", b"late")
    assert (answer.status, answer.code) == (504, "serve-timeout")
    seen.open()
    plug.result(10)
    served.service.pipe.close()
    assert seen.items == ["plug"]


def test_the_server_goes_on_after_every_timeout(serve: Any) -> None:
    served = serve("Identity", timeout_s=SHORT_S)
    for data in (b"GET", HEAD, HEAD + b"Content-Length: 9\r\n\r\n"):
        served.exchange(data)
    assert served.post("/v1/pipeline", b"x").body == b"x"
    assert served.service.num_running == 0


# --- what is no HTTP ----------------------------------------------------------------------------------------

BROKEN = {
    "no method": b"\r\n\r\nnonsense\r\n\r\n",
    "noise": bytes(range(256)),
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "no version": b"GET /v2\r\nno version\r\n\r\n",
    "an unknown version": b"GET /v2 HTTP/9.9\r\n\r\n",
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n",
    "a length that is no number": HEAD + b"Content-Length: many\r\n\r\n",
    "a length that overflows": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\n",
    "two lengths": HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunks": HEAD + b"Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a chunk that is no number": HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nabc\r\n",
    "a header without a colon": b"GET /v2 HTTP/1.1\r\nHost x\r\n\r\n",
    "a header that goes on": b"GET /v2 HTTP/1.1\r\nHost: x\r\n : y\r\n\r\n",
    "a zero in a header": b"GET /v2 HTTP/1.1\r\nHost: \x00\r\n\r\n",
    "a space in a header's name": b"GET /v2 HTTP/1.1\r\nHo st: x\r\n\r\n",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_what_is_no_request_is_400_and_the_end_of_the_connection(serve: Any, data: bytes) -> None:
    served = serve("Identity", timeout_s=SHORT_S)
    received = served.exchange(data)
    assert received.startswith(b"HTTP/1.1 400 "), received
    assert b'"code":"serve-http"' in received
    assert served.get("/v2/health/live").status == 200


def test_more_body_than_the_length_says_is_no_part_of_the_request(serve: Any, probe: Any) -> None:
    seen = probe("Seen", lambda item: "ok")
    received = serve("Seen").exchange(HEAD + b"Content-Length: 2\r\n\r\nabtail of the body\r\n\r\n")
    assert seen.items == [b"ab"]
    assert answers_of(received) == [200]  # and the connection is closed


def test_less_body_than_the_length_says_reaches_no_backend(serve: Any, probe: Any) -> None:
    seen = probe("Seen")
    served = serve("Seen")
    with served.connect() as connection:
        connection.sendall(HEAD + b"Content-Length: 100\r\n\r\nhalf")
        connection.shutdown(socket.SHUT_WR)
        assert 500 not in answers_of(read_all(connection))
    served.service.pipe.close()
    assert seen.items == []


def test_an_upgrade_is_not_followed(serve: Any) -> None:
    head = b"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    received = serve("Identity", timeout_s=SHORT_S).exchange(head + b"Sec-WebSocket-Version: 13\r\n\r\n")
    assert answers_of(received)[0] in (200, 400)


def test_requests_in_a_row_are_answered_in_order(serve: Any) -> None:
    one = HEAD + b"Content-Length: 1\r\n\r\n"
    last = HEAD + CLOSE + b"Content-Length: 1\r\n\r\n"
    received = serve("Identity").exchange(one + b"a" + one + b"b" + last + b"c")
    assert [part[-1:] for part in received.split(b"HTTP/1.1 200")[1:]] == [b"a", b"b", b"c"]


def test_a_client_that_waits_for_100_continue_gets_it(serve: Any) -> None:
    served = serve("Identity")
    with served.connect() as connection:
        connection.sendall(HEAD + b"Content-Length: 2\r\nExpect: 100-continue\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.sendall(b"ok")
        assert read_answer(connection).body == b"ok"


def test_a_body_that_is_too_large_gets_no_100_continue(serve: Any) -> None:
    served = serve("Identity", max_body_bytes=10)
    with served.connect() as connection:
        connection.sendall(HEAD + b"Content-Length: 20\r\nExpect: 100-continue\r\n\r\n")
        assert read_answer(connection).status == 413


def test_many_idle_connections_keep_nobody_out(serve: Any) -> None:
    served = serve("Identity")
    idle = [served.connect() for _ in range(200)]
    try:
        assert served.post("/v1/pipeline", b"x").body == b"x"
    finally:
        for connection in idle:
            connection.close()
