"""Laws of values: any Python object goes into a pipeline, and the same object comes out."""

from __future__ import annotations

import array
import collections
import datetime
import decimal
import gc
import math
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest

import hami

np = pytest.importorskip("numpy")


class Text(str):
    """A string of the user's own class."""


class Plain:
    """An object that nobody but its owner understands."""


def cyclic_list() -> list[Any]:
    """Return a list that holds itself."""
    values: list[Any] = [1]
    values.append(values)
    return values


OBJECTS = {
    "object": Plain(),
    "none": None,
    "true": True,
    "false": False,
    "empty_text": "",
    "text": "a text of some length, long enough to be no constant" * 2,
    "not_ascii": "日本語 ключ 🦆",
    "nul": "a\0b",
    "lone_surrogate": "\ud800",
    "own_text": Text("x"),
    "empty_bytes": b"",
    "bytes": bytes(range(256)),
    "bytearray": bytearray(b"abc"),
    "memoryview": memoryview(b"abc"),
    "array": array.array("d", [1.0, 2.0]),
    "large_int": 10**40,
    "decimal": decimal.Decimal("0.1"),
    "date": datetime.date(2020, 1, 1),
    "complex": 1 + 2j,
    "empty_tuple": (),
    "tuple": (1, "a", None),
    "empty_list": [],
    "list": [1, [2, [3, []]], ()],
    "cyclic_list": cyclic_list(),
    "empty_dict": {},
    "dict": {"a": 1, 2: "b", "": None, (): []},
    "set": {1, 2},
    "range": range(3),
    "type": int,
    "function": len,
    "exception": ValueError("only data"),
}

ARRAYS = {
    "vector": np.arange(5.0),
    "rank_0": np.array(3.0),
    "scalar": np.float64(1.5),
    "int_scalar": np.int64(7),
    "no_rows": np.zeros((0, 3), np.float32),
    "reversed": np.arange(6)[::-1],
    "mirrored": np.arange(6.0).reshape(2, 3)[:, ::-1],
    "transposed": np.arange(6.0).reshape(2, 3).T,
    "every_second": np.arange(10)[::2],
    "broadcast": np.broadcast_to(np.float32(1), (3, 4)),
    "fortran": np.asfortranarray(np.ones((3, 2))),
    "bool": np.array([True, False]),
    "half": np.ones(3, np.float16),
    "complex": np.ones(2, np.complex64),
    "big_endian": np.arange(3, dtype=">i4"),
    "text": np.array(["a", "bc"]),
    "objects": np.array([1, "a", None], dtype=object),
    "times": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "record": np.zeros(2, dtype=[("a", "i4"), ("b", "f8")]),
    "field_of_record": np.zeros(2, dtype=[("a", "i4"), ("b", "u1")])["a"],
}

PIPELINES = {
    "in_place": "Identity",
    "queued": "Identities",
    "python": "Probe",
    "chain": {
        "a": {"backend": "Identity", "next": "b"},
        "b": {"backend": "Probe", "next": "c"},
        "c": {"backend": "Identity"},
    },
    "beside_for_each": {
        "a": {"backend": "Identity", "next": "b,f"},
        "b": {"backend": "Identity"},
        "f": {"backend": "ForEach(target=t, key=items)"},
        "t": {"backend": "Identity"},
        "output": "b",
    },
    "join": {
        "a": {"backend": "Identity", "next": "b"},
        "b": {"backend": "Identity", "map": "input[data:data]"},
    },
}


@pytest.fixture(params=list(PIPELINES))
def pipeline(request: pytest.FixtureRequest, open_pipe: Any, probe: Any) -> hami.Pipeline:
    """One of several ways that an object may take."""
    probe()
    return open_pipe(PIPELINES[request.param])


@pytest.mark.parametrize("value", [*OBJECTS.values(), *ARRAYS.values()], ids=[*OBJECTS, *ARRAYS])
def test_the_same_object_comes_out(pipeline: hami.Pipeline, value: Any) -> None:
    request = {"data": value, "items": []}
    assert pipeline(request)["result"] is value
    assert request["data"] is value


@pytest.mark.parametrize("value", [0, -1, 257, 2**63 - 1, -(2**63), 2**63, 1e308, -0.0, math.inf])
def test_numbers_keep_value_and_type(pipeline: hami.Pipeline, value: float) -> None:
    result = pipeline({"data": value, "items": []})["result"]
    assert (type(result), repr(result)) == (type(value), repr(value))


def test_nan_stays_nan(pipeline: hami.Pipeline) -> None:
    assert math.isnan(pipeline({"data": math.nan, "items": []})["result"])


