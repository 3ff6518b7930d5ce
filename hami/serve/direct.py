"""Requests that go from their connection to the pipeline and back without the web framework in between.

Programs send the same head again and again, but for lines that say who asks and not what. One that the parser
has taken, of a request that needs nothing but its body, is kept without those lines, and a request that comes
whole under it begins with a look into a dict. Everything else goes the long way, through the parser and the
application, which answers alike. What has proved to be regular goes the express way (`express.py`). All of it
belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from .. import _core
from ..answers import answers_of
from .access import Admission, new_id
from .errors import error_response
from .express import End, Express, Known, Learn
from .limits import late_answer
from .log_lines import log_request
from .service import Service

_MAX_HEADS = 512
# A request with one of these wants more than an answer to its body.
_LONG_WAY = frozenset({b"connection", b"content-encoding", b"expect", b"transfer-encoding", b"upgrade"})


class Begun(NamedTuple):
    """The dict for the pipeline, what makes the answer of it, and what tells what such requests are like."""

    keys: dict[str, Any]
    end: End
    learn: Learn | None = None


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


@dataclass
class Head:
    """What is known of every request with the head `text`, as `read_head` leaves it."""

    text: bytes
    call: Call
    path: str
    begin: Begin
    num_body_bytes: int
    express: Express | None = None


class Connection(Protocol):
    """What an exchange needs of its connection."""

    exchange: Exchange | None

    def begin_express(self, head: Head, express: Express, data: bytes) -> bool:
        """Send a request the express way if it can go there."""

    def send_answer(self, data: bytes) -> None:
        """Send a whole answer, or what is left of it, and be free for the next request."""


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
        self.common_headers = b""

    def set_common_headers(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Set what every answer has from now on."""
        self.common_headers = b"".join(b"%b: %b\r\n" % header for header in headers)
        self.service.express.set_common_headers(self.common_headers)

    # --- heads ---

    def begin(self, data: bytes, connection: Connection) -> bool:
        """Begin the request that `data` is; False: it is not a whole one under a known head."""
        found = _core.read_head(data)
        if found is None or found[1] > self.service.settings.max_header_bytes:
            return False
        text, size, id = found
        head = self._heads.get(text)
        if head is None or len(data) - size != head.num_body_bytes or self.service.is_draining:
            return False
        if head.express is not None and connection.begin_express(head, head.express, data):
            return True
        return Exchange(self, head, connection, id).begin(data[size:])

    def learn(self, data: bytes, target: bytes, headers: list[tuple[bytes, bytes]]) -> None:
        """Keep the head of a request if it is good for this way. The parser took `data` for one request."""
        call = self._calls.get(target)
        if call is None or not data.startswith(b"POST " + target + b" HTTP/1.1\r\n"):
            return
        found = _core.read_head(data)
        if found is None:
            return
        text, size, _ = found
        first = dict(reversed(headers))  # of each name
        length = first.get(b"content-length", b"")
        if not length.isdigit() or int(length) != len(data) - size:
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
        self._heads[text] = Head(text, call, target.decode(), begin, int(length))

    def learn_express(self, head: Head, known: Known) -> None:
        """Let requests of which that is known go the express way."""
        service = self.service
        is_news = head.express is None or head.express.known is not known
        if not is_news or service.settings.max_header_bytes < _core.MOST_HEAD_BYTES:
            return
        form = _core.ExpressForm(
            pipeline=service.pipe,
            keys=known.keys,
            keys_of=known.keys_of,
            node=head.call.node,
            head=head.text,
            text=known.text,
            num_body_bytes=head.num_body_bytes,
            dtype=known.dtype,
            shape=known.shape,
            reply=known.reply,
            seconds=service.http_counts.tally("POST", head.call.route, "200"),
            path=head.path,
        )
        head.express = Express(known, form)

    # --- what runs ---

    def add(self, exchange: Exchange) -> None:
        """Count a request, and give it its time."""
        self.service.begin()
        self.service.http_counts.begin()
        self._running[exchange] = exchange.start_s + self.service.settings.timeout_s
        self.keep_time()

    def keep_time(self) -> None:
        """See to it that whatever runs now ends in time."""
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
        now, timeout_s = time.perf_counter(), self.service.settings.timeout_s
        for exchange in [exchange for exchange, end_s in self._running.items() if end_s <= now]:
            exchange.fail(late_answer(self.service.settings))
        for connection in self.service.express.begun_before(now - timeout_s):
            connection.fail_express(late_answer(self.service.settings))
        self._timer = None  # only now: whoever began meanwhile would have set it too late for others
        oldest_s = self.service.express.oldest_start_s
        ends_s = [] if oldest_s is None else [oldest_s + timeout_s]
        ends_s += list(self._running.values())[:1]
        if ends_s:
            self._set_timer(max(min(ends_s) - now, 0))


