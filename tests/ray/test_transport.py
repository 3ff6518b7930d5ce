"""Values through Ray: nothing is lost, and arrays may be written on the other side."""

from __future__ import annotations

import pickle
import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import hami
from hami import _core
from hami.ray.transport import Parcel, to_wire, writable

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def sent(value: Any) -> Any:
    """Return a value as it arrives, its large buffers read-only on the way, as Ray's are."""
    buffers: list[pickle.PickleBuffer] = []
    data = pickle.dumps(to_wire(value), protocol=5, buffer_callback=buffers.append)
    return pickle.loads(data, buffers=[bytes(buffer.raw()) for buffer in buffers])


@settings(max_examples=100, deadline=None)
@given(JSON)
def test_plain_values_arrive_as_they_are(value: Any) -> None:
    assert sent(value) == value


@pytest.mark.parametrize("size", [0, 1, 3, 511, 512, 100_000])
@pytest.mark.parametrize("dtype", ["float64", "uint8", "int16", "bool"])
def test_arrays_arrive_whole_and_may_be_written(size: int, dtype: str) -> None:
    array = np.arange(size).astype(dtype)

    arrived = sent({"data": array})["data"]

    assert arrived.dtype == array.dtype
    assert (arrived == array).all()
    arrived[:] = 0


def test_a_bfloat16_tensor_arrives_as_its_memory() -> None:
    # One of the core, or of torch where another test has loaded it.
    tensor = _core.reinterpret(np.arange(5000, dtype=np.uint16), "bfloat16")

    arrived = sent([tensor])[0]

    assert str(arrived.dtype).removeprefix("torch.") == "bfloat16"
    assert np.array_equal(_core.reinterpret(arrived, "uint16"), np.arange(5000, dtype=np.uint16))


def test_views_of_memory_arrive() -> None:
    assert bytes(sent({"data": memoryview(b"x" * 9000)})["data"]) == b"x" * 9000


def test_exceptions_arrive_with_their_parts() -> None:
    error = sent(hami.RequestError("wrong", code="my-code", where="here", help="do it right"))

    assert (type(error), error.code, error.where, error.help) == (
        hami.RequestError,
        "my-code",
        "here",
        "do it right",
    )


def test_small_plain_values_are_not_packed() -> None:
    assert to_wire("text") == "text"
    assert to_wire(b"bytes") == b"bytes"
    assert isinstance(to_wire([1]), Parcel)


@pytest.mark.parametrize("value", [{"data": 1, "lock": threading.Lock()}, [threading.Lock()]])
def test_what_does_not_pickle_is_a_request_error(value: Any) -> None:
    with pytest.raises(hami.RequestError) as caught:
        to_wire(value)

    assert caught.value.code == "ray-pickle"
    assert caught.value.help


def test_only_arrays_that_cannot_be_written_are_copied() -> None:
    free, fixed = np.ones(3), np.ones(3)
    fixed.flags.writeable = False

    request = writable({"free": free, "fixed": fixed, "list": [fixed, 1], "text": "x"})

    assert request["free"] is free
    request["fixed"][0] = request["list"][0][0] = 5
    assert (fixed == 1).all()
    assert (request["list"][1], request["text"]) == (1, "x")
