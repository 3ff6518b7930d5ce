"""Laws of the parts of the express way by themselves: the tally, what is known of requests, a connection."""

from __future__ import annotations

import asyncio
import socket
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from probes import WAIT_S, wait_until

import hami
from hami import _core

# --- the tally ---

BOUNDS = (0.5, 1.0, 4.0)


@given(st.lists(st.floats(0, 10) | st.sampled_from(BOUNDS)))
def test_each_value_is_counted_between_its_bounds(values: list[float]) -> None:
    tally = _core.BoundedTally(BOUNDS)
    expected = [0] * (len(BOUNDS) + 1)
    for value in values:
        tally.add(value)
        expected[bisect_left(BOUNDS, value)] += 1
    counts, total = tally.read()
    assert counts == expected
    assert total == pytest.approx(sum(values))


@pytest.mark.parametrize("bounds", [(2, 1), (1, 1), (0, float("nan"))])
def test_bounds_that_do_not_grow_are_refused(bounds: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="above the one before"):
        _core.BoundedTally(bounds)


def test_threads_lose_no_value() -> None:
    tally = _core.BoundedTally(BOUNDS)
    threads = [threading.Thread(target=lambda: [tally.add(0.25) for _ in range(10_000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert tally.read() == ([40_000, 0, 0, 0], 10_000.0)


# --- what is known ---

HEAD = b"POST /v1/pipeline HTTP/1.1\r\n\r\n"


def form_of(pipe: hami.Pipeline, **more: Any) -> _core.ExpressForm:
    """What is known of requests with three bytes, unless `more` says otherwise."""
    known = {
        "keys": {"data": b""},
        "keys_of": lambda body: {"data": body},
        "node": None,
        "head": HEAD,
        "text": b"",
        "num_body_bytes": 3,
        "dtype": None,
        "shape": (),
        "reply": _core.ReplyForm(b"content-type: x/y\r\n"),
        "seconds": _core.BoundedTally(BOUNDS),
        "path": "/v1/pipeline",
    }
    return _core.ExpressForm(pipeline=pipe, **{**known, **more})


@pytest.fixture
def pipe(clean_registry: None) -> Iterator[hami.Pipeline]:
    with hami.pipe("Identity") as made:
        yield made


@pytest.mark.parametrize(
    "wrong",
    [
        {"text": b"four"},
        {"text": b"four", "dtype": "float32", "shape": (0,)},
        {"dtype": "float32", "shape": (1,)},
        {"dtype": "float32", "shape": (1,), "num_body_bytes": 5},
    ],
)
def test_data_that_are_not_the_rest_of_the_request_are_refused(pipe: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="not the whole body"):
        form_of(pipe, **wrong)


def test_an_unknown_type_of_elements_is_refused(pipe: Any) -> None:
    with pytest.raises(ValueError, match="no such type"):
        form_of(pipe, dtype="float31", shape=(1,))
    with pytest.raises(ValueError, match="no such type"):
        _core.ReplyForm(b"", b"", "float31", (1,))


def test_an_unknown_node_and_a_wrong_key_are_errors_of_the_request(pipe: Any) -> None:
    with pytest.raises(hami.RequestError, match="nowhere"):
        form_of(pipe, node="nowhere")
    with pytest.raises(hami.RequestError, match="priority"):
        form_of(pipe, keys={"data": b"", "priority": "high"})


# --- a connection ---


class Owner:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []

    def express_ended(self, *told: Any) -> None:
        self.told.append(told)


class Line:
    """Both ends of a connection, and the loop's queue of answers."""

    def __init__(self) -> None:
        self.logged: list[tuple[Any, ...]] = []
        self.idle: list[bool] = []
        self.owner = Owner()
        self.client, self._server = socket.socketpair()
        self.client.settimeout(WAIT_S)
        self.queue = _core.AnswerQueue()
        self.desk = _core.ExpressDesk(lambda *line: self.logged.append(line), lambda: self.idle.append(True))
        self.desk.set_common_headers(b"server: test\r\n")
        self.connection = _core.ExpressConnection(self.desk, self.queue, self._server.fileno(), self.owner)

    def answer(self) -> bytes:
        return self.client.recv(65536)

    def is_free(self) -> bool:
        """Tell whether the loop has heard of the last answer."""
        self.queue.deliver()
        return not self.connection.is_running

    def close(self) -> None:
        self.connection.close()
        self.client.close()
        self._server.close()


@pytest.fixture
def line() -> Iterator[Line]:
    made = Line()
    yield made
    made.close()


def test_an_answer_is_whole(pipe: Any, line: Line) -> None:
    named = HEAD.replace(b"\r\n\r\n", b"\r\nX-Request-Id: mine\r\n\r\n")
    assert line.connection.begin_with(form_of(pipe), named + b"abc")
    head, _, body = line.answer().partition(b"\r\n\r\n")
    assert body == b"abc"
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"server: test",
        b"content-type: x/y",
        b"x-request-id: mine",
        b"content-length: 3",
    ]
    (logged,) = line.logged
    assert (logged[0], logged[1], logged[3]) == ("/v1/pipeline", 3, b"mine")
    assert line.owner.told == []


def test_each_request_gets_an_id_of_its_own(pipe: Any, line: Line) -> None:
    form = form_of(pipe)
    ids = set()
    for _ in range(100):
        assert line.connection.begin_with(form, HEAD + b"abc")
        line.answer()
        ids.add(line.logged[-1][3])
    assert len(ids) == 100
    assert {len(id) for id in ids} == {16}


def test_only_the_same_beginning_and_size_go_on(pipe: Any, line: Line) -> None:
    form = form_of(pipe)
    assert line.connection.begin(HEAD + b"abc") == 0  # nothing is known yet
    assert line.connection.begin_with(form, HEAD + b"ab") == 0
    assert line.connection.begin_with(form, HEAD[:-1] + b"xabc") == 0
    assert line.connection.begin_with(form, HEAD + b"abc")
    assert line.connection.begin(HEAD + b"def")
    assert line.connection.begin(HEAD + b"defg") == 0
    assert line.connection.begin(HEAD + b"def") == 0  # something else has come meanwhile
    assert line.connection.begin_with(form, HEAD + b"ghi")
    assert not line.connection.is_running


def test_nothing_begins_on_a_desk_that_drains(pipe: Any, line: Line) -> None:
    line.desk.drain()
    assert line.connection.begin_with(form_of(pipe), HEAD + b"abc") == 0


def test_nothing_begins_on_a_closed_connection(pipe: Any, line: Line) -> None:
    line.connection.close()
    assert line.connection.begin_with(form_of(pipe), HEAD + b"abc") == 0


def test_arrays_are_read_from_wherever_they_lie(clean_registry: None, line: Line) -> None:
    seen: list[Any] = []

    def forward(self: Any, batch: list[dict[str, Any]]) -> list[Any]:
        seen.extend(np.array(item["data"]) for item in batch)
        return [item["data"] for item in batch]

    hami.register("Seen", type("Seen", (hami.Backend,), {"forward": forward}))
    with hami.pipe("Seen") as pipe:
        numbers = np.arange(6, dtype=np.float64).reshape(2, 3)
        for padding in range(8):
            text = b" " * padding
            form = form_of(
                pipe,
                text=text,
                num_body_bytes=len(text) + numbers.nbytes,
                keys_of=lambda body: {"data": np.frombuffer(body).reshape(2, 3)},
                dtype="float64",
                shape=(2, 3),
                reply=_core.ReplyForm(b"", b"text", "float64", (2, 3)),
            )
            assert line.connection.begin_with(form, HEAD + text + numbers.tobytes())
            body = line.answer().partition(b"\r\n\r\n")[2]
            assert body == b"text" + numbers.tobytes()
            wait_until(line.is_free)
    assert len(seen) == 8
    assert all((found == numbers).all() for found in seen)


class Held:
    """A backend that keeps its requests until it is let go."""

    def __init__(self) -> None:
        self.has_begun, self.may_end = threading.Event(), threading.Event()

        def forward(backend: Any, batch: list[dict[str, Any]]) -> list[Any]:
            self.has_begun.set()
            assert self.may_end.wait(WAIT_S)
            return [self.work(item) for item in batch]

        hami.register("Held", type("Held", (hami.Backend,), {"forward": forward}))

    def work(self, item: dict[str, Any]) -> Any:
        return item["data"]


@pytest.fixture
def held(clean_registry: None, line: Line) -> Iterator[tuple[Held, Callable[[], None]]]:
    """A backend that has begun a request of the connection, and what ends it and tells the loop."""
    backend = Held()
    with hami.pipe({"held": {"backend": "Held"}}) as pipe:
        assert line.connection.begin_with(form_of(pipe), HEAD + b"abc") == 2
        assert backend.has_begun.wait(WAIT_S)

        def end() -> None:
            backend.may_end.set()
            asyncio.run(readable(line.queue))
            line.queue.deliver()

        yield backend, end
        backend.may_end.set()


async def readable(queue: _core.AnswerQueue) -> None:
    """Wait until there are answers."""
    loop, is_there = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(queue.fileno(), is_there.set)
    await asyncio.wait_for(is_there.wait(), WAIT_S)
    loop.remove_reader(queue.fileno())


def test_one_request_runs_at_a_time(held: Any, line: Line) -> None:
    assert line.connection.is_running
    assert line.connection.begin(HEAD + b"def") == 0
    assert line.desk.num_running == 1
    held[1]()
    assert not line.connection.is_running
    assert line.desk.num_running == 0
    assert line.answer().endswith(b"abc")


def test_who_watches_is_told_of_the_end(held: Any, line: Line) -> None:
    line.connection.watch()
    held[1]()
    ((error, finished, rest, id, _),) = line.owner.told
    assert (error, finished, rest) == (None, None, b"")
    assert id in line.answer()


def test_another_result_is_for_the_owner(held: Any, line: Line) -> None:
    held[0].work = lambda item: 7
    held[1]()
    ((error, finished, rest, _, _),) = line.owner.told
    assert (error, finished, rest) == (None, {"data": b"", "result": 7}, b"")


def test_an_error_is_for_the_owner(held: Any, line: Line) -> None:
    held[0].work = lambda item: 1 // 0
    held[1]()
    ((error, finished, _, _, _),) = line.owner.told
    assert isinstance(error, ZeroDivisionError)
    assert finished is None
    assert line.logged == []


def test_a_request_that_is_taken_is_nobodys_any_more(held: Any, line: Line) -> None:
    id, start_s = line.connection.take()  # type: ignore[misc]
    assert len(id) == 16 and start_s > 0
    assert line.connection.take() is None
    assert line.desk.num_running == 0
    held[1]()
    assert (line.owner.told, line.logged) == ([], [])


def test_a_request_whose_client_has_gone_is_counted_once(held: Any, line: Line) -> None:
    held[0].may_end.set()
    assert line.answer().endswith(b"abc")
    assert line.connection.take() is None  # it has its answer
    line.connection.close()
    held[1]()
    assert len(line.logged) == 1
    assert line.owner.told == []


def test_those_that_began_before_are_found(held: Any, line: Line) -> None:
    start_s = line.desk.oldest_start_s
    assert start_s is not None
    assert line.desk.begun_before(start_s) == []
    assert line.desk.begun_before(start_s + 1) == [line.owner]
    held[1]()
    assert line.desk.oldest_start_s is None
    assert line.desk.begun_before(start_s + 1) == []


def test_the_last_one_of_a_desk_that_drains_is_told(held: Any, line: Line) -> None:
    line.desk.drain()
    assert line.idle == []
    held[1]()
    assert line.idle == [True]


def test_a_refused_request_is_an_error_at_once(held: Any, line: Line) -> None:
    with hami.pipe("Identity") as closed:
        form = form_of(closed)
    held[1]()
    assert line.connection.begin_with(form, HEAD + b"abc") == 1
    ((error, finished, _, _, _),) = line.owner.told
    assert isinstance(error, hami.Closed)
    assert finished is None
    assert not line.connection.is_running


def test_objects_that_were_never_made_are_refused() -> None:
    for kind in (_core.BoundedTally, _core.ExpressDesk, _core.ExpressConnection):
        empty = kind.__new__(kind)
        for name in ("read", "drain", "take", "close", "watch"):
            if hasattr(kind, name):
                with pytest.raises(TypeError, match="never made"):
                    getattr(empty, name)()


def test_a_queue_that_was_never_made_is_refused(line: Line, pipe: Any) -> None:
    queue = _core.AnswerQueue.__new__(_core.AnswerQueue)
    with pytest.raises(TypeError, match="never made"):
        _core.ExpressConnection(line.desk, queue, 0, line.owner)
    with pytest.raises(TypeError, match="never made"):
        pipe.start({"data": 1}, print, queue)


def test_a_descriptor_that_is_none_is_refused(line: Line) -> None:
    with pytest.raises(OSError):
        _core.ExpressConnection(line.desk, line.queue, -1, line.owner)
