"""The line between a pool and one of its workers: messages are lists of byte strings.

Small messages go through a socket, large ones through memory that both processes see. The memory has no
name anywhere: the kernel frees it with the last process that has it open, however that one ends. Each side
owns the memory that it writes to, reuses it for the next message, and makes a larger one when a message does
not fit; so a side must not send again before the other has received. A channel belongs to one thread at a
time.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import socket
import tempfile
from collections.abc import Sequence
from multiprocessing.connection import Connection

Frame = bytes | bytearray | memoryview

INLINE_BYTES = 32 * 1024
"""Messages up to this size fit into any socket's buffer, so that sending one never waits."""

_HEADER_SIZE_BYTES = 4


def _anonymous_file() -> int:
    """Return the descriptor of an empty file in memory that has no name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("hami")
    with tempfile.TemporaryFile(dir="/dev/shm", buffering=0) as file:
        return os.dup(file.fileno())


class _Memory:
    """Shared memory that grows; the process that writes it has the file, the other one a view."""

    def __init__(self) -> None:
        self.view: mmap.mmap | None = None

    @property
    def size(self) -> int:
        return 0 if self.view is None else len(self.view)

    def grow(self, size_bytes: int) -> int:
        """Make a larger memory and return its descriptor, which the caller closes. Raises OSError."""
        size = max(size_bytes, 2 * self.size)
        descriptor = _anonymous_file()
        try:
            os.posix_fallocate(descriptor, 0, size)  # too little memory is an error now, not a signal later
            self.attach(descriptor, size)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def attach(self, descriptor: int, size_bytes: int) -> None:
        """Take the memory behind a descriptor in place of the old one."""
        view = mmap.mmap(descriptor, size_bytes)
        self.close()
        self.view = view

    def close(self) -> None:
        if self.view is not None:
            self.view.close()
            self.view = None


class Channel:
    """One end of the line. EOFError and OSError say that the other end is gone."""

    def __init__(self, end: socket.socket) -> None:
        self._socket = end
        self._connection = Connection(os.dup(end.fileno()))
        self._outgoing = _Memory()
        self._incoming = _Memory()

    def fileno(self) -> int:
        """Return the descriptor that becomes readable with a message, or when the other end is gone."""
        return self._connection.fileno()

    def has_message(self) -> bool:
        """Say whether `receive` has something to do now, be it to find the other end gone."""
        return self._connection.poll(0)

    def send(self, frames: Sequence[Frame]) -> None:
        """Send one message. Raises MemoryError when there is no memory for it; nothing is sent then."""
        sizes = [len(frame) for frame in frames]
        size = sum(sizes)
        if size <= INLINE_BYTES:
            self._send(pickle.dumps((False, 0, sizes)), frames)
            return
        descriptor = self._make_room(size)
        try:
            view = self._outgoing.view
            assert view is not None
            start = 0
            for frame in frames:
                view[start : start + len(frame)] = frame
                start += len(frame)
            new_size = 0 if descriptor is None else self._outgoing.size
            self._send(pickle.dumps((True, new_size, sizes)), ())
            if descriptor is not None:
                socket.send_fds(self._socket, [b"m"], [descriptor])
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def _make_room(self, size_bytes: int) -> int | None:
        if size_bytes <= self._outgoing.size:
            return None
        try:
            return self._outgoing.grow(size_bytes)
        except OSError as error:
            raise MemoryError(f"no shared memory for {size_bytes} bytes: {error}") from error

    def _send(self, header: bytes, frames: Sequence[Frame]) -> None:
        length = len(header).to_bytes(_HEADER_SIZE_BYTES, "little")
        self._connection.send_bytes(b"".join((length, header, *frames)))

    def receive(self) -> list[bytearray]:
        """Wait for a message and return its frames, which belong to the caller."""
        message = memoryview(self._connection.recv_bytes())
        end = _HEADER_SIZE_BYTES + int.from_bytes(message[:_HEADER_SIZE_BYTES], "little")
        is_shared, new_size, sizes = pickle.loads(message[_HEADER_SIZE_BYTES:end])
        if new_size:
            self._receive_memory(new_size)
        source: memoryview = message[end:]
        if is_shared:
            assert self._incoming.view is not None
            source = memoryview(self._incoming.view)
        frames, start = [], 0
        for size in sizes:
            frames.append(bytearray(source[start : start + size]))
            start += size
        source.release()
        return frames

    def _receive_memory(self, size_bytes: int) -> None:
        _, descriptors, _, _ = socket.recv_fds(self._socket, 1, 1)
        if not descriptors:
            raise EOFError("the other end is gone")
        try:
            self._incoming.attach(descriptors[0], size_bytes)
        finally:
            os.close(descriptors[0])

    def hang_up(self) -> None:
        """Let both ends see the end of the line; what waits here wakes up. Any thread."""
        with contextlib.suppress(OSError):  # it is gone already
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Free everything."""
        self._connection.close()
        self._socket.close()
        self._outgoing.close()
        self._incoming.close()
