"""Requests that go from their connection to the pipeline and back without the web framework in between.

Programs send the same head again and again. One that the parser has taken, of a request that needs nothing
but its body, is kept, and a request that arrives whole under it begins with a look into a dict. Everything
else goes the long way, through the parser and the application, which answers alike. All of it belongs to the
event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from .. import _core
from ..answers import answers_of
from .access import Admission, given_id, log_request, new_id
from .answer import Answer
from .errors import error_response
from .limits import late_answer
from .service import Service

_MAX_HEADS = 512
_MAX_HEAD_BYTES = 4096
_END_OF_HEAD = b"\r\n\r\n"
# A request with one of these wants more than an answer to its body.
_LONG_WAY = frozenset({b"connection", b"content-encoding", b"expect", b"transfer-encoding", b"upgrade"})

End = Callable[[dict[str, Any]], Answer]


class KnownForm(NamedTuple):
    """What is known of an answer before it is there, if its array has the form of those before.

    Whoever has it can then write it without Python: `headers` with their line ends, and a body of
    `num_body_bytes`.
    """

    headers: bytes
    num_body_bytes: int
    form: _core.ReplyForm


class Begun(NamedTuple):
    """The dict for the pipeline, what makes the answer of it, and what is known of that."""

    keys: dict[str, Any]
    end: End
    known: KnownForm | None = None


Begin = Callable[[bytes], Begun | None]


class Call(NamedTuple):
    """A route for POST whose work lies in two functions, one before and one behind the pipeline.

    `route` is its path as declared, `node` the one that runs, None for all. `prepare` gets the headers, names
    in lower case, and returns what makes of a body the dict for the pipeline and the function for its answer.
    Either of the two returns None for what must go the long way.
    """

    route: str
    node: str | None
    prepare: Callable[[Mapping[bytes, bytes]], Begin | None]


class Head(NamedTuple):
    """What is known of every request with one head."""

    call: Call
    path: str
    begin: Begin
    num_body_bytes: int
    request_id: bytes | None


class Connection(Protocol):
    """What an exchange needs of its connection."""

    exchange: Exchange | None

    def common_headers(self) -> bytes:
        """Return the lines that every answer has."""

    def send_answer(self, data: bytes) -> None:
        """Send a whole answer, or what is left of it, and be free for the next request."""

    def reply_socket(self) -> _core.ReplySocket | None:
        """Return where others may write the next answer; None: only the connection itself may."""


class DirectRequests:
    """Those of one server: the heads that it knows, and what runs now."""

    def __init__(self, service: Service, calls: Mapping[bytes, Call]) -> None:
        self.service = service
        self._calls = calls
        self._admission = Admission(service.settings.token)
        self._heads: dict[bytes, Head] = {}
        self._running: dict[Exchange, float] = {}  # with the end of their time, the earliest first
        self._timer: asyncio.TimerHandle | None = None
        self._answers: _core.AnswerQueue | None = None

    # --- heads ---

    def begin(self, data: bytes, connection: Connection) -> bool:
        """Begin the request that `data` is; False: it is not a whole one under a known head."""
        size = data.find(_END_OF_HEAD) + len(_END_OF_HEAD)
        head = self._heads.get(data[:size])
        if head is None or len(data) - size != head.num_body_bytes or self.service.is_draining:
            return False
        return Exchange(self, head, connection).begin(data[size:])

    def learn(self, data: bytes, target: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        """Keep the head of a request if it is good for this way. The parser took `data` for one request."""
        call = self._calls.get(target)
        if call is None or not data.startswith(b"POST " + target + b" HTTP/1.1\r\n"):
            return
        size = data.find(_END_OF_HEAD) + len(_END_OF_HEAD)
        text = data[:size]
        first = dict(reversed(headers))  # of each name
        length = first.get(b"content-length", b"")
        if not length.isdigit() or int(length) != len(data) - size or size > _MAX_HEAD_BYTES:
            return
        if not first.keys().isdisjoint(_LONG_WAY) or text.count(b"\n") != text.count(b"\r\n"):
            return
        is_welcome = int(length) <= self.service.settings.max_body_bytes and self._admission.admits(
            first.get(b"authorization")
        )
        begin = call.prepare(first) if is_welcome else None
        if begin is None:
            return
        if len(self._heads) >= _MAX_HEADS:
            self._heads.clear()  # those in use come back with their next request
        id = given_id(first.get(b"x-request-id"))
        self._heads[text] = Head(call, target.decode(), begin, int(length), id)

    # --- what runs ---

    def add(self, exchange: Exchange) -> None:
        """Count a request, and give it its time."""
        self.service.begin()
        self.service.http_counts.begin()
        self._running[exchange] = exchange.start_s + self.service.settings.timeout_s
        if self._timer is None:
            self._set_timer(self.service.settings.timeout_s)

    def remove(self, exchange: Exchange, status: int, num_bytes: int) -> None:
        """Count a request as done."""
        del self._running[exchange]
        self.service.end()
        head, seconds = exchange.head, time.perf_counter() - exchange.start_s
        self.service.http_counts.end("POST", head.call.route, str(status), seconds)
        log_request("POST", head.path, status, num_bytes, seconds, exchange.id)

    def answers(self) -> _core.AnswerQueue:
        """Return the queue of the event loop."""
        if self._answers is None:
            self._answers = answers_of(asyncio.get_running_loop())
        return self._answers

    def _set_timer(self, seconds: float) -> None:
        # One for all requests: it is set anew when it has run out, not for each.
        self._timer = asyncio.get_running_loop().call_later(seconds, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        now = time.perf_counter()
        late = []
        for exchange, end_s in self._running.items():
            if end_s > now:
                self._set_timer(end_s - now)
                break
            late.append(exchange)
        for exchange in late:
            exchange.fail(late_answer(self.service.settings))


class Exchange:
    """One request and its answer."""

    __slots__ = ("_begun", "_connection", "_direct", "_reply", "_request", "head", "id", "start_s")

    def __init__(self, direct: DirectRequests, head: Head, connection: Connection) -> None:
        self.head = head
        self.id = head.request_id or new_id()
        self.start_s = time.perf_counter()
        self._direct = direct
        self._connection: Connection | None = connection  # None once it is over
        self._request: _core.Request | None = None
        self._reply: _core.SocketReply | None = None

    def begin(self, body: bytes) -> bool:
        """Submit the request, or answer what is wrong with it; False: it must go the long way."""
        try:
            begun = self.head.begin(body)
        except Exception as error:
            self._enter()
            self.fail(error)
            return True
        if begun is None:
            return False
        self._enter()
        self._begun = begun
        direct = self._direct
        if begun.known is not None:
            self._prepare_reply(begun.known)
        try:
            pipe, node = direct.service.pipe, self.head.call.node
            self._request = pipe.start(
                begun.keys, self._on_done, direct.answers(), node=node, reply=self._reply
            )
        except Exception as error:
            self.fail(error)
        return True

    def fail(self, error: BaseException) -> None:
        """Take the request out of the pipeline, and answer with an error, unless the answer is on its way."""
        self._cancel()  # first: whoever has the answer may count on it
        if self._reply is not None and not self._reply.claim():
            return
        response = error_response(error, self._direct.service.settings)  # which logs what is not shown
        headers = b"".join(b"%b: %b\r\n" % header for header in response.raw_headers)
        self._send(response.status_code, headers, bytes(response.body))

    def leave(self) -> None:
        """Note that the client has gone."""
        self._connection = None
        if self._reply is not None and not self._reply.claim():  # it has had its answer
            self._direct.remove(self, 200, self._num_sent())
        else:
            self._direct.remove(self, 499, 0)
            self._cancel()

    def settle(self) -> bool:
        """Note that the answer has been written by who had it; False: it has not."""
        if self._reply is None or not self._reply.is_sent:
            return False
        self._finish(200, self._num_sent(), self._reply.rest)
        return True

    def _num_sent(self) -> int:
        assert self._begun.known is not None
        return self._begun.known.num_body_bytes

    def _prepare_reply(self, known: KnownForm) -> None:
        connection = self._connection
        assert connection is not None
        socket = connection.reply_socket()
        if socket is not None:
            head = _head(200, connection.common_headers(), known.headers, self.id)
            self._reply = _core.SocketReply(socket, known.form, head)

    def _enter(self) -> None:
        assert self._connection is not None
        self._connection.exchange = self
        self._direct.add(self)

    def _on_done(self, error: BaseException | None) -> None:
        if self._connection is None or self.settle():
            return
        if error is not None:
            return self.fail(error)
        try:
            body, content_type, more = self._begun.end(self._begun.keys)
        except Exception as raised:
            return self.fail(raised)
        self._send(200, headers_of(len(body), content_type, more), body)

    def _send(self, status: int, headers: bytes, body: bytes) -> None:
        assert self._connection is not None
        head = _head(status, self._connection.common_headers(), headers, self.id)
        self._finish(status, len(body), head + body)

    def _finish(self, status: int, num_body_bytes: int, data: bytes) -> None:
        connection, self._connection = self._connection, None
        assert connection is not None
        self._direct.remove(self, status, num_body_bytes)
        connection.exchange = None
        connection.send_answer(data)

    def _cancel(self) -> None:
        if self._request is not None:
            self._request.cancel()


def headers_of(num_bytes: int, content_type: str, more: Iterable[tuple[str, str]]) -> bytes:
    """Return the headers of an answer with that body, with their line ends."""
    headers = b"content-length: %d\r\ncontent-type: %b\r\n" % (num_bytes, content_type.encode())
    for name, value in more:
        headers += f"{name.lower()}: {value}\r\n".encode()
    return headers


def _head(status: int, common: bytes, headers: bytes, id: bytes) -> bytes:
    return b"%b%b%bx-request-id: %b\r\n\r\n" % (STATUS_LINE[status], common, headers, id)
