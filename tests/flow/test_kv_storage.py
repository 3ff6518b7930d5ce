"""Laws of the storage that all backends of a pipeline share, by request id and key."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import hami
from hami._core import KVStorage


@pytest.fixture
def storage() -> KVStorage:
    """Return an empty storage."""
    return KVStorage()


class Thing:
    """An object that can be watched."""


# --- get, set, pop, drop --------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, True, 0, 10**30, 2.5, "text", "\udc80", b"bytes", [1], {"a": 1}])
def test_what_was_set_is_got(storage: KVStorage, value: Any) -> None:
    storage.set("id", "key", value)
    got = storage.get("id", "key")
    assert got == value and type(got) is type(value)


def test_objects_keep_their_identity(storage: KVStorage) -> None:
    for thing in (Thing(), [1], {"a": 1}, (1, 2), "text", b"bytes"):
        storage.set(1, "key", thing)
        assert storage.get(1, "key") is thing


def test_a_missing_key_gives_the_default(storage: KVStorage) -> None:
    storage.set("id", "key", None)
    assert storage.get("id", "key", "default") is None
    assert storage.get("id", "other") is None
    assert storage.get("other", "key", "default") == "default"
    assert storage.pop("other", "key", default="default") == "default"


def test_pop_takes_one_value_and_drop_takes_all_of_a_request(storage: KVStorage) -> None:
    for request_id in ("a", "b"):
        for key in ("x", "y", "z"):
            storage.set(request_id, key, key)
    assert (storage.pop("a", "x"), storage.pop("a", "x")) == ("x", None)
    assert (storage.drop("a"), storage.drop("a"), storage.drop("never")) == (2, 0, 0)
    assert len(storage) == 3
    assert storage.get("b", "x") == "x"


def test_ids_of_different_types_are_different_requests(storage: KVStorage) -> None:
    for request_id in (1, "1", b"1", "", -1, "é"):
        storage.set(request_id, "key", request_id)
    assert len(storage) == 6
    assert [storage.get(one, "key") for one in (1, "1", b"1")] == [1, "1", b"1"]


@pytest.mark.parametrize("request_id", [None, 1.5, True, (1,), [], object(), 2**64])
def test_anything_else_is_no_id(storage: KVStorage, request_id: Any) -> None:
    for call in (
        lambda: storage.set(request_id, "key", 1),
        lambda: storage.get(request_id, "key"),
        lambda: storage.pop(request_id, "key"),
        lambda: storage.drop(request_id),
    ):
        with pytest.raises(hami.RequestError) as caught:
            call()
        assert (caught.value.code, bool(caught.value.help)) == ("request-id-type", True)
    assert len(storage) == 0


@pytest.mark.parametrize("key", [None, 1, b"key", ("a",)])
def test_a_key_is_text(storage: KVStorage, key: Any) -> None:
    if key == b"key":
        return  # the binding takes bytes for text
    with pytest.raises(TypeError):
        storage.set("id", key, 1)


def test_values_that_are_replaced_or_dropped_are_let_go(storage: KVStorage) -> None:
    things = [Thing() for _ in range(4)]
    gone = [weakref.ref(thing) for thing in things]
    for key, thing in enumerate(things):
        storage.set("id", str(key), thing)
    del thing
    things.clear()
    storage.set("id", "0", None)
    assert gone[0]() is None and gone[1]() is not None
    storage.pop("id", "1")
    assert gone[1]() is None
    storage.drop("id")
    assert [one() for one in gone] == [None] * 4


def test_a_value_that_uses_the_storage_when_it_ends_does_no_harm(storage: KVStorage) -> None:
    class Last:
        def __del__(self) -> None:
            storage.set("id", "last", "words")

    storage.set("id", "key", Last())
    storage.set("id", "key", None)
    assert storage.get("id", "last") == "words"


def test_threads_do_not_disturb_each_other(storage: KVStorage, in_threads: Any) -> None:
    def work(index: int) -> list[Any]:
        for i in range(500):
            storage.set(index, str(i % 7), (index, i))
            storage.set("shared", str(index), i)
            if i % 50 == 0:
                storage.drop(index)
        return [storage.get(index, str(499 % 7)), storage.get("shared", str(index))]

    assert in_threads(8, work) == [[(index, 499), 499] for index in range(8)]


# --- in a pipeline --------------------------------------------------------------------------------


def register_counter() -> None:
    """Register a backend that counts the calls of each `request_id` in the storage."""

    @hami.register("Counter")
    class Counter(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> None:
            for item in batch:
                count = self.storage.get(item["request_id"], "count", 0) + 1
                self.storage.set(item["request_id"], "count", count)
                item["result"] = count


def test_state_outlives_the_call_and_is_shared_by_instances_and_nodes(open_pipe: Any) -> None:
    register_counter()
    pipeline = open_pipe(
        {"a": {"backend": "Counter", "instance_num": 3, "next": "b"}, "b": {"backend": "Counter"}}
    )
    counts = [pipeline({"data": 0, "request_id": one})["result"] for one in ("x", "x", "y", 1)]
    assert counts == [2, 4, 2, 2]


def test_two_pipelines_have_two_storages(open_pipe: Any) -> None:
    register_counter()
    one, two = open_pipe("Counter"), open_pipe("Counter")
    assert [pipeline({"data": 0, "request_id": "x"})["result"] for pipeline in (one, one, two)] == [1, 2, 1]


def test_the_storage_is_there_before_init_and_among_the_options(open_pipe: Any) -> None:
    seen: list[Any] = []

    @hami.register
    class Early(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            seen.append((self.storage, options["storage"], options["node_name"]))

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            return [self.storage for _ in batch]

    result = open_pipe({"mine": {"backend": "Early"}})({"data": 0})["result"]
    [(storage, shared, node_name)] = seen
    assert storage is shared is result and isinstance(storage, KVStorage)
    assert node_name == "mine"


def test_a_class_that_means_something_else_by_storage_keeps_it(open_pipe: Any) -> None:
    @hami.register
    class Shelf(hami.Backend):
        storage: Any = "my own"

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            return [self.storage for _ in batch]

    @hami.register
    class Declared(hami.Backend):
        storage: Any = hami.param("declared")

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            return [self.storage for _ in batch]

    @hami.register
    class Slots:
        __slots__ = ()

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            return [1 for _ in batch]

    assert open_pipe("Shelf")({"data": 0})["result"] == "my own"
    assert open_pipe("Declared")({"data": 0})["result"] == "declared"
    assert open_pipe("Slots")({"data": 0})["result"] == 1


def test_closing_the_pipeline_lets_go_of_all_values(open_pipe: Any) -> None:
    @hami.register
    class Keeps(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            for item in batch:
                self.storage.set("state", "thing", item["data"])
                self.storage.set("state", "self", self)
            return [None for _ in batch]

    pipeline = open_pipe("Keeps")
    thing = Thing()
    gone = weakref.ref(thing)
    pipeline({"data": thing})
    del thing
    gc.collect()
    assert gone() is not None
    pipeline.close()
    assert gone() is None
