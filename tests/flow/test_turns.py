"""Laws of callers who share a pipeline: each has its turns, whoever came first and whatever the others do."""

from __future__ import annotations

import statistics
import sysconfig
import threading
from collections.abc import Callable
from typing import Any

import pytest

import hami

NUM_CALLERS = 8
CALLS_OF_THE_FASTEST = 20_000


@pytest.fixture(autouse=True)
def echo() -> None:
    @hami.register
    class TurnEcho(hami.Backend):
        batch_range = (1, 16)

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            return [item["data"] for item in batch]


def counts_when_the_fastest_is_done(call: Callable[[int], object], num_calls: int) -> list[int]:
    """Return the calls of each of eight callers in the moment when one of them has made `num_calls`."""
    counts = [0] * NUM_CALLERS
    start = threading.Barrier(NUM_CALLERS)
    is_over = threading.Event()

    def work(caller: int) -> None:
        start.wait()
        while not is_over.is_set():
            call(caller)
            counts[caller] += 1
            if counts[caller] == num_calls:
                is_over.set()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(NUM_CALLERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return counts


@pytest.mark.parametrize(
    ("config", "num_calls"),
    [
        pytest.param(
            "Identity",
            CALLS_OF_THE_FASTEST,
            marks=pytest.mark.skipif(
                bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
                reason="these turns are the GIL's: without one the system alone shares out the cores",
            ),
        ),
        ("TurnEcho", CALLS_OF_THE_FASTEST // 10),
    ],
    ids=["in place", "on a thread"],
)
def test_no_caller_starves_beside_others(open_pipe: Any, config: str, num_calls: int) -> None:
    pipeline = open_pipe({"node": {"backend": config}})

    def call(caller: int) -> None:
        assert pipeline({"data": caller})["result"] == caller

    counts = counts_when_the_fastest_is_done(call, num_calls)

    assert min(counts) >= statistics.median(counts) / 4, counts


def test_a_caller_goes_on_when_the_others_never_call_again(open_pipe: Any, in_threads: Any) -> None:
    pipeline = open_pipe("Identity")

    def work(caller: int) -> None:
        for i in range(1000 * (caller + 1)):
            assert pipeline({"data": i})["result"] == i

    in_threads(NUM_CALLERS, work)


def test_callers_in_place_and_callers_who_wait_do_not_hold_each_other_up(
    open_pipe: Any, in_threads: Any
) -> None:
    in_place, on_thread = open_pipe("Identity"), open_pipe({"node": {"backend": "TurnEcho"}})

    def work(caller: int) -> None:
        for i in range(500):
            pipeline = in_place if (caller + i // 50) % 2 else on_thread
            assert pipeline({"data": (caller, i)})["result"] == (caller, i)

    in_threads(NUM_CALLERS, work)


def test_what_was_not_made_by_pipe_is_no_pipeline() -> None:
    with pytest.raises(TypeError, match=r"not made by `hami\.pipe`"):
        hami.Pipeline.__new__(hami.Pipeline)({"data": 1})


@pytest.mark.parametrize(
    ("args", "keywords"),
    [((), {}), (({"data": 1}, 2), {}), ((), {"other": 1}), (({"data": 1},), {"request": 2})],
)
def test_a_call_takes_one_request(open_pipe: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
    pipeline = open_pipe("Identity")

    with pytest.raises(TypeError):
        pipeline(*args, **keywords)

    assert pipeline(request={"data": 1})["result"] == 1


def test_any_object_may_be_called_with_and_is_refused_in_plain_words(open_pipe: Any) -> None:
    pipeline = open_pipe("Identity")

    for wrong in (None, 1, "text", (), ({"data": 1},), {1}, object()):
        with pytest.raises(hami.RequestError, match="a request is a dict"):
            pipeline(wrong)
