"""Arrays by address: DLPack is read and made rightly, on arrays of the CPU."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any

import numpy as np
import pytest

from hami.backends.tensorrt.device_array import DeviceArray, _exported, view
from hami.errors import RequestError

TYPES = ("float32", "float16", "float64", "int8", "int32", "int64", "uint8", "bool")


class Foreign:
    """An array of another framework: all it has is DLPack."""

    def __init__(self, array: np.ndarray, device_type: int = 1) -> None:
        self.array = array
        self.device_type = device_type

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device_type, 0

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__()


def content(found: DeviceArray) -> bytes:
    return ctypes.string_at(found.address, found.size_bytes)


@pytest.mark.parametrize("dtype", TYPES)
def test_address_shape_and_type_are_those_of_the_array(dtype: str) -> None:
    array = (np.arange(24) % 2).astype(dtype).reshape(2, 3, 4)
    found = view(Foreign(array))
    assert (found.address, found.shape, found.dtype) == (array.ctypes.data, (2, 3, 4), dtype)
    assert content(found) == array.tobytes()


def test_a_slice_begins_where_it_begins() -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    assert content(view(Foreign(array[2:]))) == array[2:].tobytes()


@pytest.mark.parametrize(
    "cut", [lambda x: x[:, ::2], lambda x: x[::-1], lambda x: x.T], ids=["columns", "reversed", "transposed"]
)
def test_an_array_with_gaps_is_refused(cut: Any) -> None:
    array = np.arange(24, dtype=np.float32).reshape(4, 6)
    with pytest.raises(RequestError, match="in one piece") as caught:
        view(Foreign(cut(array)))
    assert caught.value.code == "tensorrt-array"


def test_strides_of_axes_of_one_do_not_matter() -> None:
    array = np.arange(12, dtype=np.float32).reshape(3, 4)[1:2]
    assert view(Foreign(array)).is_contiguous


def test_an_empty_array_is_in_one_piece() -> None:
    assert view(Foreign(np.empty((0, 4), np.float32))).size_bytes == 0


@pytest.mark.parametrize("thing", [None, 3, "text", [1.0], object(), Foreign(np.zeros(2), device_type=10)])
def test_what_is_no_array_of_cpu_or_card_is_refused(thing: Any) -> None:
    with pytest.raises(RequestError) as caught:
        view(thing)
    assert caught.value.code == "tensorrt-array"


def test_the_memory_lives_as_long_as_the_view_and_no_longer() -> None:
    class Own(np.ndarray):
        """An array that can be watched."""

    array = np.arange(4, dtype=np.float32).view(Own)
    expected, watched = array.tobytes(), weakref.ref(array)
    found = view(Foreign(array))
    del array
    gc.collect()
    assert content(found) == expected
    del found
    gc.collect()
    assert watched() is None


# --- for others ------------------------------------------------------------------------------------


def owned(array: np.ndarray) -> DeviceArray:
    """Return an array of numpy as one of ours."""
    address, dtype = array.ctypes.data, array.dtype.name
    return DeviceArray(address, array.shape, dtype, array.dtype.itemsize, False, owner=array)


@pytest.mark.parametrize("dtype", TYPES)
def test_others_read_arrays_of_ours_where_they_are(dtype: str) -> None:
    array = (np.arange(12) % 2).astype(dtype).reshape(3, 4)
    read = np.from_dlpack(owned(array))
    assert read.dtype == array.dtype and read.ctypes.data == array.ctypes.data
    np.testing.assert_array_equal(read, array)


def test_a_view_of_an_array_of_ours_is_the_same_array() -> None:
    array = owned(np.arange(6, dtype=np.float32).reshape(2, 3))
    assert view(array) is array
    again = view(ByCapsule(array))
    assert (again.address, again.shape, again.dtype) == (array.address, array.shape, array.dtype)


def test_the_memory_lives_as_long_as_others_read_it_and_no_longer() -> None:
    class Own(np.ndarray):
        """An array that can be watched."""

    array = np.arange(4, dtype=np.float32).view(Own)
    expected, watched = array.tolist(), weakref.ref(array)
    read = np.from_dlpack(owned(array))
    del array
    gc.collect()
    assert read.tolist() == expected
    del read
    gc.collect()
    assert watched() is None and not _exported


def test_a_capsule_that_nobody_takes_holds_nothing() -> None:
    capsule = owned(np.arange(4)).__dlpack__()
    assert len(_exported) == 1
    del capsule
    gc.collect()
    assert not _exported


def test_bfloat16_and_the_card_are_said_to_others() -> None:
    bits = np.array([0x3F80, 0x4000], np.uint16)
    found = view(Foreign(bits))
    narrow = DeviceArray(found.address, (2,), "bfloat16", 2, False, owner=bits)
    assert view(ByCapsule(narrow)).dtype == "bfloat16"
    assert DeviceArray(0, (2,), "float32", 4, True, card=1).__dlpack_device__() == (2, 1)


class ByCapsule:
    """An array that is known through its capsule alone."""

    def __init__(self, array: DeviceArray) -> None:
        self.array = array

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__()


def test_the_core_takes_arrays_of_ours_as_results() -> None:
    import hami

    array = np.arange(6, dtype=np.float32).reshape(2, 3)

    def give(batch: list[dict[str, Any]]) -> None:
        for item in batch:
            item["result"] = owned(array)

    hami.register("GiveArrayByAddress", give)
    with hami.pipe("S[GiveArrayByAddress, ContiguousTensor]") as pipe:
        np.testing.assert_array_equal(np.from_dlpack(pipe({"data": 0})["result"]), array)
