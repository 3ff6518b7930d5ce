"""CUDA streams: one for each instance, and `StreamPool`, which bounds how many runs there are at once.

What an instance hands on is complete, so nobody after it has to know in which stream it was made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from queue import SimpleQueue
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch

from hami.backend import Backend, param, register
from hami.errors import ConfigError

from .device import find_device


def _handle_of_current(index: int) -> int:
    return int(torch.cuda.current_stream(index).cuda_stream)


# The handle of a GPU's current stream. The function that compiled programs of torch call makes no object.
current_handle: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", _handle_of_current)


def new_stream(device: torch.device) -> torch.cuda.Stream:
    """Return a stream of that GPU; torch has a few dozen, and hands them out in turn."""
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


class OwnStreams:
    """The streams of one instance, made when a device is first used; one thread at a time may use them."""

    def __init__(self) -> None:
        self._streams: dict[torch.device, tuple[torch.cuda.Stream, torch.cuda.Stream]] = {}

    def complete_on(self, devices: Iterable[torch.device]) -> OnStreams:
        """Let the body run in the instance's streams of those devices, and wait for them however it ends.

        A stream that was made current around the instance, as `StreamPool` does, is used instead of its own.
        Devices that are no GPUs have no streams.
        """
        return OnStreams(self, devices, is_waited_for=True)

    def started_on(self, devices: Iterable[torch.device]) -> OnStreams:
        """Do the same without the waiting, for work that goes on in the same streams."""
        return OnStreams(self, devices, is_waited_for=False)

    def pair(self, device: torch.device) -> tuple[torch.cuda.Stream, torch.cuda.Stream]:
        """Return the instance's stream of a GPU, and the one that is current where nobody chose one."""
        if device not in self._streams:
            self._streams[device] = (new_stream(device), torch.cuda.default_stream(device))
        return self._streams[device]


class OnStreams:
    """What `OwnStreams` gives to a `with`. Every run passes one, so it does without contextlib.

    `torch.cuda.stream` takes longer than a small kernel: it looks at three streams and two devices.
    """

    def __init__(self, streams: OwnStreams, devices: Iterable[torch.device], is_waited_for: bool) -> None:
        self._streams = streams
        self._devices = devices
        self._is_waited_for = is_waited_for
        # Each GPU's stream of now, and the one before where that was another.
        self._entered: list[tuple[torch.cuda.Stream, torch.cuda.Stream | None]] = []
        self._home: int | None = None

    def __enter__(self) -> None:
        for device in dict.fromkeys(self._devices):
            if device.type != "cuda":
                continue
            if self._home is None:
                self._home = torch.cuda.current_device()
            own, default = self._streams.pair(device)
            if current_handle(default.device_index) != default.cuda_stream:
                self._entered.append((torch.cuda.current_stream(device), None))
                continue
            self._entered.append((own, default))
            torch.cuda.set_stream(own)

    def __exit__(self, *exception: object) -> None:
        try:
            if self._is_waited_for:
                for stream, _ in reversed(self._entered):
                    stream.synchronize()
        finally:
            for _, before in reversed(self._entered):
                if before is not None:
                    torch.cuda.set_stream(before)
            # Making a stream current does the same to its device.
            if self._home is not None and self._home != torch.cuda.current_device():
                torch.cuda.set_device(self._home)


class Slots:
    """`count` slots for runs; each holds a stream of `device`, or None on a machine without GPU."""

    def __init__(self, count: int, device: torch.device) -> None:
        self._free: SimpleQueue[torch.cuda.Stream | None] = SimpleQueue()
        for _ in range(count):
            self._free.put(new_stream(device) if device.type == "cuda" else None)

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Wait for a free slot and let the body run in its stream, which is waited for at the end."""
        stream = self._free.get()
        try:
            with ExitStack() as stack:
                if stream is not None:
                    stack.callback(stream.synchronize)
                    stack.enter_context(torch.cuda.stream(stream))
                yield
        finally:
            self._free.put(stream)


# The slots of each living pipeline, known by its storage: the instances of a node share them.
_lock = threading.Lock()
_slots_of_pipelines: WeakKeyDictionary[Any, dict[tuple[str, int], Slots]] = WeakKeyDictionary()


@register
class StreamPool(Backend):
    """Run what stands beside it in one of `max_stream` CUDA streams: `With[StreamPool(max_stream=2), X]`.

    All instances of the node share the streams, so that no more than `max_stream` batches run at once, with a
    GPU or without.
    """

    group_by: ClassVar[str] = "none"

    max_stream = param(5, min=1, max=1024, doc="the most runs at once")
    device = param(None, type="any", doc="GPU of the streams; default: the first one, if there is any")

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Find the slots that the instances of this node share, or make them."""
        # The n-th pool in the text of a node is the same pool in each of its instances.
        index = options["num_stream_pools"] = options.get("num_stream_pools", -1) + 1
        with _lock:
            of_pipeline = _slots_of_pipelines.setdefault(self.storage, {})
            key = (str(options.get("node_name", "")), index)
            if key not in of_pipeline:
                of_pipeline[key] = Slots(self.max_stream, self._device())
            self.slots = of_pipeline[key]

    def _device(self) -> torch.device:
        if self.device is None:
            return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
        return find_device(self.device)

    def forward_with(self, run: Callable[[], None]) -> None:
        """Call `run` in a free stream, and wait until what it did there is complete."""
        with self.slots.taken():
            run()

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Refuse to be used alone."""
        raise ConfigError(
            "`StreamPool` computes nothing by itself",
            code="stream-pool-alone",
            help="write `With[StreamPool(max_stream=5), X]`",
        )
