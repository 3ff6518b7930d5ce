"""Laws of exceptions: they reach callers as themselves, with traceback and notes, a copy for each."""

from __future__ import annotations

import copy
import json
import threading
import traceback
from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000


class CodedError(Exception):
    """An exception that its arguments alone do not describe."""

    def __init__(self, message: str, *, code: int) -> None:
        super().__init__(message)
        self.code = code


class SlottedError(Exception):
    """An exception with its state in slots."""

    __slots__ = ("place",)


class StrictError(Exception):
    """An exception whose constructor and copying refuse."""

    def __init__(self, first: int, second: int) -> None:
        super().__init__("strict")
        self.sum = first + second

    def __reduce__(self) -> Any:
        raise TypeError("never copied")


class PeculiarError(Exception):
    """An exception that cannot be made anew at all."""

    made = 0

    def __new__(cls, *args: Any) -> PeculiarError:
        cls.made += 1
        if cls.made > 1:
            raise RuntimeError("only once")
        return super().__new__(cls, *args)


def raises(error: BaseException) -> Any:
    """Return the work that raises an exception."""

    def work(item: dict[str, Any]) -> Any:
        raise error

    return work


def caught_from(open_pipe: Any, probe: Any, error: BaseException, source: Any = "Probe") -> Any:
    """Return what a caller catches when the backend raises `error`."""
    probe(work=raises(error))
    with pytest.raises(BaseException) as caught:
        open_pipe(source)({"data": 0})
    return caught.value


def make_errors() -> dict[str, BaseException]:
    """Return exceptions of all kinds."""
    slotted = SlottedError("s")
    slotted.place = "here"
    with_dict = ValueError("v")
    with_dict.extra = [1]  # type: ignore[attr-defined]
    return {
        "plain": ValueError("what went wrong", 5),
        "empty": RuntimeError(),
        "key": KeyError("k"),
        "file": FileNotFoundError(2, "No such file", "/some/where"),
        "two_files": OSError(18, "Cross-device link", "/a", None, "/b"),
        "unicode": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
        "import": ModuleNotFoundError("No module named `x`", name="x", path="/p"),
        "attribute": AttributeError("no attribute", name="n", obj=1),
        "name": NameError("no name", name="n"),
        "syntax": SyntaxError("bad", ("f.py", 3, 4, "text")),
        "stop": StopIteration("value"),
        "json": json.JSONDecodeError("bad json", "{", 1),
        "coded": CodedError("m", code=7),
        "slotted": slotted,
        "strict": StrictError(1, 2),
        "attributes": with_dict,
        "assertion": AssertionError("a"),
        "recursion": RecursionError("deep"),
        "memory": MemoryError("m"),
        "not_implemented": NotImplementedError("n"),
        "timeout": TimeoutError("t"),
        "hami": hami.RequestError("own", code="own-code", where="w", help="h"),
        "interrupt": KeyboardInterrupt(),
        "exit": SystemExit(3),
    }


STATE = (
    "args", "errno", "strerror", "filename", "filename2", "name", "path", "obj", "value", "code", "where",
    "help", "place", "extra", "sum", "pos", "doc", "lineno", "offset", "text", "msg", "object", "reason",
)  # fmt: skip


@pytest.mark.parametrize("kind", list(make_errors()))
def test_an_exception_keeps_its_type_text_and_state(open_pipe: Any, probe: Any, kind: str) -> None:
    error = make_errors()[kind]
    caught = caught_from(open_pipe, probe, error)
    assert type(caught) is type(error)
    assert str(caught) == str(error)
    missing = object()
    for name in STATE:
        assert getattr(caught, name, missing) == getattr(error, name, missing), name


@pytest.mark.parametrize("kind", list(make_errors()))
def test_callers_of_one_batch_get_exceptions_of_their_own(open_pipe: Any, probe: Any, kind: str) -> None:
    error = make_errors()[kind]
    seen = probe("Probe", raises(error), is_idempotent=False)
    pipeline = open_pipe({"backend": "Probe", "max": 4, "batching_timeout": FOR_EVER_MS, "queue_capacity": 9})
    seen.plug(pipeline)
    futures = [pipeline.submit({"data": i}) for i in range(4)]
    seen.open()
    caught = [future.exception(10) for future in futures]
    assert len({id(one) for one in caught}) == 4
    assert all(str(one) == str(error) for one in caught)


