"""Laws of the short way: its bounds are those of the long one, of size, time, for who leaves, at the end."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from direct_requests import REQUEST, SEEN, ask, learn, post
from serving import read_answer

TOKEN = "secret"


@pytest.fixture
def busy(serve: Any, probe: Any) -> Any:
    """A server that knows `REQUEST`, and whose only instance is busy; its probe, and what keeps it busy."""
    seen = probe("Seen", lambda item: "done")
    served = serve(SEEN)
    learn(served)
    return served, seen, seen.plug(served.service.pipe)


def test_a_client_that_goes_away_takes_its_request_along(
    busy: Any, taken: list[str], eventually: Any, waiting_at: Any, caplog: Any
) -> None:
    caplog.set_level(logging.INFO)
    served, seen, plug = busy
    with served.connect() as connection:
        connection.sendall(REQUEST)
        eventually(lambda: waiting_at(served) == 1)
    eventually(lambda: served.service.num_running == 0)
    seen.open()
    assert plug.result(10)["result"] == "done"
    served.service.pipe.close()
    assert seen.items == [b"x", "plug"]
    eventually(lambda: len(taken) == 1)
    lines = [json.loads(one.getMessage()) for one in caplog.records if one.name == "hami.access"]
    assert [(line["status"], line["bytes"]) for line in lines] == [(499, 0)]
    assert not [one for one in caplog.records if one.levelno >= logging.ERROR]


def test_one_that_goes_away_takes_nobody_along(busy: Any, eventually: Any, waiting_at: Any) -> None:
    served, seen, _plug = busy
    goes = served.connect()
    goes.sendall(REQUEST)
    with served.connect() as stays:
        stays.sendall(REQUEST)
        eventually(lambda: waiting_at(served) == 2)
        goes.close()
        eventually(lambda: served.service.num_running == 1)
        seen.open()
        assert read_answer(stays).json == "done"


def test_an_answer_that_does_not_come_is_504_and_its_request_is_cancelled(
    serve: Any, probe: Any, taken: list[str], eventually: Any
) -> None:
    seen = probe("Seen", lambda item: "done")
    served = serve(SEEN, timeout_s=0.2)
    learn(served)
    plug = seen.plug(served.service.pipe)
    with served.connect() as connection:
        for _ in range(2):
            late = ask(connection, REQUEST)
            assert (late.status, late.code) == (504, "serve-timeout")
        seen.open()
        assert plug.result(10)
        assert ask(connection, REQUEST).json == "done"
    eventually(lambda: len(taken) == 3)
    assert seen.items == [b"x", "plug", b"x"]


def test_a_full_queue_is_429(
    serve: Any, probe: Any, taken: list[str], eventually: Any, waiting_at: Any
) -> None:
    seen = probe("Seen", lambda item: "done")
    served = serve({"seen": {"backend": "Seen", "queue_capacity": 1}})
    learn(served)
    seen.plug(served.service.pipe)
    with served.connect() as first, served.connect() as second:
        first.sendall(REQUEST)
        eventually(lambda: waiting_at(served) == 1)
        refused = ask(second, REQUEST)
        assert refused.status == 429
        assert refused.headers["Retry-After"]
        seen.open()
        assert read_answer(first).json == "done"
    eventually(lambda: len(taken) == 2)


def test_a_head_without_the_token_opens_nothing(serve: Any, taken: list[str], eventually: Any) -> None:
    served = serve("Identity", token=TOKEN)
    good = post("/v1/pipeline", b"x", Authorization=f"Bearer {TOKEN}")
    with served.connect() as connection:
        assert [ask(connection, good).status for _ in range(3)] == [200] * 3
        for bad in (REQUEST, good.replace(TOKEN.encode(), b"secres"), good.replace(b"Bearer", b"Basic ")):
            assert [ask(connection, bad).status for _ in range(2)] == [401] * 2
    eventually(lambda: len(taken) == 2)


def test_a_body_that_is_too_large_stays_refused(serve: Any, taken: list[str], eventually: Any) -> None:
    served = serve("Identity", max_body_bytes=10)
    with served.connect() as connection:
        assert [ask(connection, post("/v1/pipeline", bytes(11))).status for _ in range(3)] == [413] * 3
        assert [ask(connection, post("/v1/pipeline", bytes(10))).status for _ in range(2)] == [200] * 2
    eventually(lambda: len(taken) == 1)


def test_a_head_that_is_too_large_stays_refused(serve: Any, taken: list[str]) -> None:
    served = serve("Identity", max_header_bytes=500)
    for _ in range(3):
        received = served.exchange(post("/v1/pipeline", b"x", X_Long="a" * 500))
        assert received.startswith(b"HTTP/1.1 431 ")
    assert taken == []


def test_lines_that_pass_count_for_the_size_of_a_head(serve: Any, taken: list[str], eventually: Any) -> None:
    served = serve("Identity", max_header_bytes=500)
    for _ in range(2):
        with served.connect() as connection:
            assert [ask(connection, REQUEST).status for _ in range(2)] == [200, 200]
        assert served.exchange(post("/v1/pipeline", b"x", Traceparent="a" * 500)).startswith(b"HTTP/1.1 431 ")
    eventually(lambda: taken == ["direct"] * 3)


def test_whoever_runs_at_the_end_is_answered_and_whoever_comes_is_refused(
    serve: Any, probe: Any, eventually: Any
) -> None:
    seen = probe("Seen", lambda item: "done")
    served = serve(SEEN)
    learn(served)
    seen.shut()
    with served.connect() as runs, served.connect() as late:
        runs.sendall(REQUEST)
        seen.wait_for_runs(2)
        served.begin_to_stop()
        eventually(lambda: served.service.is_draining)
        refused = ask(late, REQUEST)
        assert (refused.status, refused.code) == (503, "serve-draining")
        seen.open()
        assert read_answer(runs).json == "done"
    served.stop()


def test_whoever_waits_longer_than_the_end_takes_is_told_so(serve: Any, probe: Any, eventually: Any) -> None:
    seen = probe("Seen", lambda item: "done")
    served = serve(SEEN, drain_s=0.1)
    learn(served)
    plug = seen.plug(served.service.pipe)
    with served.connect() as connection:
        connection.sendall(REQUEST)
        eventually(lambda: served.service.num_running == 1)
        served.begin_to_stop()
        closed = read_answer(connection)
        assert (closed.status, closed.code) == (503, "closed")
    seen.open()
    served.stop()
    assert plug.done()


def test_a_connection_without_requests_is_closed_after_a_while(serve: Any) -> None:
    served = serve("Identity")
    served.server.config.timeout_keep_alive = 0.2
    with served.connect() as connection:
        for _ in range(3):
            assert ask(connection, REQUEST).status == 200
        assert connection.recv(1) == b""


def test_a_connection_whose_every_request_was_known_is_closed_as_well(
    serve: Any, taken: list[str], eventually: Any
) -> None:
    served = serve("Identity")
    for _ in range(2):
        learn(served)
    served.server.config.timeout_keep_alive = 0.2
    with served.connect() as connection:
        assert ask(connection, REQUEST).status == 200
        assert connection.recv(1) == b""
    eventually(lambda: taken == ["direct", "express"])


def test_a_connection_that_waits_for_its_answer_is_not_idle(
    serve: Any, probe: Any, eventually: Any, taken: list[str]
) -> None:
    seen = probe("Seen", lambda item: "done")
    served = serve(SEEN)
    served.server.config.timeout_keep_alive = 0.05
    with served.connect() as connection:
        ask(connection, REQUEST)
        ask(connection, REQUEST)
        seen.shut()
        connection.sendall(REQUEST)
        seen.wait_for_runs(3)
        with served.connect() as idle:
            ask(idle, b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
            assert idle.recv(1) == b""  # by now the time of the other one is over as well
        seen.open()
        assert read_answer(connection).json == "done"
    eventually(lambda: len(taken) == 2)