class Exchange:
    """One request and its answer; with an empty id it gets one."""

    __slots__ = ("_begun", "_connection", "_direct", "_request", "head", "id", "start_s")

    def __init__(
        self,
        direct: DirectRequests,
        head: Head,
        connection: Connection,
        id: bytes,
        start_s: float | None = None,
    ) -> None:
        self.head = head
        self.id = id or new_id()
        self.start_s = time.perf_counter() if start_s is None else start_s
        self._direct = direct
        self._connection: Connection | None = connection  # None once it is over
        self._request: _core.Request | None = None

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
        try:
            pipe, node = direct.service.pipe, self.head.call.node
            self._request = pipe.start(begun.keys, self._on_done, direct.answers(), node=node)
        except Exception as error:
            self.fail(error)
        return True

    def take_over(self, known: Known, error: BaseException | None, finished: dict[str, Any] | None) -> None:
        """Answer for a request that went the express way: with the error, or from the finished dict."""
        self._enter()
        self._begun = Begun(finished or {}, known.end, known.learn)
        self._on_done(error)

    def leave_express(self) -> None:
        """Note that the client of a request on the express way has gone."""
        self._enter()
        self.leave()

    def fail(self, error: BaseException) -> None:
        """Take the request out of the pipeline, and answer with an error."""
        self._cancel()
        response = error_response(error, self._direct.service.settings)  # which logs what is not shown
        headers = b"".join(b"%b: %b\r\n" % header for header in response.raw_headers)
        self._send(response.status_code, headers, bytes(response.body))

    def leave(self) -> None:
        """Note that the client has gone."""
        self._connection = None
        self._direct.remove(self, 499, 0)
        self._cancel()

    def _enter(self) -> None:
        assert self._connection is not None
        self._connection.exchange = self
        self._direct.add(self)

    def _on_done(self, error: BaseException | None) -> None:
        if self._connection is None:
            return
        if error is not None:
            return self.fail(error)
        begun = self._begun
        try:
            body, content_type, more = begun.end(begun.keys)
            if begun.learn is not None and (known := begun.learn(begun.keys)) is not None:
                self._direct.learn_express(self.head, known)
        except Exception as raised:
            return self.fail(raised)
        self._send(200, headers_of(content_type, more) + b"content-length: %d\r\n" % len(body), body)

    def _send(self, status: int, headers: bytes, body: bytes) -> None:
        connection, self._connection = self._connection, None
        assert connection is not None
        self._direct.remove(self, status, len(body))
        connection.exchange = None
        head = (STATUS_LINE[status], self._direct.common_headers, headers, self.id)
        connection.send_answer(b"%b%b%bx-request-id: %b\r\n\r\n" % head + body)

    def _cancel(self) -> None:
        if self._request is not None:
            self._request.cancel()


def headers_of(content_type: str, more: Iterable[tuple[str, str]]) -> bytes:
    """Return the headers of an answer with their line ends, but for its length."""
    headers = b"content-type: %b\r\n" % content_type.encode()
    for name, value in more:
        headers += f"{name.lower()}: {value}\r\n".encode()
    return headers
