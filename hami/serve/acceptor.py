"""`Acceptor`: takes connections out of the queue of a listening socket, while there is room for them.

uvloop's own server would take all that come. Here a full server leaves further connections in the kernel's
queue, where another worker finds them, or they wait until somebody has gone. One is taken at a time: several
workers that listen on one socket share what comes at once.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

_logger = logging.getLogger("hami.serve")

_WITHOUT_ROOM = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM}
_PAUSE_S = 0.2  # before the next try, when the system has nothing to give


class Connections(set[Any]):
    """The connections of a server, where each puts itself in and out; `on_end` hears of the latter."""

    on_end: Callable[[], None] = staticmethod(lambda: None)

    def discard(self, connection: Any) -> None:
        """Take a connection out."""
        super().discard(connection)
        self.on_end()


class Acceptor:
    """Makes a protocol for each connection of `listener`, at most `max_connections` at a time.

    It is one of uvicorn's servers: `close` and `wait_closed` belong to them. On the event loop.
    """

    def __init__(
        self,
        listener: socket.socket,
        make_protocol: Callable[[], asyncio.Protocol],
        connections: Connections,
        max_connections: int,
        *,
        tls: ssl.SSLContext | None,
        handshake_s: float,
    ) -> None:
        self._listener = listener
        self._make_protocol = make_protocol
        self._connections = connections
        self._max_connections = max_connections
        self._tls = tls
        self._handshake_s = handshake_s
        self._loop = asyncio.get_running_loop()
        self._beginning: set[asyncio.Task[None]] = set()  # not yet among the connections
        self._is_reading = False
        self._is_closed = False
        self._pause: asyncio.TimerHandle | None = None
        connections.on_end = self._adjust
        listener.setblocking(False)
        self._adjust()

    def close(self) -> None:
        """Accept no more."""
        self._is_closed = True
        self._adjust()

    async def wait_closed(self) -> None:
        """Wait for those who were accepted and are no connection yet."""
        await asyncio.gather(*self._beginning, return_exceptions=True)

    def _adjust(self) -> None:
        """Look at the queue exactly while there is room."""
        num_open = len(self._connections) + len(self._beginning)
        wants = not self._is_closed and self._pause is None and num_open < self._max_connections
        if wants and not self._is_reading:
            self._loop.add_reader(self._listener.fileno(), self._accept)
        elif self._is_reading and not wants:
            self._loop.remove_reader(self._listener.fileno())
        self._is_reading = wants

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError as error:  # most often another worker was faster
            if error.errno in _WITHOUT_ROOM:
                self._wait_for_room(error)
            return
        task = self._loop.create_task(self._begin(connection))
        self._beginning.add(task)
        task.add_done_callback(self._on_begun)
        self._adjust()

    async def _begin(self, connection: socket.socket) -> None:
        limit = None if self._tls is None else self._handshake_s
        connection.setblocking(False)
        try:
            await self._loop.connect_accepted_socket(
                self._make_protocol, connection, ssl=self._tls, ssl_handshake_timeout=limit
            )
        except OSError:  # it failed at the handshake, or has gone; nobody's error
            connection.close()

    def _on_begun(self, task: asyncio.Task[None]) -> None:
        self._beginning.discard(task)
        self._adjust()

    def _wait_for_room(self, error: OSError) -> None:
        _logger.warning("no further connection can be accepted now: %s", error.strerror)
        self._pause = self._loop.call_later(_PAUSE_S, self._go_on)
        self._adjust()

    def _go_on(self) -> None:
        self._pause = None
        self._adjust()
