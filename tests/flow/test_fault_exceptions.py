"""Faults by exceptions that misbehave, and by traits of backends that mean nothing or raise."""

from __future__ import annotations

from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000


class MuteError(Exception):
    """An exception that cannot be shown."""

    def __str__(self) -> str:
        raise KeyboardInterrupt("in __str__")

    __repr__ = __str__


class OddNotesError(Exception):
    """An exception whose notes are no list."""

    def __init__(self) -> None:
        super().__init__("odd")
        self.__notes__ = 5


class HiddenError(Exception):
    """An exception that refuses to be looked into."""

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise KeyboardInterrupt("in __dict__")


class OnceError(Exception):
    """An exception that can be made only once, and interrupts whoever tries again."""

    num_made = 0

    def __new__(cls, *args: Any) -> OnceError:
        cls.num_made += 1
        if cls.num_made > 1:
            raise KeyboardInterrupt("in __new__")
        return super().__new__(cls, *args)


MISBEHAVING = [MuteError, OddNotesError, HiddenError, OnceError]
BASES = [BaseException, KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, StopAsyncIteration]


@pytest.fixture(params=[*MISBEHAVING, *BASES])
def raised(request: pytest.FixtureRequest) -> type[BaseException]:
    """A class of exceptions; the backend `Raises` raises one of it, and returns 0 once `data` is 0."""
    kind: type[BaseException] = request.param

    def forward(batch: list[dict[str, Any]]) -> list[int]:
        if any(item["data"] for item in batch):
            OnceError.num_made = 0
            raise kind()
        return [0 for _ in batch]

    hami.register("Raises", forward)
    return kind


# --- exceptions -----------------------------------------------------------------------------------


def test_any_exception_reaches_a_blocked_caller(open_pipe: Any, raised: type[BaseException]) -> None:
    pipeline = open_pipe("Raises")
    for _ in range(3):
        with pytest.raises(BaseException) as caught:
            pipeline({"data": 1})
        assert type(caught.value) is raised
    assert pipeline({"data": 0})["result"] == 0


def test_any_exception_reaches_a_future(open_pipe: Any, raised: type[BaseException]) -> None:
    pipeline = open_pipe("Raises")
    assert type(pipeline.submit({"data": 1}).exception(10)) is raised
    assert pipeline.submit({"data": 0}).result(10)["result"] == 0


def test_any_exception_ends_a_list_and_frees_its_dicts(open_pipe: Any, raised: type[BaseException]) -> None:
    pipeline = open_pipe({"backend": "Raises", "max": 4, "batching_timeout": FOR_EVER_MS})
    requests = [{"data": 1} for _ in range(6)]
    for _ in range(2):
        with pytest.raises(BaseException) as caught:
            pipeline(requests)
        assert type(caught.value) is raised
    assert pipeline.stats()[0]["waiting"] == 0


def test_an_error_that_cannot_be_made_is_answered_with_what_kept_it_from_being_made(
    open_pipe: Any, monkeypatch: Any
) -> None:
    def refuse(*_: Any) -> None:
        raise MemoryError("no room for an error")

    monkeypatch.setattr("hami.failures.make", refuse)
    assert isinstance(open_pipe("Pow").submit({"data": "text"}).exception(10), MemoryError)


@pytest.mark.parametrize("value", [5, "text", MuteError, object()])
def test_a_class_that_makes_something_else_than_exceptions_is_an_error_of_the_backend(
    open_pipe: Any, value: Any
) -> None:
    class Liar(Exception):  # noqa: N818
        def __new__(cls) -> Any:
            return value

    hami.register("Lies", lambda batch: [item.update(error=Liar) for item in batch])
    with pytest.raises(hami.RequestError, match="error"):
        open_pipe("Lies")({"data": 1})


def test_endless_recursion_in_a_backend_is_an_error_of_its_call(open_pipe: Any) -> None:
    def dive(batch: list[dict[str, Any]]) -> Any:
        return dive(batch) if batch[0]["data"] else [0 for _ in batch]

    hami.register("Dives", dive)
    pipeline = open_pipe("Dives")
    for _ in range(3):
        with pytest.raises(RecursionError):
            pipeline({"data": 1})
    assert pipeline({"data": 0})["result"] == 0


# --- traits that are read when an instance is made -------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("group_by", 5),
        ("group_by", "colour"),
        ("batch_range", 5),
        ("batch_range", (0, 4)),
        ("batch_range", (4, 2)),
        ("batch_range", (1, "many")),
        ("batch_range", (1, 2, 3)),
        ("batch_range", (1, 2**80)),
    ],
)
def test_an_odd_trait_that_init_sets_is_a_build_error(open_pipe: Any, name: str, value: Any) -> None:
    class Late(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            setattr(self, name, value)

        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            return [0 for _ in batch]

    hami.register("Late", Late)
    with pytest.raises(hami.BuildError, match=name):
        open_pipe("Late")


@pytest.mark.parametrize("name", ["group_by", "batch_range", "is_inline", "is_reentrant", "is_idempotent"])
def test_what_a_trait_raises_reaches_the_caller_of_pipe(open_pipe: Any, name: str) -> None:
    def refuse(self: Any) -> Any:
        raise ArithmeticError(name)

    def forward(self: Any, batch: list[dict[str, Any]]) -> list[int]:
        return [0 for _ in batch]

    hami.register("Moody", type("Moody", (hami.Backend,), {name: property(refuse), "forward": forward}))
    with pytest.raises(ArithmeticError, match=name):
        open_pipe("Moody")
    assert open_pipe("Identities")({"data": 1})["result"] == 1


def test_a_trait_that_is_neither_true_nor_false_reaches_the_caller_of_pipe(open_pipe: Any) -> None:
    class Neither:
        def __bool__(self) -> bool:
            raise ArithmeticError("neither")

    def forward(self: Any, batch: list[dict[str, Any]]) -> list[int]:
        return [0 for _ in batch]

    hami.register("Unsure", type("Unsure", (hami.Backend,), {"is_inline": Neither(), "forward": forward}))
    with pytest.raises(ArithmeticError, match="neither"):
        open_pipe("Unsure")
