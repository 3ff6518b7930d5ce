"""Nobody gets past the token, into another's connection, at files or at memory, whatever the bytes are."""

from __future__ import annotations

import gzip
import json
import socket
import threading
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from probes import WAIT_S, wait_until
from serving import Served, answers_of, read_all

SHORT_S = 0.3
TOKEN = "s3cret-t0ken"
POST = b"POST /v1/pipeline HTTP/1.1\r\nHost: x\r\nContent-Type: image/png\r\n"
HIDDEN = b"GET /v2/models/hidden HTTP/1.1\r\nHost: x\r\n\r\n"


def get(path: str, *headers: str) -> bytes:
    lines = "".join(f"{header}\r\n" for header in headers)
    return f"GET {path} HTTP/1.1\r\nHost: x\r\n{lines}Connection: close\r\n\r\n".encode()


@pytest.fixture(scope="module")
def shared() -> Iterator[Served]:
    """A server for tests that leave it as it was."""
    served = Served("Identity", timeout_s=SHORT_S)
    yield served
    served.stop()


@pytest.fixture(scope="module")
def guarded() -> Iterator[Served]:
    """One that wants a token."""
    served = Served("Identity", token=TOKEN)
    yield served
    served.stop()


# --- paths --------------------------------------------------------------------------------------------------

PAST_THE_TOKEN = [
    "/ui/static/../../v1/models",
    "/ui/static/%2e%2e/%2e%2e/v1/models",
    "/ui/static/..%2f..%2fv1%2fmodels",
    "/ui/static/a/b",
    "/ui/static",
    "/ui/",
    "/ui%2fstatic",
    "/health/../v1/models",
    "/health/",
    "//health",
    "/HEALTH",
    "/health%00",
    "/health%20",
    "/v2/health/live/../../models/pipeline",
    "/v2/health/live;/../../models/pipeline",
    "//v2",
    "http://x/v1/models",
    "*",
]


@pytest.mark.parametrize("path", PAST_THE_TOKEN)
def test_no_path_leads_past_the_token(guarded: Served, path: str) -> None:
    received = guarded.exchange(get(path))
    assert answers_of(received)[0] in (400, 401, 404), received
    assert b"pipeline" not in received.partition(b"\r\n\r\n")[2]


TO_FILES = [
    "/ui/static/../pages.py",
    "/ui/static/..%2fpages.py",
    "/ui/static/%2e%2e%2fpages.py",
    "/ui/static/..%5cpages.py",
    "/ui/static/%252e%252e%252fpages.py",
    "/ui/static/%c0%ae%c0%ae%c0%afpages.py",
    "/ui/static//etc/passwd",
    "/ui/static/%2fetc%2fpasswd",
    "/ui/static/app.js%00.html",
    "/ui/static/.",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/v1/models/../../etc/passwd",
    "/v2/models/..%2f..%2fetc%2fpasswd",
    "file:///etc/passwd",
]


@pytest.mark.parametrize("path", TO_FILES)
def test_no_path_leads_to_a_file(shared: Served, path: str) -> None:
    received = shared.exchange(get(path))
    assert answers_of(received)[0] in (400, 404), received
    for content in (b"import ", b"root:", b"from __future__"):
        assert content not in received


@pytest.mark.parametrize(
    "path", ["/v2/models/%ff%fe", "/v1/nodes/%ed%a0%80", "/%f0%28%8c%bc", "/v2/models/\x7f"]
)
def test_a_path_that_is_no_text_is_no_failure(shared: Served, path: str) -> None:
    assert answers_of(shared.exchange(get(path)))[0] in (400, 404, 405)


# --- one request that may be two ----------------------------------------------------------------------------