def test_text_and_bytes_stay_different(open_pipe: Any) -> None:
    pipeline = open_pipe("Identity")
    assert type(pipeline({"data": "abc"})["result"]) is str
    assert type(pipeline({"data": b"abc"})["result"]) is bytes


def test_the_value_none_is_a_valid_result(pipeline: hami.Pipeline) -> None:
    request = pipeline({"data": None, "items": []})
    assert "result" in request and request["result"] is None


@pytest.mark.parametrize("key", ["", "ключ", "a b", "日本", "\ud800", "x" * 10_000, 5, None, (1, 2), b"k"])
def test_a_python_backend_sees_any_key(open_pipe: Any, probe: Any, key: Any) -> None:
    value = Plain()
    probe(work=lambda item: item[key])
    request = {"data": 0, key: value}
    assert open_pipe("Probe")(request)["result"] is value
    assert list(request) == ["data", key, "result"]


@pytest.mark.parametrize("key", ["", "ключ", "a b", "日本"])
def test_any_text_can_be_a_key_that_a_backend_writes(open_pipe: Any, probe: Any, key: str) -> None:
    def write(item: dict[str, Any]) -> int:
        item[key] = "written"
        return 1

    probe(work=write)
    assert open_pipe("Probe")({"data": 0}) == {"data": 0, key: "written", "result": 1}


@pytest.mark.parametrize(
    "make", [collections.OrderedDict, lambda d: collections.defaultdict(list, d), collections.Counter]
)
def test_dicts_of_a_subclass_are_filled_and_returned(open_pipe: Any, make: Callable[[Any], Any]) -> None:
    request = make({"data": 3})
    assert open_pipe("Pow")(request) is request
    assert dict(request) == {"data": 3, "result": 9}


def test_in_place_mutation_of_an_array_is_seen_by_the_caller(open_pipe: Any, probe: Any) -> None:
    def double(item: dict[str, Any]) -> Any:
        item["data"] *= 2
        return item["data"]

    probe(work=double)
    values = np.arange(3.0)
    assert open_pipe("S[Probe, Identity]")({"data": values})["result"] is values
    assert values.tolist() == [0.0, 2.0, 4.0]


def test_read_only_arrays_are_taken(open_pipe: Any) -> None:
    values = np.arange(4)
    values.setflags(write=False)
    assert open_pipe("Identities")({"data": values})["result"] is values


@pytest.fixture(params=["Identity", "Identities", "Forget", "S[Identity, Forget]"])
def forgetful(request: pytest.FixtureRequest, open_pipe: Any) -> hami.Pipeline:
    """A pipeline that keeps nothing itself."""
    hami.register("Forget", lambda batch: [None for _ in batch])
    return open_pipe(request.param)


def test_nothing_holds_the_objects_of_an_answered_request(forgetful: hami.Pipeline, eventually: Any) -> None:
    value = Plain()
    alive = weakref.ref(value)
    request = {"data": value, "extra": value}
    forgetful(request)
    del value, request
    forgetful({"data": 0})
    assert eventually(lambda: gc.collect() >= 0 and alive() is None)


def test_nothing_holds_the_objects_of_a_submitted_request(forgetful: hami.Pipeline, eventually: Any) -> None:
    value = Plain()
    alive = weakref.ref(value)
    future = forgetful.submit({"data": value})
    future.result()
    del value, future
    forgetful({"data": 0})
    assert eventually(lambda: gc.collect() >= 0 and alive() is None)


def test_reference_counts_are_as_before(forgetful: hami.Pipeline, eventually: Any) -> None:
    value, key = Plain(), "a key of the test"
    before = sys.getrefcount(value), sys.getrefcount(key)
    for _ in range(100):
        forgetful({"data": value, key: value})

    def is_as_before() -> bool:
        forgetful({"data": 0})
        return (sys.getrefcount(value), sys.getrefcount(key)) == before

    assert eventually(is_as_before)


def test_buffers_are_free_again_when_the_call_returns(forgetful: hami.Pipeline) -> None:
    buffer = bytearray(b"abc")
    for _ in range(200):
        forgetful({"data": buffer})
        buffer.append(1)  # a BufferError while anybody holds an export


def test_buffers_are_free_again_when_the_call_raises(open_pipe: Any) -> None:
    hami.register("Raise", lambda batch: 1 // 0)
    pipeline = open_pipe("Raise")
    buffer = bytearray(b"abc")
    for _ in range(200):
        with pytest.raises(ZeroDivisionError):
            pipeline({"data": buffer})
        buffer.append(1)
