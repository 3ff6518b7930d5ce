"""`Protocol`: uvicorn's HTTP/1.1, with bounds for the head of a request and JSON for what is no request.

uvicorn waits for ever for the first request of a connection, and takes headers of any size. One object is one
connection; all of it runs on the event loop.
"""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from .. import _core
from .direct import DirectRequests, Exchange, Head
from .errors import error_response
from .express import Express, Known
from .pipelining import PatientFlow
from .refusal import ServeError
from .settings import Settings

_LINGER_S = 5.0  # how long the rest of a body is thrown away after the answer, so that its client hears it


class Protocol(HttpToolsProtocol):
    """One connection of a server with these settings; `bound_by` makes the class."""

    settings: ClassVar[Settings] = Settings()
    direct: ClassVar[DirectRequests]

    @classmethod
    def of(cls, direct: DirectRequests) -> type[Protocol]:
        """Return the protocol of a server, with the bounds of its settings."""
        return type(cls.__name__, (cls,), {"settings": direct.service.settings, "direct": direct})

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.head_timer: asyncio.TimerHandle | None = None
        self.is_in_head = False
        self.is_in_body = False
        self.head_bytes = 0  # of the present request, as far as they are known
        self.num_begun = 0  # requests
        self.num_complete = 0
        self.refusal: ServeError | None = None
        self.running: RequestResponseCycle | None = None  # whose answer is due
        self.exchange: Exchange | None = None  # the request that goes the direct way now
        self.express: _core.ExpressConnection | None = None  # has begun one on the express way
        self.last_express: tuple[Head, Known] | None = None  # of the last one there
        self.held = b""  # what came while a request went either way
        self.is_encrypted = False
        self.idle_since_s = 0.0
        self.closes_after_answer = False

    # --- the connection ---

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = PatientFlow(transport, self.pipeline)
        self.is_encrypted = transport.get_extra_info("sslcontext") is not None
        self._set_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        self._unset_head_timer()
        if self.exchange is not None:
            self.exchange.leave()
            self.exchange = None
        if self.express is not None:
            taken = self.express.take()
            if taken is not None and self.last_express is not None:
                Exchange(self.direct, self.last_express[0], self, *taken).leave_express()
            self.express.close()
        super().connection_lost(exc)
        # uvicorn tells the last request that came, which may still wait for its turn.
        if self.running is not None and not self.running.response_complete:
            self.running.disconnected = True
            self.running.message_event.set()

    def data_received(self, data: bytes) -> None:
        if self.express is not None:
            if self._is_taken(self.express.begin(data)):
                return
            if self.express.is_running:
                self.express.watch()
                return self._hold(data)
        if self.exchange is not None:
            return self._hold(data)
        can_be_new = not self.is_in_head and not self.is_in_body and self._open_cycle() is None
        if can_be_new and not self.flow.write_paused and self.direct.begin(data, self):
            if self.head_timer is not None:
                self._unset_head_timer()
            return
        num_begun, num_complete = self.num_begun, self.num_complete
        self._parse(data)
        is_one = self.num_begun == num_begun + 1 and self.num_complete == num_complete + 1
        if can_be_new and is_one:
            self.direct.learn(data, self.url, self.headers)

    def _hold(self, data: bytes) -> None:
        self.held += data
        self.flow.pause_reading()

    def _parse(self, data: bytes) -> None:
        was_in_head, was_in_body, num_before = self.is_in_head, self.is_in_body, self.num_begun
        super().data_received(data)
        # A head that is not complete: the parser holds all of it, and tells of whole headers only.
        is_all_head = not was_in_body and self.num_begun - num_before == (0 if was_in_head else 1)
        if is_all_head and self.is_in_head and not self.transport.is_closing():
            self.head_bytes += len(data)
            if self.head_bytes > self.settings.max_header_bytes:
                self._refuse(self._large_head())

    def shutdown(self) -> None:
        self.closes_after_answer = True
        if self.express is not None and self.express.is_running:
            self.express.watch()
        elif self.exchange is None:
            super().shutdown()

    # --- for requests on the direct and the express way ---

    def send_answer(self, data: bytes) -> None:
        """Send a whole answer, or what is left of it, and go on with what came meanwhile."""
        self.server_state.total_requests += 1
        if data:
            self.transport.write(data)
        if self.closes_after_answer:
            self.transport.close()
            return
        self._note_idle()
        if self.held:
            held, self.held = self.held, b""
            self.flow.resume_reading()
            self.data_received(held)

    def begin_express(self, head: Head, express: Express, data: bytes) -> bool:
        """Send a request the express way, unless there is more to do for an answer than to write it."""
        if self.is_encrypted or self.transport.get_write_buffer_size() > 0:
            return False
        if self.express is None:
            fileno = self.transport.get_extra_info("socket").fileno()
            try:
                self.express = _core.ExpressConnection(
                    self.direct.service.express, self.direct.answers(), fileno, self
                )
            except OSError:
                return False  # there are no descriptors left for a second one
        self.last_express = head, express.known
        is_taken = self._is_taken(self.express.begin_with(express.form, data))
        if is_taken and self.timeout_keep_alive_task is None:
            self._set_keep_alive(self.timeout_keep_alive)
        return is_taken

    def _is_taken(self, taken: int) -> bool:
        if taken > 1:  # no other one runs, so nobody may keep the time
            self.direct.keep_time()
        return taken > 0

    def express_ended(
        self,
        error: BaseException | None,
        finished: dict[str, Any] | None,
        rest: bytes,
        id: bytes,
        start_s: float,
    ) -> None:
        """Hear of the end of a request that the core could not answer alone, or that is watched.

        With `error` or `finished` there is no answer yet; `rest` is what the socket has not taken of one.
        """
        if error is None and finished is None:
            self.send_answer(rest)
        else:
            self._take_over(id, start_s, error, finished)

    def fail_express(self, error: BaseException) -> None:
        """Answer a request on the express way with an error, unless its answer is on its way."""
        assert self.express is not None
        taken = self.express.take()
        if taken is not None:
            self._take_over(*taken, error, None)

    def _take_over(
        self, id: bytes, start_s: float, error: BaseException | None, finished: dict[str, Any] | None
    ) -> None:
        assert self.last_express is not None
        head, known = self.last_express
        Exchange(self.direct, head, self, id, start_s).take_over(known, error, finished)

    # --- what the parser tells ---

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.is_in_head = True
        self.head_bytes = 0
        self.num_begun += 1
        if self.head_timer is None:
            self._set_head_timer()

    def on_header(self, name: bytes, value: bytes) -> None:
        # What comes behind the body of chunks must not pass for a header: a proxy has not seen it as one.
        if not self.is_in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        self.is_in_head = False
        self._unset_head_timer()
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        if size > self.settings.max_header_bytes:
            self.refusal = self._large_head()
            raise self.refusal
        self._check_framing()
        self.is_in_body = True
        super().on_headers_complete()
        # The task of the request runs later.
        extensions: dict[str, Any] = self.scope.setdefault("extensions", {})
        extensions["hami.abort"] = self.transport.abort

    def on_message_complete(self) -> None:
        self.is_in_body = False
        self.num_complete += 1
        super().on_message_complete()

    def _check_framing(self) -> None:
        """Refuse a head that others may read otherwise. Raises ServeError."""
        num_hosts = 0
        for name, value in self.headers:
            if name == b"host":
                num_hosts += 1
            elif name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                self.refusal = self._no_request("send a body in chunks, or with its length, and nothing else")
                raise self.refusal
        if num_hosts > 1 or (num_hosts == 0 and self.parser.get_http_version() == "1.1"):
            self.refusal = self._no_request("send one header `Host`")
            raise self.refusal

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self.running = cycle
        super()._start_asgi_task(cycle, app)

    # --- refusals ---

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser does not take."""
        help = "send HTTP/1.1; `http://` or `https://` may be the wrong one"
        self._refuse(self.refusal or self._no_request(help))

    @staticmethod
    def _no_request(help: str) -> ServeError:
        return ServeError("this is no HTTP request", code="serve-http", help=help)

    def _refuse(self, error: ServeError) -> None:
        """Answer with an error and close; who came before on this connection is answered first."""
        cycle = self._open_cycle()
        if cycle is not None and not self.is_in_body:
            cycle.keep_alive = False
            self.flow.pause_reading()
            return
        if cycle is None or not cycle.response_started:
            body = bytes(error_response(error, self.settings).body)
            status = HTTPStatus(error.http_status)
            head = (
                f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-type: application/json\r\n"
                f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
            )
            self.transport.write(head.encode() + body)
        self.transport.close()

    def _open_cycle(self) -> RequestResponseCycle | None:
        """Return the last request, if its answer is not complete."""
        cycle: RequestResponseCycle | None = self.cycle  # None before the first
        return None if cycle is None or cycle.response_complete else cycle

    def _large_head(self) -> ServeError:
        return ServeError(
            f"the head of the request is larger than {self.settings.max_header_bytes} bytes",
            status=431,
            code="serve-header-size",
            help="send fewer or shorter headers, or start the server with a larger `--max-header-bytes`",
        )

    # --- time ---

    def _set_head_timer(self) -> None:
        self.head_timer = self.loop.call_later(self.settings.timeout_s, self._on_slow_head)

    def _unset_head_timer(self) -> None:
        if self.head_timer is not None:
            self.head_timer.cancel()
            self.head_timer = None

    def _on_slow_head(self) -> None:
        if self._open_cycle() is not None:
            self._set_head_timer()  # it is the server who lets the client wait
            return
        if not self.is_in_head:
            self.transport.close()
            return
        message = f"the head of the request was not complete after {self.settings.timeout_s:g} s"
        help = "send it faster, or start the server with a larger `--timeout`"
        self._refuse(ServeError(message, status=408, code="serve-slow-head", help=help))

    def _note_idle(self) -> None:
        self.idle_since_s = self.loop.time()
        if self.timeout_keep_alive_task is None:
            self._set_keep_alive(self.timeout_keep_alive)

    def _set_keep_alive(self, seconds: float) -> None:
        self.timeout_keep_alive_task = self.loop.call_later(seconds, self.timeout_keep_alive_handler)

    def timeout_keep_alive_handler(self) -> None:
        """Close, unless the connection was used meanwhile: direct requests leave the timer as it is."""
        is_busy, since_s = self.exchange is not None, self.idle_since_s
        if self.express is not None:
            is_busy, since_s = is_busy or self.express.is_running, max(since_s, self.express.idle_since_s)
        left_s = since_s + self.timeout_keep_alive - self.loop.time()
        if is_busy or left_s > 0:
            self._set_keep_alive(max(left_s, self.timeout_keep_alive / 10))
        else:
            super().timeout_keep_alive_handler()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.flow.resume_reading()  # the last one that waited may have got its turn
        if self.is_in_body and self.timeout_keep_alive_task is not None:
            self.timeout_keep_alive_task.cancel()
            self._set_keep_alive(_LINGER_S)

    def _unset_keepalive_if_required(self) -> None:
        # More of a body that nobody wants does not lengthen the connection's life.
        cycle: RequestResponseCycle | None = self.cycle  # None for a first request that was refused
        if not (self.is_in_body and cycle is not None and cycle.response_complete):
            super()._unset_keepalive_if_required()
