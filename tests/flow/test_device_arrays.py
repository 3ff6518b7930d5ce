"""Arrays that say they lie on a device: how often their stream is looked at, and how engines get them.

A machine without a GPU serves: memory of the host is exported as if it lay on one, and nobody here reads it
but through the object that holds it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import hami
import hami.tensors
from hami import Engine, TensorSpec

CUDA = 2  # DLPack's code of the device type
OFFSET_OF_DEVICE_TYPE = 8  # behind the pointer to the data

pointer_of_capsule = ctypes.pythonapi.PyCapsule_GetPointer
pointer_of_capsule.restype, pointer_of_capsule.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


class OnDevice:
    """A numpy array that claims to lie on the first GPU."""

    def __init__(self, *values: Any) -> None:
        self.array = np.array(values, np.float32)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CUDA, 0

    def __dlpack__(self, stream: int | None = None) -> Any:
        assert stream == -1, "whoever has waited for the stream asks for no further waiting"
        capsule = self.array.__dlpack__()
        address = pointer_of_capsule(capsule, b"dltensor")
        ctypes.c_int32.from_address(address + OFFSET_OF_DEVICE_TYPE).value = CUDA
        return capsule

    def __getitem__(self, key: Any) -> OnDevice:
        return OnDevice(*self.array[key])


class OnDeviceToo(OnDevice):
    """One of another library, which has streams of its own."""


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return the list of arrays whose stream was waited for."""
    arrays: list[Any] = []
    monkeypatch.setattr(hami.tensors, "settle", arrays.append)
    return arrays


# --- streams ---------------------------------------------------------------------------------------


def test_the_array_of_a_caller_is_waited_for_once(open_pipe: Callable[..., Any], settled: list[Any]) -> None:
    pipe = open_pipe("S[Identity, Identity, Identity]")
    array = OnDevice(1, 2)

    result = pipe({"data": array})["result"]

    assert result is array and settled == [array]


def test_the_results_of_a_batch_are_waited_for_together(
    open_pipe: Callable[..., Any], settled: list[Any]
) -> None:
    def give(batch: list[dict[str, Any]]) -> None:
        for item in batch:
            item["result"], item["other"] = OnDevice(item["data"]), OnDevice(0)

    hami.register("GiveOnDevice", give)
    pipe = open_pipe({"backend": "GiveOnDevice", "max": 4, "batching_timeout": 1000})

    answers = pipe([{"data": index} for index in range(4)])

    assert [float(answer["result"].array[0]) for answer in answers] == [0, 1, 2, 3]
    assert len(settled) == 1


def test_each_batch_is_waited_for_anew(open_pipe: Callable[..., Any], settled: list[Any]) -> None:
    def give(batch: list[dict[str, Any]]) -> None:
        for item in batch:
            item["result"] = OnDevice(item["data"])

    hami.register("GiveOneOnDevice", give)
    pipe = open_pipe("GiveOneOnDevice")

    for value in range(3):
        pipe({"data": value})

    assert len(settled) == 3


def test_every_library_of_a_batch_is_waited_for(open_pipe: Callable[..., Any], settled: list[Any]) -> None:
    def give(batch: list[dict[str, Any]]) -> None:
        for item in batch:
            item["result"] = OnDevice(1) if item["data"] % 2 else OnDeviceToo(1)

    hami.register("GiveOnTwo", give)
    pipe = open_pipe({"backend": "GiveOnTwo", "max": 4, "batching_timeout": 1000})

    pipe([{"data": index} for index in range(4)])

    assert sorted(type(array).__name__ for array in settled) == ["OnDevice", "OnDeviceToo"]


def test_a_wait_that_fails_spoils_nothing(
    open_pipe: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(array: Any) -> None:
        raise RuntimeError("the driver is gone")

    monkeypatch.setattr(hami.tensors, "settle", broken)
    array = OnDevice(1)

    assert open_pipe("Identity")({"data": array})["result"] is array


# --- engines ---------------------------------------------------------------------------------------


class Gathering(Engine):
    """y = 2 x, and a note of how the rows came."""

    array_device = (CUDA, 0)

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        self.inputs = [TensorSpec("x", "float32", (-1, 2))]
        self.outputs = [TensorSpec("y", "float32", (-1, 2))]
        NOTES.clear()

    def join(self, parts: list[Any], num_rows: int) -> Any:
        NOTES.append(("join", [part.array.shape for part in parts], num_rows))
        return np.concatenate([part.array for part in parts])

    def run(self, arrays: list[Any]) -> list[Any]:
        return [np.asarray(arrays[0]) * 2]


class Stacking(Gathering):
    """The same, where lone rows have a way of their own."""

    def stack(self, rows: list[Any], num_rows: int) -> Any:
        NOTES.append(("stack", [row.array.shape for row in rows], num_rows))
        return np.stack([row.array for row in rows])


NOTES: list[Any] = []


@pytest.fixture
def open_engine(open_pipe: Callable[..., Any]) -> Callable[[type], Any]:
    """Give a function that opens a pipeline of an engine that takes four rows."""

    def open_one(engine: type) -> Any:
        hami.register("EngineOnDevice", engine)
        return open_pipe({"backend": "EngineOnDevice", "max": 4, "batching_timeout": 1000})

    return open_one


def test_lone_rows_on_a_device_are_stacked_as_they_came(open_engine: Callable[[type], Any]) -> None:
    pipe = open_engine(Stacking)

    answers = pipe([{"data": OnDevice(index, 1)} for index in range(4)])

    assert [answer["result"].tolist() for answer in answers] == [[2 * index, 2] for index in range(4)]
    assert NOTES == [("stack", [(2,)] * 4, 4)]


def test_without_a_stack_of_their_own_engines_join_rows(open_engine: Callable[[type], Any]) -> None:
    pipe = open_engine(Gathering)

    answers = pipe([{"data": OnDevice(index, 1)} for index in range(4)])

    assert [answer["result"].tolist() for answer in answers] == [[2 * index, 2] for index in range(4)]
    assert NOTES == [("join", [(1, 2)] * 4, 4)]


def test_arrays_with_rows_are_joined_and_lone_ones_with_them(open_engine: Callable[[type], Any]) -> None:
    pipe = open_engine(Stacking)
    requests = [{"data": OnDevice([1, 2], [3, 4]), "request_size": 2}, *({"data": OnDevice(5, 6)},) * 2]

    answers = pipe([dict(request) for request in requests])

    assert [answer["result"].tolist() for answer in answers] == [[[2, 4], [6, 8]], [10, 12], [10, 12]]
    assert NOTES == [("join", [(2, 2), (1, 2), (1, 2)], 4)]


def test_an_error_while_rows_are_stacked_is_that_of_its_requests(open_engine: Callable[[type], Any]) -> None:
    class Failing(Stacking):
        def stack(self, rows: list[Any], num_rows: int) -> Any:
            if len(NOTES) == 0:
                NOTES.append("failed")
                raise ValueError("no memory")
            return super().stack(rows, num_rows)

    pipe = open_engine(Failing)

    with pytest.raises(ValueError, match="no memory"):
        pipe({"data": OnDevice(1, 2)})
    assert pipe({"data": OnDevice(1, 2)})["result"].tolist() == [2, 4]