def test_an_exception_that_cannot_be_copied_is_better_shared_than_lost(open_pipe: Any, probe: Any) -> None:
    PeculiarError.made = 0
    assert str(caught_from(open_pipe, probe, PeculiarError("p"))) == "p"


def test_the_traceback_shows_the_users_frames(open_pipe: Any, probe: Any) -> None:
    def innermost() -> Any:
        return {}["k"]  # type: ignore[index]

    def middle() -> Any:
        return innermost()

    probe(work=lambda item: middle())
    with pytest.raises(KeyError) as caught:
        open_pipe("Probe")({"data": 0})
    names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
    assert names[-2:] == ["middle", "innermost"]
    assert names[0] == "test_the_traceback_shows_the_users_frames"


@pytest.mark.parametrize("how", ["future", "acall"])
def test_the_traceback_survives_the_other_ways_to_call(open_pipe: Any, probe: Any, how: str) -> None:
    import asyncio

    def culprit(item: dict[str, Any]) -> Any:
        return 1 // 0

    probe(work=culprit)
    pipeline = open_pipe("Probe")
    with pytest.raises(ZeroDivisionError) as caught:
        if how == "future":
            pipeline.submit({"data": 0}).result(10)
        else:
            asyncio.run(pipeline.acall({"data": 0}))
    assert traceback.extract_tb(caught.value.__traceback__)[-1].name == "culprit"


def test_tracebacks_and_notes_do_not_grow_from_call_to_call(open_pipe: Any, probe: Any) -> None:
    shared = ValueError("always the same object")
    probe(work=raises(shared))
    pipeline = open_pipe("Probe")

    def size() -> tuple[int, int]:
        with pytest.raises(ValueError, match="same") as caught:
            pipeline({"data": 0})
        return len(traceback.extract_tb(caught.value.__traceback__)), len(caught.value.__notes__)

    sizes = [size() for _ in range(20)]
    # User code raises one object again and again, so its traceback may grow; the notes are ours.
    assert {notes for _, notes in sizes} == {1}
    assert not hasattr(shared, "__notes__")


def test_causes_and_contexts_are_kept(open_pipe: Any, probe: Any) -> None:
    cause, context = KeyError("cause"), OSError("context")

    def work(item: dict[str, Any]) -> Any:
        if item["data"]:
            raise ValueError("v") from cause
        try:
            raise context
        except OSError:
            raise ValueError("v")  # noqa: B904

    probe(work=work)
    pipeline = open_pipe("Probe")
    with pytest.raises(ValueError, match="v") as caught:
        pipeline({"data": 1})
    assert caught.value.__cause__ is cause and caught.value.__suppress_context__
    with pytest.raises(ValueError, match="v") as caught:
        pipeline({"data": 0})
    assert caught.value.__context__ is context


# --- notes ----------------------------------------------------------------------------------------


def test_a_note_names_node_backend_and_instance(open_pipe: Any, probe: Any) -> None:
    caught = caught_from(open_pipe, probe, ValueError("v"), {"classify": {"backend": "Probe"}})
    assert caught.__notes__ == ["in node `classify`, backend `Probe`, instance 0"]
    assert caught.__notes__[0] in "".join(traceback.format_exception(caught))


def test_the_users_own_notes_stay_before_ours(open_pipe: Any, probe: Any) -> None:
    error = ValueError("v")
    error.__notes__ = ["a hint"]  # type: ignore[attr-defined]
    caught = caught_from(open_pipe, probe, error)
    assert caught.__notes__[0] == "a hint" and len(caught.__notes__) == 2
    assert error.__notes__ == ["a hint"]


def test_the_note_names_the_node_that_failed_and_no_other(open_pipe: Any, probe: Any) -> None:
    probe("Fails", raises(ValueError("v")))
    pipeline = open_pipe(
        {
            "a": {"backend": "Identity", "next": "b"},
            "b": {"backend": "S[Identity, Fails]", "next": "c"},
            "c": {"backend": "Pow"},
        }
    )
    with pytest.raises(ValueError, match="v") as caught:
        pipeline({"data": 0})
    assert len(caught.value.__notes__) == 1 and "node `b`" in caught.value.__notes__[0]


