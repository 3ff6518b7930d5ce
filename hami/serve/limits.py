"""`Limits`: no request is larger, takes longer or lives longer than its client.

It stands around the application, counts the bytes that come in, keeps the time, and listens for the end of
the connection: what nobody waits for any more is cancelled. It also answers what the application raises.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .access import HEALTH_PATHS, header_of
from .errors import error_response
from .refusal import ServeError
from .service import Service
from .settings import Settings


def late_answer(settings: Settings) -> ServeError:
    """Return the error for an answer that took too long."""
    help = "send less at a time, or start the server with a larger `--timeout`"
    message = f"the answer was not there after {settings.timeout_s:g} s"
    return ServeError(message, status=504, code="serve-timeout", help=help)


class Limits:
    """Bounds every request of `service`, and counts it while it runs."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self.app = app
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in HEALTH_PATHS:
            return await self.app(scope, receive, send)
        self.service.begin()
        try:
            await _Exchange(self.app, self.service, scope, receive, send).run()
        finally:
            self.service.end()


class _Exchange:
    """One request and its answer, inside the task that runs the application."""

    def __init__(self, app: ASGIApp, service: Service, scope: Scope, receive: Receive, send: Send) -> None:
        self.app = app
        self.service = service
        self.settings = service.settings
        self.scope = scope
        self.receive_outer = receive
        self.send_outer = send
        self.loop = asyncio.get_running_loop()
        self.task = asyncio.current_task()
        self.num_bytes = 0
        self.is_body_complete = False
        self.has_begun = False  # the answer
        self.is_over = False  # the last of it is on its way, or it will not come
        self.gone = asyncio.Event()  # the client
        self.is_late = False
        self.timer: asyncio.TimerHandle | None = None
        self.watcher: asyncio.Task[None] | None = None

    async def run(self) -> None:
        self._set_timer()
        failure: BaseException | None = None
        try:
            self._check_admission()
            await self.app(self.scope, self.receive, self.send)
        except CancelledError:
            if not self.is_late and not self.gone.is_set():
                raise  # the whole server ends
            failure = self._lateness() if self.is_late else None
            self._forget_cancellation()
        except Exception as error:
            failure = None if self.gone.is_set() else error
        finally:
            self.is_over = True
            if self.timer is not None:
                self.timer.cancel()
            if self.watcher is not None:
                self.watcher.cancel()
        if failure is not None:
            await self._answer(failure)

    async def receive(self) -> Message:
        if self.is_body_complete:
            await self.gone.wait()
            return {"type": "http.disconnect"}
        message = await self.receive_outer()
        if message["type"] == "http.disconnect":
            self.gone.set()
            return message
        self.num_bytes += len(message.get("body", b""))
        if self.num_bytes > self.settings.max_body_bytes:
            raise self._too_large()
        if not message.get("more_body", False):
            self.is_body_complete = True
            self._set_timer()
            self.watcher = self.loop.create_task(self._watch())
        return message

    async def send(self, message: Message) -> None:
        self.has_begun = True
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.is_over = True
        await self.send_outer(message)
        if not self.is_over:
            self._set_timer()

    async def _watch(self) -> None:
        """Wait for the client to go away, and end what runs for it."""
        while (await self.receive_outer())["type"] != "http.disconnect":
            pass
        if not self.is_over:
            self.gone.set()
            self._cancel()

    def _set_timer(self) -> None:
        """Give the next step its time: the body, the begin of the answer, or its next part."""
        if self.timer is not None:
            self.timer.cancel()
        self.timer = self.loop.call_later(self.settings.timeout_s, self._on_time)

    def _on_time(self) -> None:
        self.is_late = True
        self._cancel()

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()

    def _forget_cancellation(self) -> None:
        # From Python 3.11 on a task counts them, and would end at its next wait.
        uncancel = getattr(self.task, "uncancel", None)
        if uncancel is not None:
            uncancel()

    def _check_admission(self) -> None:
        if self.service.is_draining:
            raise ServeError(
                "the server is shutting down",
                status=503,
                code="serve-draining",
                help="send the request to another server, or again later",
                headers={"Retry-After": "1", "Connection": "close"},
            )
        length = header_of(self.scope, b"content-length")
        if length is not None and length.isdigit() and int(length) > self.settings.max_body_bytes:
            raise self._too_large()

    def _too_large(self) -> ServeError:
        return ServeError(
            f"the body is larger than {self.settings.max_body_bytes} bytes",
            status=413,
            code="serve-body-size",
            help="send less at a time, or start the server with a larger `--max-body-bytes`",
        )

    def _lateness(self) -> ServeError:
        if self.is_body_complete:
            return late_answer(self.settings)
        help = "send it faster, or start the server with a larger `--timeout`"
        message = f"the request was not complete after {self.settings.timeout_s:g} s"
        headers = {"Connection": "close"}
        return ServeError(message, status=408, code="serve-slow-body", help=help, headers=headers)

    async def _answer(self, failure: BaseException) -> None:
        response = error_response(failure, self.settings)  # which logs what is not shown
        if not self.has_begun:
            await response(self.scope, self.receive_outer, self.send_outer)
        elif abort := self.scope.get("extensions", {}).get("hami.abort"):
            abort()  # half an answer must not look like a whole one
            await self._watch()  # uvicorn hears of it as well
