"""One worker: it builds its pipeline, serves the socket of its parent, and ends with it."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import socket
import sys
from collections.abc import Iterator

import uvloop

from ...errors import exit_of
from ..log_lines import configure_logging
from ..server import Server
from ..service import Service
from .messages import Failed, Line, Question, Ready, Start, Stop, Told, receive_now, send_now
from .peers import Peers

_PR_SET_PDEATHSIG = 1
_GRACE_S = 3
"""How long an orphan may take beyond `drain_s`."""


def main(line_descriptor: int, listener_descriptor: int) -> None:
    """Serve until the parent says so, or is gone."""
    for descriptor in (line_descriptor, listener_descriptor):
        os.set_inheritable(descriptor, False)
    line = socket.socket(fileno=line_descriptor)
    listener = socket.socket(fileno=listener_descriptor)
    try:
        with _killed_with_parent():
            start: Start = receive_now(line)
            service = _open(line, start)
    except (EOFError, OSError):
        return  # the parent is gone
    if service is None:
        return
    try:
        uvloop.run(_serve(service, start, line, listener))
    finally:
        service.pipe.close(timeout=0)


def _open(line: socket.socket, start: Start) -> Service | None:
    """Return the service; None where there is none, which the parent knows."""
    configure_logging(start.log_level, has_pid=True)
    try:
        return Service.open(start.source, start.settings)
    except BaseException as error:
        send_now(line, Failed(*exit_of(error)))
        return None


@contextlib.contextmanager
def _killed_with_parent() -> Iterator[None]:
    """Let the kernel end this process with its parent meanwhile: a build takes minutes and sees nothing."""
    if sys.platform != "linux":
        yield
        return
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0)


async def _serve(service: Service, start: Start, end: socket.socket, listener: socket.socket) -> None:
    line = await Line.open(end)
    service.peers = Peers(start.number, start.num_starts, line)
    server = WorkerServer(service, lambda address: line.send(Ready()))
    listening = asyncio.get_running_loop().create_task(_obey(server, service.peers, line))
    try:
        await server.serve([listener])
    finally:
        listening.cancel()
        line.close()


async def _obey(server: WorkerServer, peers: Peers, line: Line) -> None:
    """Do what the parent says; its end is the order to end."""
    while (message := await line.receive()) is not None:
        if isinstance(message, Stop):
            server.stop()
        elif isinstance(message, (Question, Told)):
            peers.take(message)
    # Whatever hangs here, nobody else would end it.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, server.service.settings.drain_s + _GRACE_S)
    server.stop()


class WorkerServer(Server):
    """The server of one worker. SIGTERM to it alone takes it out, while the others go on."""

    signals = (signal.SIGTERM,)

    def on_first_signal(self) -> None:
        """Accept no more, and end once those who are connected have their answers."""
        self.retire()