AMBIGUOUS = {
    "length before chunks": b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks before length": b"Transfer-Encoding: chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "unknown coding": b"Transfer-Encoding: xchunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "unknown coding alone": b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "packed chunks": b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "identity first": b"Transfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
    "chunks not last": b"Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "two codings": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
    "a space before the colon": b"Transfer-Encoding : chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "a tab in the value": b"Transfer-Encoding: \x0bchunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "a folded line": b"Transfer-Encoding:\r\n chunked\r\nContent-Length: 4\r\n\r\n0\r\n\r\n",
    "two lengths in one": b"Content-Length: 5, 5\r\n\r\nabcde",
    "the same length twice": b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nabcde",
    "a length with a sign": b"Content-Length: +5\r\n\r\nabcde",
    "a length of another base": b"Content-Length: 0x5\r\n\r\nabcde",
    "a bare line feed": b"X-A: y\nContent-Length: 5\r\n\r\nabcde",
    "a bare carriage return": b"X-A: y\rContent-Length: 5\r\n\r\nabcde",
    "chunks that end with line feeds": b"Transfer-Encoding: chunked\r\n\r\n3\nabc\n0\n\n",
    "a line feed in an extension": b"Transfer-Encoding: chunked\r\n\r\n3;a\nb\r\nabc\r\n0\r\n\r\n",
    "a chunk larger than its size": b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    "a size that overflows": b"Transfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\nabc\r\n0\r\n\r\n",
    "a negative size": b"Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n",
    "two hosts": b"Host: y\r\nContent-Length: 5\r\n\r\nabcde",
}


