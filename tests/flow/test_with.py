"""`With[A, X]`: a backend in Python that defines `forward_with` surrounds the runs of X."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest

import hami
from hami.errors import RequestError


@pytest.fixture
def open_with(open_pipe: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function that opens `With[A, X]` for a function `forward_with(self, run)` of A."""

    def open_one(forward_with: Callable[..., Any] | None, inner: str = "Pow", **config: Any) -> Any:
        members = {} if forward_with is None else {"forward_with": forward_with}
        hami.register("Around", type("Around", (hami.Backend,), members))
        return open_pipe({"backend": f"With[Around, {inner}]", **config})

    return open_one


@hami.register("FailsInWith")
class Fails(hami.Backend):
    def forward(self, batch: list[dict[str, Any]]) -> None:
        raise KeyError("inner")


def test_the_inner_backend_runs_inside_the_outer_one(open_with: Any) -> None:
    seen: list[str] = []

    def around(self: Any, run: Callable[[], None]) -> None:
        seen.append("before")
        run()
        seen.append("after")

    assert open_with(around)({"data": 3})["result"] == 9
    assert seen == ["before", "after"]


def test_one_run_surrounds_a_whole_batch(open_with: Any) -> None:
    seen: list[int] = []

    def around(self: Any, run: Callable[[], None]) -> None:
        seen.append(1)
        run()

    pipe = open_with(around, max=4, batching_timeout=1000)
    assert [one["result"] for one in pipe([{"data": value} for value in range(4)])] == [0, 1, 4, 9]
    assert len(seen) == 1


def test_a_backend_that_surrounds_nothing_only_lets_the_inner_one_run(open_with: Any) -> None:
    assert open_with(None)({"data": 3})["result"] == 9


def test_what_the_inner_backend_raises_passes_through_the_outer_one(open_with: Any) -> None:
    seen: list[str] = []

    def around(self: Any, run: Callable[[], None]) -> None:
        try:
            run()
        except KeyError as error:
            seen.append(str(error))
            raise

    with pytest.raises(KeyError, match="inner"):
        open_with(around, "FailsInWith")({"data": 1})
    assert seen == ["'inner'"]


def test_an_error_of_the_inner_backend_cannot_be_swallowed(open_with: Any) -> None:
    def around(self: Any, run: Callable[[], None]) -> None:
        with contextlib.suppress(KeyError):
            run()

    with pytest.raises(KeyError, match="inner"):
        open_with(around, "FailsInWith")({"data": 1})


def test_the_outer_backend_may_refuse_the_batch(open_with: Any) -> None:
    def around(self: Any, run: Callable[[], None]) -> None:
        raise PermissionError("not now")

    with pytest.raises(PermissionError, match="not now"):
        open_with(around)({"data": 1})


def test_a_surrounding_that_never_runs_the_inner_backend_says_so(open_with: Any) -> None:
    with pytest.raises(RequestError, match="returned without a call of `run`") as caught:
        open_with(lambda self, run: None)({"data": 1})
    assert caught.value.code == "backend-not-run"


def test_a_second_run_is_refused(open_with: Any) -> None:
    def around(self: Any, run: Callable[[], None]) -> None:
        run()
        run()

    with pytest.raises(RequestError, match="second time") as caught:
        open_with(around)({"data": 1})
    assert caught.value.code == "backend-run-twice"


def test_a_run_that_is_kept_for_later_is_refused_and_reads_nothing(open_with: Any) -> None:
    kept: list[Callable[[], None]] = []

    def around(self: Any, run: Callable[[], None]) -> None:
        run()
        kept.append(run)

    pipe = open_with(around)
    assert pipe({"data": 3})["result"] == 9
    pipe.close()
    del pipe
    for run in kept:
        with pytest.raises(RequestError, match="second time"):
            run()
