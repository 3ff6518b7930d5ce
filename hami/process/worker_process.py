"""One worker process as its pool sees it: launch, wait until it is ready, send and receive, end."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from ..errors import WorkerError
from .channel import Channel, Frame
from .interpreter import how_it_ended, interpreter_command
from .packing import Packed, pack, unpack, unpack_error

GRACE_S = 1.0
"""How long a worker may take to end by itself, and again after it was asked with SIGTERM."""

_WORKER = "hami.process.worker"


class NeverBegan(Exception):  # noqa: N818  says what happened to a message
    """The process ended before it had read the whole message."""


class WorkerProcess:
    """A process, from launch to end. One thread at a time, but for `hang_up`."""

    def __init__(self, messages: Sequence[Packed]) -> None:
        """Launch it and send what it needs to start; raises OSError when there can be no further process."""
        ours, theirs = socket.socketpair()
        try:
            command = interpreter_command(_WORKER, theirs.fileno())
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=(theirs.fileno(),))
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._channel = Channel(ours)
        self.is_ready = False
        self.run_range = (1, 1)
        self._exit = _open_process(self._process.pid)
        try:
            for message in messages:
                self.send(message)
        except NeverBegan:
            pass  # whoever waits for it will see how it ended
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def wake_ups(self) -> list[int]:
        """Return what becomes readable when there is a message, or when the process has ended."""
        return [self._channel.fileno(), *([] if self._exit is None else [self._exit])]

    def is_idle_and_alive(self) -> bool:
        """Say whether it can take work. REQUIRES: it has been ready, and has answered all it got."""
        return self._process.poll() is None and not self._channel.has_message()

    def become_ready(self) -> None:
        """Take its first message. Raises what building raised, or WorkerError if it died."""
        try:
            kind, value = unpack(self.receive())
        except NeverBegan:
            raise self.death() from None
        if kind == "failed":
            raise unpack_error(value)
        self.run_range = value
        self.is_ready = True

    def send(self, frames: Sequence[Frame]) -> None:
        """Send a message; raises NeverBegan if the process has gone, MemoryError if there is no memory."""
        try:
            self._channel.send(frames)
        except OSError as error:
            raise NeverBegan from error

    def receive(self) -> list[bytearray]:
        """Return its next message.

        Raises WorkerError if it died instead of answering, NeverBegan if it had not read what it got.
        """
        # A process may have died while another one, which it forked, keeps the line open.
        try:
            if self._process.poll() is None or self._channel.has_message():
                return self._channel.receive()
        except ConnectionResetError as error:  # the kernel says that it left something unread
            raise NeverBegan from error
        except (EOFError, OSError):
            pass
        raise self.death()

    def death(self) -> WorkerError:
        """Return how it died. REQUIRES: it has hung up."""
        try:
            status = self._process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            reason = "closed its connection, and was killed"
        else:
            reason = how_it_ended(status)
        return WorkerError(
            f"the worker process {self.pid} {reason}",
            code="worker-died",
            help="look for its last words on the standard error output; it has been replaced",
        )

    def hang_up(self) -> None:
        """Tell it to end; whoever waits for it here wakes up. Any thread."""
        self._channel.hang_up()

    def end(self) -> None:
        """End it, by force if it does not go, and free everything."""
        self._channel.hang_up()
        for stop in (self._process.terminate, self._process.kill):
            try:
                self._process.wait(GRACE_S)
                break
            except subprocess.TimeoutExpired:
                stop()
        self._process.wait()
        self._channel.close()
        if self._exit is not None:
            os.close(self._exit)
            self._exit = None


def start_messages(program: Any, plan: Any, imports: tuple[str, ...]) -> list[Packed]:
    """Return what a worker gets at first. Raises what pickle raises about the parameters of the plan."""
    return [pack((program, list(sys.argv))), pack((imports, plan))]


def _open_process(pid: int) -> int | None:
    """Return a descriptor that is readable once the process has ended, where the kernel has such."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return None