@pytest.mark.parametrize("rest", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_what_others_may_read_otherwise_is_refused_and_nothing_behind_it_is_read(
    shared: Served, rest: bytes
) -> None:
    received = shared.exchange(POST + rest + HIDDEN)
    assert answers_of(received) == [400], received
    assert b'"code":"serve-http"' in received


def test_a_request_without_a_host_is_refused(shared: Served) -> None:
    assert answers_of(shared.exchange(b"GET /v2 HTTP/1.1\r\n\r\n")) == [400]
    assert answers_of(shared.exchange(b"GET /v2 HTTP/1.0\r\n\r\n")) == [200]  # which knows none


def test_chunks_of_an_older_protocol_end_the_connection(shared: Served) -> None:
    head = POST.replace(b"1.1", b"1.0") + b"Transfer-Encoding: chunked\r\n\r\n"
    assert len(answers_of(shared.exchange(head + b"0\r\n\r\n" + HIDDEN))) == 1


def test_the_body_of_a_get_is_no_request(shared: Served) -> None:
    head = b"GET /v2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(HIDDEN)
    assert answers_of(shared.exchange(head + HIDDEN)) == [200]


@pytest.mark.parametrize("body", [b"3\r\nabc\r\n", b""])
def test_what_comes_behind_a_body_is_no_header(serve: Any, probe: Any, body: bytes) -> None:
    seen = probe("Seen")
    served = serve("Seen", token=TOKEN)
    trailer = (
        f"Authorization: Bearer {TOKEN}\r\nX-Request-Id: forged\r\nExpect: 100-continue\r\n\r\n".encode()
    )
    head = POST + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n"
    received = served.exchange(head + body + b"0\r\n" + trailer)
    assert answers_of(received) == [401]
    assert b"forged" not in received
    assert seen.items == []


def test_endless_lines_behind_a_body_are_kept_by_nobody_and_end_in_time(shared: Served) -> None:
    with shared.connect() as connection:
        connection.sendall(POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n")
        received = b""
        connection.settimeout(0.01)
        while not received:
            try:
                connection.sendall(b"X-A: b\r\n" * 100)
                received = connection.recv(65536)
            except TimeoutError:
                continue
        assert received.startswith(b"HTTP/1.1 408 ")


# --- methods ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["TRACE", "OPTIONS", "PUT", "DELETE", "PATCH", "HEAD"])
@pytest.mark.parametrize("path", ["/v1/pipeline", "/v2", "/v1/chat/completions", "/metrics", "/ui"])
def test_a_method_that_a_path_has_not_is_405_and_repeats_nothing(
    shared: Served, method: str, path: str
) -> None:
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\nCookie: private\r\nConnection: close\r\n\r\n"
    received = shared.exchange(head.encode())
    assert answers_of(received) == [405]
    assert b"allow: " in received.lower()
    assert b"private" not in received
    assert b"access-control-" not in received.lower()  # pages of others may not read answers


@pytest.mark.parametrize(
    "line", [b"CONNECT x:1 HTTP/1.1", b"PRI * HTTP/2.0", b"FOO /v2 HTTP/1.1", b"get /v2 HTTP/1.1"]
)
def test_a_method_that_nobody_has_is_400_and_leaves_no_trace(shared: Served, line: bytes, capfd: Any) -> None:
    assert answers_of(shared.exchange(line + b"\r\nHost: x\r\n\r\n")) == [400]
    assert shared.get("/v2").status == 200
    assert "Traceback" not in capfd.readouterr().err


# --- too much -----------------------------------------------------------------------------------------------


def flood(connection: socket.socket, data: bytes) -> int:
    """Send again and again without reading, until the server takes no more; returns how many bytes went."""
    num_bytes = 0
    connection.settimeout(SHORT_S)
    try:
        while num_bytes < 200 << 20:
            num_bytes += connection.send(data[num_bytes % len(data) :])
    except TimeoutError:
        pass
    return num_bytes


def small_buffers(served: Served) -> socket.socket:
    """Return a connection for which the system keeps little."""
    connection = socket.socket()
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        connection.setsockopt(socket.SOL_SOCKET, option, 1 << 16)
    connection.settimeout(WAIT_S)
    connection.connect(("127.0.0.1", served.port))
    return connection


def test_who_does_not_read_its_answers_cannot_send_further_requests(serve: Any) -> None:
    served = serve("Identity")
    one = POST + b"Content-Length: 1000\r\n\r\n" + bytes(1000)
    with small_buffers(served) as connection:
        assert flood(connection, one * 100) < 30 << 20
        assert served.post("/v1/pipeline", b"x").body == b"x"


def test_requests_ahead_of_a_slow_answer_are_not_kept_in_any_number(serve: Any, probe: Any) -> None:
    slow = probe("Slow", lambda item: len(item["data"]))
    served = serve("Slow")
    slow.shut()
    one = POST + b"Content-Length: 1000\r\n\r\n" + bytes(1000)
    with small_buffers(served) as connection:
        assert flood(connection, one * 100) < 30 << 20
        slow.wait_for_runs(1)
        slow.open()
        connection.settimeout(WAIT_S)
        received = b""
        while received.count(b"HTTP/1.1 200 ") < 300:
            received += connection.recv(65536)
        assert answers_of(received.rpartition(b"HTTP/1.1")[0]) == [200] * 299


def test_a_client_that_goes_away_with_requests_ahead_leaves_nothing_running(serve: Any, probe: Any) -> None:
    slow = probe("Slow", lambda item: "done")
    served = serve("Slow", timeout_s=1.0)
    slow.shut()
    one = POST + b"Content-Length: 1\r\n\r\nx"
    with served.connect() as connection:
        connection.sendall(one * 3)
        slow.wait_for_runs(1)
    wait_until(lambda: served.service.num_running == 0)
    slow.open()
    wait_until(lambda: not served.server.server_state.tasks)


def test_what_unpacks_to_more_than_a_body_may_have_costs_no_more_than_that(serve: Any) -> None:
    served = serve("Identity", max_body_bytes=1 << 20)
    bomb = zlib.compress(bytes(100 << 20), 9)
    for packed, encoding in ((bomb, "deflate"), (gzip.compress(bomb), "gzip")):
        answer = served.post("/v1/pipeline", packed, Content_Encoding=encoding)
        if encoding == "deflate":
            assert (answer.status, answer.code) == (413, "serve-body-size")
        else:
            assert answer.body == bomb  # unpacked once, and no further


def test_while_a_body_unpacks_others_are_answered(serve: Any, monkeypatch: Any) -> None:
    import hami.serve.body as module

    inside, gate = threading.Event(), threading.Event()
    unpacked = module._unpacked

    def slow(*arguments: Any) -> bytes:
        inside.set()
        assert gate.wait(WAIT_S)
        return unpacked(*arguments)

    monkeypatch.setattr(module, "_unpacked", slow)
    served = serve("Identity")
    body = gzip.compress(b"".join(b"%d" % number for number in range(5000)))
    waiting: list[Any] = []
    client = threading.Thread(
        target=lambda: waiting.append(served.post("/v1/pipeline", body, Content_Encoding="gzip").status)
    )
    client.start()
    assert inside.wait(WAIT_S)
    assert served.post("/v1/pipeline", b"x").body == b"x"
    gate.set()
    client.join(WAIT_S)
    assert waiting == [200]


DEEP = b"[" * 200_000
NO_TEXT = b'{"data": "\xff\xfe"}'


@pytest.mark.parametrize(
    "body", [DEEP, b'{"a":' * 50_000, NO_TEXT, b"\xff", b'"\\ud800"', b"\x00", b"1e999", b"-"]
)
@pytest.mark.parametrize(
    "path", ["/v1/pipeline", "/v2/models/pipeline/infer", "/v1/completions", "/v1/chat/completions"]
)
def test_json_that_is_none_or_has_no_end_is_400(guarded: Served, path: str, body: bytes) -> None:
    answer = guarded.post(path, body, Content_Type="application/json", Authorization=f"Bearer {TOKEN}")
    assert answer.status in (400, 422), answer
    assert json.loads(answer.body)["error"]


# --- what errors tell ---------------------------------------------------------------------------------------


def test_no_error_tells_a_path_a_stack_or_the_token(serve: Any, probe: Any, tmp_path: Any) -> None:
    def fail(item: dict[str, Any]) -> Any:
        raise OSError(f"cannot open {tmp_path}/secret.key for {TOKEN}")

    probe("Fails", fail)
    served = serve({"node": {"backend": "Fails"}}, token=TOKEN)
    allowed = {"Authorization": f"Bearer {TOKEN}"}
    answers = [
        served.request(
            "POST", path, b'{"data": 1, "inputs": [], "model": "x", "prompt": 1}', {**headers, **kind}
        )
        for path in (
            "/v1/pipeline",
            "/v1/nodes/node",
            "/v2/models/node/infer",
            "/v1/completions",
            "/lost",
            "/ui",
        )
        for headers in (allowed, {"Authorization": "Bearer wrong"})
        for kind in ({"Content-Type": "application/json"}, {"Content-Type": "multipart/form-data"}, {})
    ]
    assert {500, 401, 400, 404, 405} <= {answer.status for answer in answers}
    for answer in answers:
        told = answer.body + str(answer.headers).encode()
        for private in (
            str(tmp_path).encode(),
            b"secret.key",
            TOKEN.encode(),
            b"Traceback",
            b'.py"',
            b"OSError",
        ):
            assert private not in told, told
        assert answer.headers["Server"] is None


def test_the_descriptions_tell_no_path_of_this_machine(serve: Any, tmp_path: Any) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text('[node]\nbackend = "Identity"\n', encoding="utf-8")
    served = serve(file)
    for path in (
        "/docs",
        "/openapi.json",
        "/v2",
        "/v2/models/pipeline",
        "/metrics",
        "/ui/state",
        "/v1/models",
    ):
        answer = served.get(path)
        assert answer.status == 200
        assert str(tmp_path).encode() not in answer.body, path


def test_a_closed_connection_is_closed_for_good(shared: Served) -> None:
    with shared.connect() as connection:
        connection.sendall(b"nonsense\r\n\r\n" + HIDDEN)
        assert answers_of(read_all(connection)) == [400]
