"""The calls of CUDA on a card: memory, streams and graphs. Any card will do."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hami.backends.tensorrt import cuda

from .card import lacking_for_cuda, skip_module_where

skip_module_where(lacking_for_cuda())


def test_a_card_has_a_name_and_a_compute_capability() -> None:
    name, capability = cuda.card()
    major, minor = capability.split(".")
    assert name.isprintable() and name
    assert int(major) >= 5 and int(minor) >= 0


@pytest.mark.parametrize("size", [0, 1, 1 << 20])
def test_bytes_go_to_the_card_and_come_back(size: int) -> None:
    stream, there = cuda.Stream(), cuda.DeviceMemory(size)
    data = np.random.default_rng(0).integers(0, 255, size, np.uint8)
    back = cuda.PinnedMemory(size)
    cuda.copy(there.address, data.ctypes.data, size, stream)
    cuda.copy(back.address, there.address, size, stream)
    stream.wait()
    np.testing.assert_array_equal(back.array[:size], data)


def test_a_view_keeps_pinned_memory_alive() -> None:
    view = cuda.PinnedMemory(1 << 16).array[5:9]
    gc.collect()
    view[:] = 7
    assert view.tolist() == [7, 7, 7, 7]


def test_memory_of_the_card_is_given_back_when_it_is_dropped() -> None:
    cuda.DeviceMemory(1)  # the first call makes the context
    before, _ = cuda.call("cudaMemGetInfo")
    memory = cuda.DeviceMemory(256 << 20)
    during, _ = cuda.call("cudaMemGetInfo")
    del memory
    after, _ = cuda.call("cudaMemGetInfo")
    assert before - during >= 256 << 20
    assert after == before


def test_zeros_fill_memory() -> None:
    stream, there, back = cuda.Stream(), cuda.DeviceMemory(64), cuda.PinnedMemory(64)
    back.array[:] = 9
    cuda.fill_with_zeros(there, stream)
    cuda.copy(back.address, there.address, 64, stream)
    stream.wait()
    assert not back.array.any()


def test_a_graph_does_what_was_recorded_each_time_it_is_launched() -> None:
    stream = cuda.Stream()
    source, target = cuda.PinnedMemory(4), cuda.PinnedMemory(4)
    there = cuda.DeviceMemory(4)
    target.array[:] = 0
    with stream.capture() as graph:
        cuda.copy(there.address, source.address, 4, stream)
        cuda.copy(target.address, there.address, 4, stream)
    stream.wait()
    assert not target.array.any()  # recording does nothing
    recorded = graph()
    for value in (1, 2):
        source.array[:] = value
        recorded.launch(stream)
        stream.wait()
        assert target.array.tolist() == [value] * 4


def test_a_recording_that_raises_ends_and_the_stream_works_on() -> None:
    stream = cuda.Stream()
    with pytest.raises(ZeroDivisionError), stream.capture():
        1 / 0  # noqa: B018  the point of it
    there = cuda.DeviceMemory(8)
    cuda.fill_with_zeros(there, stream)
    stream.wait()


def test_what_no_graph_holds_raises_and_leaves_the_stream_in_order() -> None:
    stream = cuda.Stream()
    with pytest.raises(cuda.CudaError), stream.capture():
        stream.wait()
    cuda.fill_with_zeros(cuda.DeviceMemory(8), stream)
    stream.wait()


def test_another_thread_may_allocate_while_one_records() -> None:
    stream, there = cuda.Stream(), cuda.DeviceMemory(8)
    with ThreadPoolExecutor(1) as other, stream.capture() as graph:
        cuda.fill_with_zeros(there, stream)
        allocated = other.submit(cuda.DeviceMemory, 1 << 16).result(timeout=30)
    assert allocated.address
    graph().launch(stream)
    stream.wait()
