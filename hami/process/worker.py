"""What a worker process does: build the expression, run parts of batches, end with its parent.

The main thread receives and sends; the batch runs on the instance's thread of the pipeline. While it runs
the main thread also watches the line to the parent, so that the process ends in the middle of a run when the
parent is gone.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing.connection import wait
from typing import Any

from .. import _core
from ..config import import_by_name
from ..plugins import load as load_plugin
from . import main_module
from .channel import Channel
from .packing import Packed, join, pack, pack_dict, pack_error, split, unpack
from .reference import resolve_all

CLOSE_S = 5.0
"""How long the backends may take to close once the parent has hung up."""

# What the core reads from a request; the parent's core has done so already.
_OF_THE_PARENT = ("node_name", "deadline_ms", "priority", "event")
_MISSING: Any = object()


def main(descriptor: int) -> None:
    """Run until the parent hangs up."""
    os.set_inheritable(descriptor, False)
    channel = Channel(socket.socket(fileno=descriptor))
    try:
        pipeline = _start(channel)
        if pipeline is not None:
            _serve(channel, pipeline)
    except (EOFError, OSError):
        pipeline = None  # the parent is gone
    _end_soon()
    channel.close()
    del pipeline


def _end_soon() -> None:
    """End the process soon, also if the user's threads or exit handlers do not."""
    timer = threading.Timer(CLOSE_S, os._exit, (1,))
    timer.daemon = True
    timer.start()


def _start(channel: Channel) -> _core.Pipeline | None:
    """Build the pipeline and report; None when it could not be built."""
    program, argv = unpack(channel.receive())
    main_module.set_program(program)
    sys.argv[:] = argv
    try:
        imports, plan = unpack(channel.receive(), main_module.load)
        for name in imports:
            import_by_name(name, load_plugin)
        pipeline = _core.Pipeline(resolve_all(plan, main_module.load))
    except BaseException as error:
        channel.send(pack(("failed", pack_error(error))))
        return None
    channel.send(pack(("ready", pipeline._run_range)))
    return pipeline


def _serve(channel: Channel, pipeline: _core.Pipeline) -> None:
    runner = _Runner(channel, pipeline)
    try:
        while True:
            try:
                frames: Sequence[Any] = channel.receive()
            except EOFError:
                break
            channel.send(runner.run(frames))
    finally:
        _end_soon()
        pipeline._close(CLOSE_S)


class _Runner:
    """Runs the items of one message after the other."""

    def __init__(self, channel: Channel, pipeline: _core.Pipeline) -> None:
        self._channel = channel
        self._pipeline = pipeline
        self._done_reader, self._done_writer = os.pipe()

    def run(self, frames: Sequence[Any]) -> Packed:
        """Return the answers to a message of packed items."""
        items, errors = self._unpack_all(frames)
        befores = [dict(item) if item is not None else {} for item in items]
        self._forward(items, errors)
        return join(
            [
                _pack_answer(item, before, error)
                for item, before, error in zip(items, befores, errors, strict=True)
            ]
        )

    @staticmethod
    def _unpack_all(
        frames: Sequence[Any],
    ) -> tuple[list[dict[str, Any] | None], list[BaseException | None]]:
        items: list[dict[str, Any] | None] = []
        errors: list[BaseException | None] = []
        for packed in split(frames):
            try:
                item = unpack(packed, main_module.load)
                items.append({key: value for key, value in item.items() if key not in _OF_THE_PARENT})
                errors.append(None)
            except Exception as error:
                items.append(None)
                errors.append(error)
        return items, errors

    def _forward(self, items: Sequence[dict[str, Any] | None], errors: list[BaseException | None]) -> None:
        """Run what is there, and leave its errors in `errors`."""
        places = [index for index, item in enumerate(items) if item is not None]
        if not places:
            return
        num_left = len(places)
        lock = threading.Lock()

        def note(place: int, error: BaseException | None) -> None:
            nonlocal num_left
            errors[place] = error
            with lock:
                num_left -= 1
                is_last = num_left == 0
            if is_last:
                os.write(self._done_writer, b".")

        def callback(place: int) -> Any:
            return lambda error: note(place, error)

        try:
            self._pipeline._submit_many(
                [item for item in items if item is not None], [callback(place) for place in places]
            )
        except Exception as error:
            for place in places:
                errors[place] = error
            return
        if self._done_reader not in wait([self._done_reader, self._channel.fileno()]):
            os._exit(1)  # the parent is gone, or has given up; nobody wants the rest
        os.read(self._done_reader, 1)


def _pack_answer(
    item: dict[str, Any] | None, before: Mapping[str, Any], error: BaseException | None
) -> Packed:
    """Return what an item gained, a dict, or its error, a tuple."""
    if error is None and item is not None:
        changes = {key: value for key, value in item.items() if before.get(key, _MISSING) is not value}
        try:
            return pack_dict(changes, "result")
        except BaseException as own:
            error = own
    assert error is not None
    return pack(pack_error(error))
