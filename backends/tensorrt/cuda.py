"""The few calls of the CUDA runtime that an engine needs, through `cuda.bindings`: streams, memory, graphs.

Nothing is imported before the first call. Every call that fails raises CudaError with CUDA's own words.
Objects free what they hold when they are dropped, on whichever thread that is.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from hami.errors import BuildError

from .package import INSTALL

Bytes = npt.NDArray[np.uint8]


class CudaError(RuntimeError):
    """A call of the CUDA runtime failed."""


@lru_cache(maxsize=1)
def runtime() -> Any:
    """Return `cuda.bindings.runtime`. Raises BuildError naming what to install."""
    try:
        return importlib.import_module("cuda.bindings.runtime")
    except ImportError as error:
        raise BuildError(
            f"the CUDA bindings cannot be loaded: {error}", code="tensorrt-missing", help=INSTALL
        ) from error


def call(name: str, *arguments: Any) -> Any:
    """Call a function of the runtime by name and return what it returns besides its error code.

    None, one value or a tuple. Raises CudaError.
    """
    cuda = runtime()
    error, *values = getattr(cuda, name)(*arguments)
    if error != cuda.cudaError_t.cudaSuccess:
        _, text = cuda.cudaGetErrorString(error)
        words = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
        raise CudaError(f"{name}: {words} ({error.name})")
    return None if not values else values[0] if len(values) == 1 else tuple(values)


def card() -> tuple[str, str]:
    """Return name and compute capability of the card in use, such as (`NVIDIA L4`, `8.9`).

    Raises BuildError where there is no card or no driver.
    """
    runtime()
    try:
        if call("cudaGetDeviceCount") == 0:
            raise CudaError("no card is visible")
        index = call("cudaGetDevice")
        properties = call("cudaGetDeviceProperties", index)
    except RuntimeError as error:  # CudaError, or the driver's library is missing
        raise BuildError(
            f"no NVIDIA GPU can be used here: {error}",
            code="tensorrt-device",
            help="run on a machine with an NVIDIA GPU and its driver",
        ) from error
    return properties.name.decode(errors="replace").rstrip("\0"), f"{properties.major}.{properties.minor}"


class Stream:
    """A stream that does not wait for the default one."""

    def __init__(self) -> None:
        self.handle = call("cudaStreamCreateWithFlags", runtime().cudaStreamNonBlocking)

    def __del__(self) -> None:
        _release("cudaStreamDestroy", self, "handle")

    @property
    def address(self) -> int:
        """The stream as the number that TensorRT takes."""
        return int(self.handle)

    def wait(self) -> None:
        """Return when all work on it is done; other threads of Python run meanwhile."""
        call("cudaStreamSynchronize", self.handle)

    @contextlib.contextmanager
    def capture(self) -> Iterator[Callable[[], Graph]]:
        """Record the work of the block instead of doing it; the function that is given returns the graph.

        Other threads may allocate meanwhile. The recording ends even where the block raises.
        """
        mode = runtime().cudaStreamCaptureMode.cudaStreamCaptureModeThreadLocal
        call("cudaStreamBeginCapture", self.handle, mode)
        graphs: list[Graph] = []
        try:
            yield lambda: graphs[0]
        except BaseException:
            with contextlib.suppress(CudaError):
                call("cudaStreamEndCapture", self.handle)
            raise
        graphs.append(Graph(call("cudaStreamEndCapture", self.handle)))


class Graph:
    """Recorded work that is launched as one."""

    def __init__(self, recorded: Any) -> None:
        try:
            self.handle = call("cudaGraphInstantiate", recorded, 0)
        finally:
            call("cudaGraphDestroy", recorded)

    def __del__(self) -> None:
        _release("cudaGraphExecDestroy", self, "handle")

    def launch(self, stream: Stream) -> None:
        """Put the work on a stream."""
        call("cudaGraphLaunch", self.handle, stream.handle)


class DeviceMemory:
    """Memory of the card, `size_bytes` of it, at `address`."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = max(size_bytes, 1)
        self.address = int(call("cudaMalloc", self.size_bytes))

    def __del__(self) -> None:
        _release("cudaFree", self, "address")


class PinnedMemory:
    """Memory of the CPU that the card reads and writes by itself; `array` is it as uint8.

    A view of `array` keeps the memory alive.
    """

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = max(size_bytes, 1)
        self.address = int(call("cudaHostAlloc", self.size_bytes, runtime().cudaHostAllocDefault))

    def __del__(self) -> None:
        _release("cudaFreeHost", self, "address")

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return {"data": (self.address, False), "shape": (self.size_bytes,), "typestr": "|u1", "version": 3}

    @property
    def array(self) -> Bytes:
        """The memory as a one-dimensional array, which holds on to it."""
        return np.asarray(self)


def copy(target: int, source: int, size_bytes: int, stream: Stream) -> None:
    """Copy between any two places on a stream; CUDA sees from the addresses which way."""
    kind = runtime().cudaMemcpyKind.cudaMemcpyDefault
    if size_bytes:
        call("cudaMemcpyAsync", target, source, size_bytes, kind, stream.handle)


def fill_with_zeros(memory: DeviceMemory, stream: Stream) -> None:
    """Set memory of the card to zeros on a stream."""
    call("cudaMemsetAsync", memory.address, 0, memory.size_bytes, stream.handle)


def _release(name: str, holder: Any, attribute: str) -> None:
    """Free what `holder` has, if it came to have it; at the end of the process CUDA is gone before."""
    handle = holder.__dict__.pop(attribute, None)
    if handle is not None:
        with contextlib.suppress(Exception):
            call(name, handle)
