"""The server process: it listens, tells when it is ready, and ends in good order.

The first SIGTERM or SIGINT turns readiness off; new requests are refused, those that run are answered, and
the process ends with 0. A second signal ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import os
import resource
import signal
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import uvicorn
import uvloop

from ..errors import ConfigError
from .acceptor import Acceptor, Connections
from .app import create_app, direct_calls
from .direct import DirectRequests
from .log_lines import configure_logging
from .protocol import Protocol
from .service import Service
from .settings import Settings
from .workers import supervise

_BACKLOG = 2048
_OTHER_FILES = 1024  # those of backends, and of the process itself
_SECONDS_TO_SEND = 2  # the last answers, once the pipeline has given them


def run(source: Any, settings: Settings, log_level: str) -> None:
    """Serve the pipeline of `source` until a signal comes.

    Raises ConfigError and BuildError before that, StartError for a worker, and SystemExit where one had to be
    killed at the end.
    """
    _check_tls(settings)
    _allow_files(settings.max_connections)
    with _listen(settings) as listener:
        configure_logging(log_level, has_pid=settings.workers > 1)

        def tell(address: str) -> None:
            print(f"hami: serving `{Service.name_of(source)}` at {address}", flush=True)

        if settings.workers > 1:
            address = address_of(listener, settings)
            if not supervise(source, settings, log_level, listener, lambda: tell(address)):
                sys.exit(1)
            return
        service = Service.open(source, settings)
        # What the imports have made stays for good: a collection need not go through all of it, for 30 ms.
        gc.collect()
        gc.freeze()
        try:
            uvloop.run(Server(service, tell).serve([listener]))
        finally:
            service.pipe.close(timeout=0)


class Server(uvicorn.Server):
    """uvicorn around one service; `on_ready` gets the address once it listens."""

    signals: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)

    def __init__(self, service: Service, on_ready: Callable[[str], None]) -> None:
        settings = service.settings
        self._direct = DirectRequests(service, direct_calls(service))
        super().__init__(
            uvicorn.Config(
                create_app(service),
                http=Protocol.of(self._direct),
                ws="none",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                backlog=_BACKLOG,
                timeout_graceful_shutdown=_SECONDS_TO_SEND,
                ssl_certfile=settings.certificate,
                ssl_keyfile=settings.key,
            )
        )
        self.service = service
        self.on_ready = on_ready
        self.is_ending = False
        self._draining: asyncio.Task[None] | None = None
        self._common_headers: list[tuple[bytes, bytes]] = []

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and tell where. REQUIRES: there is one socket."""
        assert sockets is not None
        await self.lifespan.startup()
        config, settings = self.config, self.service.settings
        self.server_state.connections = connections = Connections()

        def make_protocol() -> asyncio.Protocol:
            kind: Any = config.http_protocol_class
            return kind(config, self.server_state, self.lifespan.state)  # type: ignore[no-any-return]

        self.servers = [
            Acceptor(  # type: ignore[misc]
                listener,
                make_protocol,
                connections,
                settings.max_connections,
                tls=config.ssl,
                handshake_s=settings.timeout_s,
            )
            for listener in sockets
        ]
        self.started = True
        self.on_ready(address_of(sockets[0], settings))

    async def on_tick(self, counter: int) -> bool:
        """Do what is due ten times a second: the headers of all answers change once a second."""
        is_over = await super().on_tick(counter)
        headers = self.server_state.default_headers
        if headers is not self._common_headers:
            self._common_headers = headers
            self._direct.set_common_headers(headers)
        return is_over

    def stop(self) -> None:
        """Begin the end; on the event loop. A second call does nothing."""
        if not self.is_ending:
            self.is_ending = True
            self.service.drain()
            self._draining = asyncio.get_running_loop().create_task(self._drain())

    def retire(self) -> None:
        """Accept no more, and end once those who are connected have their answers; on the event loop."""
        self.is_ending = True
        for acceptor in self.servers:
            acceptor.close()
        self.config.timeout_graceful_shutdown = math.ceil(self.service.settings.drain_s)
        self.should_exit = True

    def on_first_signal(self) -> None:
        """Begin the end."""
        self.stop()

    async def _drain(self) -> None:
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self.service.idle(), self.service.settings.drain_s)
        # Whoever still waits hears that the pipeline is closed.
        await asyncio.get_running_loop().run_in_executor(None, self.service.pipe.close, 0)
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Take the signals over. uvicorn's own way would end the process by the signal instead of with 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()
        for number in self.signals:
            loop.add_signal_handler(number, self._on_signal, number)
        try:
            yield
        finally:
            for number in self.signals:
                loop.remove_signal_handler(number)

    def _on_signal(self, number: int) -> None:
        if self.is_ending:
            sys.stderr.flush()
            os._exit(128 + number)
        self.on_first_signal()


def address_of(listener: socket.socket, settings: Settings) -> str:
    """Return the address that clients use."""
    host, port = listener.getsockname()[:2]
    scheme = "http" if settings.certificate is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _allow_files(max_connections: int) -> None:
    """Raise the limit of open files, as far as this user may, to what so many connections need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max_connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def _listen(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        message = f"the address cannot be listened on: {error.strerror or error}"
        help = "choose another `--port` or `--host`"
        raise ConfigError(message, code="serve-address", where=where, help=help) from None


def _check_tls(settings: Settings) -> None:
    if settings.certificate is None:
        if settings.key is None:
            return
        help = "give `--tls-certificate` as well"
        raise ConfigError("there is a key without a certificate", code="serve-tls", help=help)
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(
            settings.certificate, settings.key
        )
    except (OSError, ssl.SSLError) as error:
        message = f"certificate and key cannot be used: {error.strerror or error}"
        help = "both must be PEM files that belong together"
        where = str(settings.certificate)
        raise ConfigError(message, code="serve-tls", where=where, help=help) from None
