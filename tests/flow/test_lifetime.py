"""Laws of what a pipeline leaves behind: no thread and no object, whichever way it ended."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000


@pytest.mark.parametrize("how", ["close", "with", "drop"])
def test_no_thread_is_left(probe: Any, new_threads: Any, eventually: Any, how: str) -> None:
    probe()
    pipeline = hami.pipe(
        {
            "a": {"backend": "Identities", "instance_num": 3, "next": "b"},
            "b": {"backend": "Probe", "instance_num": 2},
        }
    )
    assert len(new_threads()) >= 5
    pipeline([{"data": i, "deadline_ms": FOR_EVER_MS} for i in range(10)])
    if how == "close":
        pipeline.close()
    elif how == "with":
        with pipeline:
            pass
    del pipeline
    gc.collect()
    assert eventually(lambda: not new_threads())


def test_a_build_that_fails_leaves_no_thread(new_threads: Any, eventually: Any) -> None:
    class Broken(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            raise OSError("no model")

        def forward(self, batch: list[dict[str, Any]]) -> None: ...

    hami.register("Broken", Broken)
    for _ in range(5):
        with pytest.raises(OSError, match="no model"):
            hami.pipe(
                {"a": {"backend": "Identities", "instance_num": 2, "next": "b"}, "b": {"backend": "Broken"}}
            )
    assert eventually(lambda: not new_threads())


@pytest.mark.parametrize("how", ["close", "drop"])
def test_backends_die_with_their_pipeline(eventually: Any, how: str) -> None:
    alive: list[Any] = []

    class Counted(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            alive.append(weakref.ref(self))

        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            return [0 for _ in batch]

    hami.register("Counted", Counted)
    pipeline = hami.pipe({"backend": "Counted", "instance_num": 3})
    pipeline({"data": 1})
    if how == "close":
        pipeline.close()
    del pipeline
    other = hami.pipe("Identity")

    def are_gone() -> bool:
        other({"data": 0})
        gc.collect()
        return len(alive) == 3 and all(one() is None for one in alive)

    assert eventually(are_gone)


def test_a_pipeline_dropped_with_calls_in_flight_answers_them(probe: Any) -> None:
    seen = probe()
    pipeline = hami.pipe("Probe")
    plug = seen.plug(pipeline)
    future = pipeline.submit({"data": 1})
    del pipeline
    gc.collect()
    seen.open()
    for one in (plug, future):
        error = one.exception(10)
        assert error is None or isinstance(error, hami.Closed)


def test_a_pipeline_that_nobody_holds_answers_its_future(
    probe: Any, new_threads: Any, eventually: Any
) -> None:
    probe()
    for i in range(30):
        future = hami.pipe("Probe").submit({"data": i})
        error = future.exception(10)
        assert error is None or isinstance(error, hami.Closed)
        del future, error
    gc.collect()
    assert eventually(lambda: not new_threads())


def test_an_instance_still_in_user_code_ends_alone_and_harms_nobody(
    open_pipe: Any, probe: Any, new_threads: Any, eventually: Any
) -> None:
    seen = probe()
    pipeline = hami.pipe({"backend": "Probe", "instance_num": 2})
    plug = seen.plug(pipeline)
    assert pipeline.close(timeout=0) is False
    assert isinstance(plug.exception(10), hami.Closed)
    del pipeline
    gc.collect()
    assert new_threads()
    seen.open()
    assert eventually(lambda: not new_threads())