@pytest.mark.parametrize("how", ["raise", "item"])
def test_the_note_names_the_instance_that_ran(open_pipe: Any, how: str) -> None:
    class Numbered(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            self.barrier = barrier

        def forward(self, batch: list[dict[str, Any]]) -> None:
            self.barrier.wait(10)  # both instances are inside
            if how == "raise":
                raise ValueError(id(self))
            batch[0]["error"] = ValueError(id(self))

    barrier = threading.Barrier(2)
    hami.register("Numbered", Numbered)
    pipeline = open_pipe({"backend": "Numbered", "instance_num": 2})
    errors = [future.exception(10) for future in [pipeline.submit({"data": i}) for i in range(2)]]
    notes = {error.__notes__[0] for error in errors if error is not None}
    assert notes == {f"in node `node`, backend `Numbered`, instance {i}" for i in range(2)}


def test_the_note_survives_for_each(open_pipe: Any, probe: Any) -> None:
    probe("Fails", raises(ValueError("v")))
    for on_error in ("fail", "keep"):
        pipeline = open_pipe(
            {"each": {"backend": f"ForEach(target=work, on_error={on_error})"}, "work": {"backend": "Fails"}}
        )
        if on_error == "fail":
            with pytest.raises(ValueError, match="v") as caught:
                pipeline({"data": [0]})
            error: Any = caught.value
        else:
            error = pipeline({"data": [0]})["result"][0]
        assert error.__notes__ == ["in node `work`, backend `Fails`, instance 0"]


# --- our own --------------------------------------------------------------------------------------


def test_errors_of_the_core_belong_to_their_python_families(open_pipe: Any) -> None:
    pipeline = open_pipe("Pow")
    with pytest.raises(hami.RequestError) as caught:
        pipeline({"data": "text"})
    error = caught.value
    assert isinstance(error, ValueError) and isinstance(error, hami.Error)
    assert error.code == "request-type" and error.help and error.http_status == 422
    assert error.__notes__ == ["in node `node`, backend `Pow`, instance 0"]
    assert str(copy.copy(error)) == str(error)


def test_each_item_of_a_batch_of_the_core_fails_with_its_own_error(open_pipe: Any) -> None:
    requests = [{"data": value} for value in (1, "a", 2, None, 3.0, True, 2**62)]
    with pytest.raises(hami.RequestError, match="`str`"):
        open_pipe({"backend": "S[Identities, Pow]", "max": 16, "batching_timeout": FOR_EVER_MS})(requests)
    assert [request.get("result") for request in requests] == [1, None, 4, None, 9.0, None, None]


@pytest.mark.parametrize("data", ["\x1b[31mred", "a\nb", "\ud800", "x" * 100_000, "`quoted`"])
def test_no_data_can_break_the_text_of_an_error(open_pipe: Any, data: str) -> None:
    with pytest.raises(hami.RequestError) as caught:
        open_pipe("Identity")({"data": 1, "priority": data})
    text = str(caught.value)
    assert "\x1b" not in text and len(text) < 1000
    text.encode()


def test_an_error_object_as_result_is_only_data(open_pipe: Any, probe: Any) -> None:
    error = ValueError("data")
    probe(work=lambda item: error)
    assert open_pipe("Probe")({"data": 0})["result"] is error


def test_an_error_key_of_the_caller_is_only_data(open_pipe: Any, probe: Any) -> None:
    probe()
    error = ValueError("mine")
    for source in ("Identity", "Probe"):
        assert open_pipe(source)({"data": 1, "error": error}) == {"data": 1, "error": error, "result": 1}


def test_no_exception_stays_alive_after_its_caller_let_it_go(
    open_pipe: Any, eventually: Any, caplog: Any
) -> None:
    caplog.set_level("CRITICAL", logger="hami")  # pytest keeps what is logged
    import gc
    import weakref

    alive: list[Any] = []

    class SeenError(Exception):
        pass

    def forward(batch: list[dict[str, Any]]) -> None:
        error = SeenError("s")
        alive.append(weakref.ref(error))
        raise error

    hami.register("Raises", forward)
    pipeline = open_pipe({"backend": "Raises", "max": 2, "batching_timeout": FOR_EVER_MS})
    for _ in range(3):
        with pytest.raises(SeenError):
            pipeline([{"data": 1}, {"data": 2}])
    hami.register("Nothing", lambda batch: [0])
    other = open_pipe("Nothing")

    def is_gone() -> bool:
        other({"data": 0})
        gc.collect()
        return all(one() is None for one in alive)

    assert eventually(is_gone)
