"""Faults by objects that run code of their own, or change things, while a pipeline looks at them."""

from __future__ import annotations

import array
import collections
import gc
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000


class Shown:
    """An object that offers itself as an array; looking at it runs `effect`."""

    def __init__(self, effect: Any) -> None:
        self.effect = effect

    def __dlpack__(self, **_: Any) -> Any:
        self.effect()
        gc.collect()
        raise BufferError("not today")


# --- the caller's dict ----------------------------------------------------------------------------


def test_a_value_that_leaves_its_dict_when_it_is_looked_at_is_safe(open_pipe: Any) -> None:
    pipeline = open_pipe("Identities")
    for _ in range(20):
        request: dict[str, Any] = {}
        request["data"] = Shown(request.clear)
        assert isinstance(pipeline(request)["result"], Shown)


@pytest.mark.parametrize("key", ["deadline_ms", "priority", "request_size", "node_name"])
def test_a_reserved_value_that_leaves_its_dict_when_it_is_read_is_refused_by_name(
    open_pipe: Any, key: str
) -> None:
    class Vanishing:
        def __float__(self) -> float:
            request.clear()
            return -1.0

        def __repr__(self) -> str:
            request.clear()
            gc.collect()
            raise SystemExit("never shown")

    pipeline = open_pipe("Identity")
    for _ in range(5):
        request = {"data": 1, key: Vanishing()}
        with pytest.raises(hami.RequestError, match=key):
            pipeline(request)
    assert pipeline({"data": 2})["result"] == 2


def test_a_list_that_shrinks_while_its_elements_are_looked_at_is_safe(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {"each": {"backend": "ForEach(target=work)"}, "work": {"backend": "Identities", "max": 8}}
    )
    for _ in range(10):
        values: list[Any] = []
        values += [Shown(values.clear), *(object() for _ in range(100))]
        assert len(pipeline({"data": values})["result"]) == 1


def test_a_dict_may_change_in_another_thread_during_its_call(open_pipe: Any) -> None:
    hami.register("Echo", lambda batch: [item["data"] for item in batch])
    pipeline = open_pipe("Echo")
    request: dict[str, Any] = {"data": 1}
    stop = threading.Event()

    def change() -> None:
        i = 0
        while not stop.is_set():
            i += 1
            request[f"key{i % 50}"] = object()
            request.pop(f"key{(i + 25) % 50}", None)

    changer = threading.Thread(target=change)
    changer.start()
    try:
        for _ in range(30):
            assert pipeline(request)["result"] == 1
    finally:
        stop.set()
        changer.join()


def test_a_dict_that_makes_up_missing_keys_has_only_its_own(open_pipe: Any) -> None:
    class Generous(dict[str, Any]):
        def __missing__(self, key: str) -> int:
            return 42

    pipeline = open_pipe("Identities")
    for request in (Generous(), collections.defaultdict(int)):
        with pytest.raises(hami.RequestError, match="data"):
            pipeline(request)
        assert dict(request) == {}
    assert pipeline(Generous(data=1))["result"] == 1


def test_a_dict_that_refuses_its_result_fails_alone_and_is_free_again(open_pipe: Any) -> None:
    class Refusing(dict[str, Any]):
        def __setitem__(self, key: str, value: Any) -> None:
            raise LookupError("read-only")

    pipeline = open_pipe("Identities")
    refusing, plain = Refusing(data=1), {"data": 2}
    for _ in range(3):
        with pytest.raises(LookupError, match="read-only"):
            pipeline([refusing, plain])
        assert plain.pop("result") == 2
    with pytest.raises(LookupError, match="read-only"):
        pipeline.submit(refusing).result(10)
    assert pipeline([plain])[0]["result"] == 2


def test_a_dict_that_keeps_its_stale_result_is_refused_and_free_again(open_pipe: Any) -> None:
    class Keeping(dict[str, Any]):
        def __delitem__(self, key: str) -> None:
            raise LookupError("kept")

    pipeline = open_pipe("Identities")
    request = Keeping(data=1, result=2)
    for _ in range(3):
        with pytest.raises(LookupError, match="kept"):
            pipeline(request)
    assert request == {"data": 1, "result": 2}


def test_keys_of_a_subclass_of_str_are_keys(open_pipe: Any) -> None:
    class Name(str):
        """A key with a class of its own."""

    hami.register("Marks", lambda batch: [item.update({Name("mark"): 1}) or item["data"] for item in batch])
    request = {Name("data"): 3, Name("other"): 4}
    assert open_pipe("Marks")(request) == {"data": 3, "other": 4, "mark": 1, "result": 3}


def test_a_key_whose_comparison_raises_is_an_error_of_its_call(open_pipe: Any) -> None:
    class Touchy(str):
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            raise ArithmeticError("compared")

    hami.register("Echo", lambda batch: [item["data"] for item in batch])
    pipeline = open_pipe("Echo")
    for request in ({Touchy("data"): 1}, {Touchy("result"): 1, "data": 1}):
        with pytest.raises(ArithmeticError, match="compared"):
            pipeline(request)
    assert pipeline({"data": 5})["result"] == 5


