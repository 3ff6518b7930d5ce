"""Faults by values that run code of their own when they are looked at or die, and by odd memory."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from typing import Any

import pytest

import hami


@pytest.mark.parametrize("source", ["Identity", "Identities", "Probe"])
@pytest.mark.parametrize(
    "value",
    [(ctypes.c_int * 3)(1, 2, 3), (ctypes.c_double * 0)(), ((ctypes.c_byte * 2) * 3)(), ctypes.c_int(5)],
    ids=["vector", "empty", "matrix", "scalar"],
)
def test_memory_of_ctypes_is_taken(open_pipe: Any, probe: Any, source: str, value: Any) -> None:
    """Such buffers leave out their strides although they are asked for them."""
    probe()
    assert open_pipe(source)({"data": value})["result"] is value


def test_rows_of_ctypes_memory_are_right(open_pipe: Any) -> None:
    np = pytest.importorskip("numpy")
    hami.register("Rows", lambda batch: [np.asarray(item["data"]).tolist() for item in batch])
    pipeline = open_pipe({"each": {"backend": "ForEach(target=rows)"}, "rows": {"backend": "Rows"}})
    matrix = ((ctypes.c_int * 2) * 3)(*[(ctypes.c_int * 2)(i, i + 10) for i in range(3)])
    assert pipeline({"data": matrix})["result"] == [[0, 10], [1, 11], [2, 12]]


def test_memory_that_was_released_is_only_an_object(open_pipe: Any) -> None:
    view = memoryview(b"abc")
    view.release()
    assert open_pipe("Identities")({"data": view})["result"] is view


@pytest.mark.parametrize("raised", [BufferError, SystemExit, KeyboardInterrupt, RecursionError])
def test_what_an_object_raises_when_it_is_shown_as_array_makes_it_an_object(
    open_pipe: Any, raised: type[BaseException]
) -> None:
    class Shy:
        def __dlpack__(self, **_: Any) -> Any:
            raise raised

    value = Shy()
    hami.register("Shows", lambda batch: [value for _ in batch])
    assert open_pipe("Identities")({"data": value})["result"] is value
    assert open_pipe("Shows")({"data": 1})["result"] is value


def test_an_object_is_never_asked_for_its_class(open_pipe: Any) -> None:
    class Anonymous:
        @property
        def __class__(self) -> Any:
            raise KeyboardInterrupt("no class")

        @__class__.setter
        def __class__(self, value: Any) -> None: ...

    value = Anonymous()
    assert open_pipe("Identities")({"data": value})["result"] is value


def test_a_value_may_call_the_pipeline_when_it_dies(open_pipe: Any) -> None:
    answers: list[Any] = []

    class Last:
        def __del__(self) -> None:
            answers.append(pipeline({"data": 7})["result"])

    pipeline = open_pipe("Identities")
    hami.register("Drops", lambda batch: [Last() and 0 for _ in batch])
    dropping = open_pipe("Drops")
    for _ in range(50):
        dropping({"data": Last()})
    dropping({"data": 0})
    assert len(answers) >= 100 and set(answers) == {7}


def test_a_value_may_close_the_pipeline_when_it_dies(open_pipe: Any) -> None:
    class Last:
        def __del__(self) -> None:
            pipeline.close(timeout=0)

    pipeline = open_pipe("Identities")
    with pytest.raises(hami.Closed):
        for _ in range(3):
            pipeline({"data": Last()})


def test_a_value_whose_deletion_raises_harms_nobody(open_pipe: Any, monkeypatch: Any) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: raised.append(info.exc_type))

    class Last:
        def __del__(self) -> None:
            raise SystemExit("never")

    pipeline = open_pipe("Identities")
    for _ in range(10):
        pipeline({"data": Last()})
    assert pipeline({"data": 1})["result"] == 1
    assert set(raised) == {SystemExit}


def test_the_first_arrays_of_many_threads_do_not_wait_for_each_other() -> None:
    """Whoever made the first array of a process imported numpy while others held what it needed."""
    script = """
import array, sys, threading
import hami
hami.register("Kind", lambda batch: [type(item["data"]).__name__ for item in batch])
tables = {"each": {"backend": "ForEach(target=kind)"}, "kind": {"backend": "Kind"}}
pipes = [hami.pipe(tables) for _ in range(6)]
assert "numpy" not in sys.modules
start = threading.Barrier(6)
def call(pipe):
    matrix = memoryview(array.array("d", range(4))).cast("B").cast("d", (2, 2))
    start.wait(); kinds.append(pipe({"data": matrix})["result"])
kinds = []
threads = [threading.Thread(target=call, args=(pipe,)) for pipe in pipes]
for thread in threads: thread.start()
for thread in threads: thread.join()
print(len(kinds), len({kind for pair in kinds for kind in pair}))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["6", "1"], done.stderr
