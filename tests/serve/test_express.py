"""Laws of the express way: clients see no difference, and each gets one answer, whoever writes it.

The first request of a form goes the long way and the second the direct one, which shows what is asked for and
what is answered; from the third on the core does it alone.
"""

from __future__ import annotations

import contextlib
import json
import logging
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from direct_requests import ask, post
from probes import WAIT_S
from serving import Answer, Served, read_all, read_answer

import hami
from hami import TensorSpec

INFER = "/v2/models/replying/infer"
MAX_ROWS = 2
COLUMNS = 4
# A row that begins so is answered with half its columns, or with 16 MB, more than a connection's buffers.
NARROW, WIDE = 99.0, 98.0
WIDE_COLUMNS = 4_000_000


class Replying:
    """An engine that gives its input back, and blocks inside runs while its gate is shut."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.num_runs = 0

    def run(self, x: Any) -> Any:
        self.num_runs += 1
        assert self.gate.wait(WAIT_S * 5), "nobody opened the gate"
        if x[0, 0] == WIDE:
            return np.pad(x, ((0, 0), (0, WIDE_COLUMNS - x.shape[1])))
        return x[:, : x.shape[1] // 2] if x[0, 0] == NARROW else x


@pytest.fixture
def engine(clean_registry: None) -> Iterator[Replying]:
    replying = Replying()

    def init(self: Any, params: dict[str, Any], options: dict[str, Any]) -> None:
        self.inputs = [TensorSpec("x", "float32", (-1, -1))]
        self.outputs = [TensorSpec("y", "float32", (-1, -1))]

    def run(self: Any, arrays: list[Any]) -> list[Any]:
        return [replying.run(arrays[0])]

    hami.register("Replying", type("Replying", (hami.Engine,), {"init": init, "run": run}))
    yield replying
    replying.gate.set()


PIPELINE = {"replying": {"backend": "Replying", "max": MAX_ROWS, "batching_timeout": 0}}


def infer(*values: float, **more: Any) -> bytes:
    """A request for a row that begins with these values; `more` is for its JSON."""
    row = np.zeros((1, COLUMNS), np.float32)
    row[0, : len(values)] = values
    tensor = {"name": "x", "datatype": "FP32", "shape": [1, COLUMNS]}
    tensor["parameters"] = {"binary_data_size": row.nbytes}
    text = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}, **more}).encode()
    return post(INFER, text + row.tobytes(), Inference_Header_Content_Length=str(len(text)))


def row_of(answer: Answer) -> list[float]:
    assert answer.status == 200, answer
    size = int(answer.headers["inference-header-content-length"])
    row = np.frombuffer(answer.body[size:], np.float32)
    assert json.loads(answer.body[:size])["outputs"][0]["shape"] == [1, len(row)]
    return [float(value) for value in row]


def teach(served: Served, data: bytes | None = None) -> None:
    """Let the server see what is asked for and what is answered."""
    with served.connect() as connection:
        for _ in range(2):
            assert ask(connection, data or infer()).status == 200


@pytest.fixture
def served(serve: Callable[..., Served], engine: Replying, taken: list[str]) -> Served:
    """A server that knows the form of its requests and answers."""
    found = serve(PIPELINE)
    teach(found)
    taken.clear()
    return found


@contextlib.contextmanager
def a_busy_loop(served: Served) -> Iterator[None]:
    """Keep the event loop from doing anything."""
    is_in, may_go = threading.Event(), threading.Event()

    def stay() -> None:
        is_in.set()
        assert may_go.wait(WAIT_S)

    served.loop.call_soon_threadsafe(stay)
    assert is_in.wait(WAIT_S)
    try:
        yield
    finally:
        may_go.set()


def send_and_wait_for_run(connection: socket.socket, engine: Replying, eventually: Any, data: bytes) -> None:
    """Send a request which stays in the engine, whose gate is shut from now on."""
    num_runs = engine.num_runs
    engine.gate.clear()
    connection.sendall(data)
    eventually(lambda: engine.num_runs > num_runs)


def test_the_third_request_needs_no_python(
    serve: Any, engine: Replying, taken: list[str], eventually: Any
) -> None:
    with serve(PIPELINE).connect() as connection:
        rows = [row_of(ask(connection, infer(number))) for number in (1, 2, 3, 4)]
    assert rows == [[number, 0, 0, 0] for number in (1, 2, 3, 4)]
    eventually(lambda: taken == ["direct", "express", "express"])


def test_the_thread_that_has_the_answer_writes_it(served: Served, engine: Replying, eventually: Any) -> None:
    with served.connect() as connection:
        send_and_wait_for_run(connection, engine, eventually, infer(1))
        with a_busy_loop(served):
            engine.gate.set()
            assert row_of(read_answer(connection)) == [1, 0, 0, 0]
        assert row_of(ask(connection, infer(2))) == [2, 0, 0, 0]


def test_it_has_the_headers_of_other_answers(
    serve: Any, engine: Replying, taken: list[str], eventually: Any
) -> None:
    served = serve(PIPELINE)
    with served.connect() as connection:
        answers = [ask(connection, infer(5)) for _ in range(5)]
    eventually(lambda: taken == ["direct", "express", "express", "express"])
    first, *others = [
        {name.lower(): value for name, value in answer.headers.items() if name.lower() != "date"}
        for answer in answers
    ]
    ids = {headers.pop("x-request-id") for headers in (first, *others)}
    assert len(ids) == len(answers)
    assert others == [first] * 4


def test_it_is_counted_and_logged_like_others(served: Served, caplog: Any, eventually: Any) -> None:
    caplog.set_level(logging.INFO, "hami.access")
    with served.connect() as connection:
        answer = ask(connection, infer(1))
    eventually(lambda: served.service.num_running == 0)
    (line,) = [json.loads(one.getMessage()) for one in caplog.records if one.name == "hami.access"]
    assert (line["status"], line["bytes"]) == (200, len(answer.body))
    assert line["request_id"] == answer.headers["x-request-id"]


def test_requests_with_names_of_their_own_go_the_express_way(
    serve: Any, engine: Replying, taken: list[str], eventually: Any
) -> None:
    with serve(PIPELINE).connect() as connection:
        for number in range(5):
            lines = b"Host: x\r\ntraceparent: 00-%032x-%016x-01\r\nX-Request-Id: r%d\r\n" % ((number,) * 3)
            answer = ask(connection, infer(number).replace(b"Host: x\r\n", lines))
            assert answer.headers["x-request-id"] == f"r{number}"
            assert row_of(answer)[0] == number
    eventually(lambda: taken == ["direct", "express", "express", "express"])


def test_it_is_measured_like_others(served: Served) -> None:
    with served.connect() as connection:
        for number in range(3):
            row_of(ask(connection, infer(number)))
        metrics = served.get("/metrics").body.decode()
    labels = 'method="POST",route="/v2/models/{model}/infer",status="200"'
    assert f"hami_http_requests_total{{{labels}}} 5.0" in metrics
    assert f'hami_http_request_seconds_bucket{{le="+Inf",{labels}}} 5.0' in metrics
    assert "hami_http_open_requests 1.0" in metrics


def test_one_that_runs_is_counted_as_open(served: Served, engine: Replying, eventually: Any) -> None:
    with served.connect() as connection:
        send_and_wait_for_run(connection, engine, eventually, infer(1))
        assert served.service.num_running == 1
        assert "hami_http_open_requests 2.0" in served.get("/metrics").body.decode()
        engine.gate.set()
        assert row_of(read_answer(connection)) == [1, 0, 0, 0]
    eventually(lambda: served.service.num_running == 0)


def test_an_array_of_another_shape_is_answered_and_learnt(
    served: Served, taken: list[str], eventually: Any
) -> None:
    with served.connect() as connection:
        for _ in range(3):
            assert row_of(ask(connection, infer(NARROW))) == [NARROW, 0]
        assert row_of(ask(connection, infer(1))) == [1, 0, 0, 0]
        assert row_of(ask(connection, infer(2))) == [2, 0, 0, 0]
    eventually(lambda: taken == ["express"] * 5)


def test_what_another_connection_teaches_meanwhile_changes_no_answer(
    serve: Any, engine: Replying, monkeypatch: Any
) -> None:
    """Both have one head, since their JSON has one length; the answer brings the id of the JSON back."""
    has_begun, may_end = threading.Event(), threading.Event()

    def run(x: Any) -> Any:
        if x[0, 0] != NARROW:
            return x
        has_begun.set()
        assert may_end.wait(WAIT_S)
        return x[:, :1]

    monkeypatch.setattr(engine, "run", run)
    served = serve({"replying": {**PIPELINE["replying"], "instance_num": 2}})
    teach(served, infer(1, id="mine"))
    with served.connect() as mine, served.connect() as other:
        mine.sendall(infer(NARROW, id="mine"))
        assert has_begun.wait(WAIT_S)
        assert {id_of(ask(other, infer(number, id="hers"))) for number in range(3)} == {"hers"}
        may_end.set()
        assert id_of(read_answer(mine)) == "mine"


def id_of(answer: Answer) -> str:
    """What the JSON of an answer says of its id."""
    size = int(answer.headers["inference-header-content-length"])
    return str(json.loads(answer.body[:size])["id"])


def test_texts_that_take_turns_under_one_head_get_each_their_own_answer(served: Served) -> None:
    with served.connect() as connection:
        for number in range(12):
            id = ("mine", "hers", "ours")[number % 3]
            assert id_of(ask(connection, infer(number, id=id))) == id


def test_an_error_is_answered_as_on_other_ways(served: Served, engine: Replying, monkeypatch: Any) -> None:
    with served.connect() as connection:
        monkeypatch.setattr(engine, "run", lambda x: 1 / 0)
        assert ask(connection, infer(1)).status == 500
        monkeypatch.undo()
        assert row_of(ask(connection, infer(2))) == [2, 0, 0, 0]


def test_a_thread_with_a_full_batch_before_it_leaves_the_writing_to_the_loop(
    served: Served, engine: Replying, eventually: Any, waiting_at: Any, monkeypatch: Any
) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def run(x: Any) -> Any:
        has_begun.set()
        assert may_end.wait(WAIT_S)
        return x

    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(served.connect()) for _ in range(3 * MAX_ROWS)]
        send_and_wait_for_run(connections[0], engine, eventually, infer(0))
        for number, connection in enumerate(connections[1:], 1):
            connection.sendall(infer(number))
        eventually(lambda: waiting_at(served) == len(connections) - 1)
        monkeypatch.setattr(engine, "run", run)
        with a_busy_loop(served):
            engine.gate.set()
            assert has_begun.wait(WAIT_S)
            assert not any(map(has_come, connections))
            may_end.set()
        assert [row_of(read_answer(one))[0] for one in connections] == list(range(len(connections)))


def has_come(connection: socket.socket) -> bool:
    """Tell whether anything has come that was not read."""
    return bool(select.select([connection], [], [], 0)[0])


def test_what_the_socket_does_not_take_is_written_by_the_loop(
    served: Served, engine: Replying, eventually: Any
) -> None:
    with served.connect() as connection:
        row_of(ask(connection, infer(WIDE)))  # shows the form
        send_and_wait_for_run(connection, engine, eventually, infer(WIDE, 7))
        with a_busy_loop(served):
            engine.gate.set()
            eventually(lambda: has_come(connection))
        assert sum(row_of(read_answer(connection))) == WIDE + 7
        row_of(ask(connection, infer(WIDE, 8)))
        assert row_of(ask(connection, infer(1))) == [1, 0, 0, 0]


def read_rows(connection: socket.socket, *numbers: float) -> None:
    """Read the answers to rows that begin so; they may come in one piece, which `http.client` would lose."""
    received, rows = b"", [np.array([number, 0, 0, 0], np.float32).tobytes() for number in numbers]
    while not received.endswith(rows[-1]):
        part = connection.recv(65536)
        assert part, received
        received += part
    assert received.count(b"HTTP/1.1 200") == len(rows)
    places = [received.index(row) for row in rows]
    assert places == sorted(places)


def test_requests_that_come_in_one_piece_are_answered_in_order(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(infer(1) + infer(2))
        read_rows(connection, 1, 2)


def test_a_request_that_does_not_wait_for_the_answer_before_it_is_answered(
    served: Served, engine: Replying, eventually: Any
) -> None:
    with served.connect() as connection:
        send_and_wait_for_run(connection, engine, eventually, infer(1))
        connection.sendall(infer(2))
        engine.gate.set()
        read_rows(connection, 1, 2)


def test_a_client_that_has_gone_takes_nobody_along(served: Served, engine: Replying, eventually: Any) -> None:
    with served.connect() as connection:
        send_and_wait_for_run(connection, engine, eventually, infer(1))
    eventually(lambda: served.service.num_running == 0)
    engine.gate.set()
    with served.connect() as connection:
        assert row_of(ask(connection, infer(2))) == [2, 0, 0, 0]


def test_a_late_answer_is_not_written_behind_the_error(serve: Any, engine: Replying) -> None:
    served = serve(PIPELINE, timeout_s=0.05)
    teach(served)
    engine.gate.clear()
    with served.connect() as connection:
        assert ask(connection, infer(1)).status == 504
        engine.gate.set()
        assert row_of(ask(connection, infer(2))) == [2, 0, 0, 0]


def test_a_server_that_ends_closes_the_connection_behind_the_answer(
    served: Served, engine: Replying, eventually: Any
) -> None:
    with served.connect() as connection:
        send_and_wait_for_run(connection, engine, eventually, infer(1))
        served.begin_to_stop()
        eventually(lambda: served.service.is_draining)
        engine.gate.set()
        assert row_of(read_answer(connection)) == [1, 0, 0, 0]
        assert read_all(connection) == b""


def test_encrypted_requests_go_the_direct_way(
    serve: Any, engine: Replying, taken: list[str], eventually: Any, tls_files: tuple[Path, Path]
) -> None:
    certificate, key = tls_files
    served = serve(PIPELINE, certificate=certificate, key=key)
    context = ssl.create_default_context(cafile=certificate)
    with context.wrap_socket(served.connect(), server_hostname="127.0.0.1") as connection:
        rows = [row_of(ask(connection, infer(number))) for number in (1, 2, 3, 4)]
    assert [row[0] for row in rows] == [1, 2, 3, 4]
    eventually(lambda: taken == ["direct"] * 3)


def test_many_connections_at_once_get_each_their_own(
    served: Served, taken: list[str], eventually: Any
) -> None:
    def talk(first: int) -> list[float]:
        with served.connect() as connection:
            return [row_of(ask(connection, infer(first + step)))[0] for step in range(50)]

    with ThreadPoolExecutor(8) as callers:
        found = list(callers.map(talk, range(0, 800, 100)))
    assert found == [[first + step for step in range(50)] for first in range(0, 800, 100)]
    eventually(lambda: len(taken) == 400 and set(taken) == {"express"})