def test_a_key_whose_hash_fails_later_is_an_error_of_its_call(open_pipe: Any) -> None:
    class Moody:
        is_well = True

        def __hash__(self) -> int:
            if not self.is_well:
                raise ArithmeticError("hashed")
            return 5

    def forward(batch: list[dict[str, Any]]) -> list[int]:
        Moody.is_well = False
        return [0 for _ in batch]

    hami.register("Upset", forward)
    pipeline = open_pipe("Upset")
    for _ in range(3):
        Moody.is_well = True
        with pytest.raises(ArithmeticError, match="hashed"):
            pipeline({Moody(): 1, "data": 1})
        Moody.is_well = True
        assert pipeline({"data": 2})["result"] == 0


@pytest.mark.parametrize("count", [1_000, 3_000])
def test_thousands_of_keys_are_carried(open_pipe: Any, count: int) -> None:
    keys = {f"key{i}": i for i in range(count)}
    hami.register("Writes", lambda batch: [item.update(keys) or len(item) for item in batch])
    pipeline = open_pipe({"a": {"backend": "Writes", "next": "b"}, "b": {"backend": "Writes"}})
    request = pipeline({"data": 1, **{f"own{i}": i for i in range(count)}})
    assert len(request) == 2 * count + 2 and request["key999"] == 999


def test_a_list_whose_iterator_lies_is_looked_at_as_it_iterates(open_pipe: Any) -> None:
    class Lying(list[Any]):
        def __iter__(self) -> Iterator[Any]:
            return iter([1, "two"])

    with pytest.raises(hami.RequestError, match="dict"):
        open_pipe("Identity")(Lying([{"data": 1}]))


# --- what a backend leaves behind -----------------------------------------------------------------


def test_results_that_vanish_while_they_are_taken_are_safe(open_pipe: Any) -> None:
    class Old:
        def __del__(self) -> None:
            results.clear()

    results: list[Any] = []

    def forward(batch: list[dict[str, Any]]) -> list[Any]:
        for item in batch:
            item["result"] = Old()
        results[:] = [object() for _ in batch]
        return results

    hami.register("Fickle", forward)
    pipeline = open_pipe({"backend": "Fickle", "max": 8, "batching_timeout": FOR_EVER_MS})
    for _ in range(50):
        assert len({id(one["result"]) for one in pipeline([{"data": i} for i in range(8)])}) == 8


def test_items_that_change_in_another_thread_after_the_run_harm_no_caller(open_pipe: Any) -> None:
    kept: collections.deque[dict[str, Any]] = collections.deque(maxlen=20)
    stop = threading.Event()

    def forward(batch: list[dict[str, Any]]) -> list[Any]:
        kept.extend(batch)
        return [Shown(lambda: time.sleep(0)) for _ in batch]

    def change() -> None:
        while not stop.is_set():
            for item in list(kept):
                item.clear()
                item.update({f"key{i}": object() for i in range(30)})

    hami.register("Leaky", forward)
    pipeline = open_pipe({"backend": "Leaky", "max": 4})
    changer = threading.Thread(target=change)
    changer.start()
    try:
        for i in range(15):
            request = {"data": i}
            try:
                assert isinstance(pipeline(request)["result"], Shown)
            except hami.RequestError as error:
                assert error.code == "request-missing-result"
            assert request["data"] == i
    finally:
        stop.set()
        changer.join()


def test_the_batch_itself_may_be_what_is_returned(open_pipe: Any) -> None:
    hami.register("Same", lambda batch: batch)
    pipeline = open_pipe({"a": {"backend": "Same", "next": "b"}, "b": {"backend": "Identities"}})
    request = {"data": 1}
    result = pipeline(request)["result"]
    assert result is not request and result["data"] == 1


@pytest.mark.parametrize("key", ["\ud800", "a\udfff"])
def test_a_key_that_is_no_text_in_utf_8_is_an_error_that_says_so(open_pipe: Any, key: str) -> None:
    hami.register("Surrogate", lambda batch: [item.update({key: 1}) or 0 for item in batch])
    with pytest.raises(hami.RequestError, match="lone surrogates"):
        open_pipe("Surrogate")({"data": 1})


def test_arrays_keep_their_memory_alive_after_everything_else_has_gone(open_pipe: Any) -> None:
    np = pytest.importorskip("numpy")
    pipeline = open_pipe(
        {"each": {"backend": "ForEach(target=same)"}, "same": {"backend": "S[Identities, Copy]"}}
        if hami.register("Copy", lambda batch: [item["data"] for item in batch])
        else {}
    )
    rows = pipeline({"data": array.array("d", range(1000))})["result"]
    pipeline.close()
    gc.collect()
    assert np.array_equal(np.asarray(rows), np.arange(1000.0))
