"""Laws of how a measurement ends, and of what it leaves to others: the GIL, and answers that nobody wants."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import time
import weakref
from typing import Any

import pytest
from load_rounds import measure
from probes import WAIT_S, Probe, wait_until

import hami
from hami import _core
from hami.bench import Progress
from hami.errors import Closed


def test_what_has_no_answer_in_time_does_not_hang_the_measurement(open_pipe: Any) -> None:
    held = Probe(lambda item: 0).register("LoadHeld")
    held.shut()
    pipe = open_pipe("LoadHeld")

    closed = measure(pipe, num_callers=2, num_requests=3, timeout_s=0.01)
    opened = measure(pipe, num_callers=None, rate_per_s=1e5, num_requests=5, timeout_s=0.01)
    held.open()

    assert (closed.num_requests, closed.num_errors) == (3, 3)
    assert (opened.num_requests, opened.num_errors) == (5, 5)
    for round in (closed, opened):
        assert round.first_error is not None
        assert "no answer within `0.01` s" in round.first_error


def test_callers_that_are_held_inside_a_backend_are_left_behind(
    open_pipe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hami.bench.throughput._GRACE_S", 0.0)
    go_on, has_ended = threading.Event(), threading.Event()

    class LoadInline(hami.Backend):
        is_inline = True
        is_reentrant = True

        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            go_on.wait(WAIT_S)
            has_ended.set()
            return [0]

    hami.register("LoadInline", LoadInline)

    round = measure(open_pipe("LoadInline"), num_callers=1, num_requests=1, timeout_s=0.01)
    go_on.set()

    assert (round.num_requests, round.num_errors) == (1, 1)
    assert has_ended.wait(WAIT_S)


def test_what_on_progress_raises_ends_the_measurement(open_pipe: Any) -> None:
    held = Probe(lambda item: 0).register("LoadEnded")
    held.shut()
    pipe = open_pipe("LoadEnded")

    def give_up(progress: Progress) -> None:
        raise LookupError("enough")

    benchmark = hami.ThroughputBenchmark(pipe, [{"data": 7}])
    with pytest.raises(LookupError, match="enough"):
        benchmark.benchmark(num_callers=3, duration_s=600, warmup_s=0, on_progress=give_up)
    held.open()

    assert pipe({"data": 1})["result"] == 0


@pytest.mark.parametrize("how", [{"num_callers": 2}, {"rate_per_s": 0.001}])
def test_ctrl_c_ends_the_measurement(open_pipe: Any, how: dict[str, Any]) -> None:
    held = Probe(lambda item: 0).register("LoadCtrlC")
    held.shut()
    benchmark = hami.ThroughputBenchmark(open_pipe("LoadCtrlC"), [{"data": 7}])

    def interrupt(progress: Progress) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        benchmark.benchmark(**how, duration_s=600, warmup_s=0, on_progress=interrupt)
    held.open()


@pytest.mark.parametrize("how", [{"num_callers": 2}, {"rate_per_s": 2000}])
def test_closing_the_pipeline_ends_the_measurement(open_pipe: Any, how: dict[str, Any]) -> None:
    pipe = open_pipe("Identity")
    benchmark = hami.ThroughputBenchmark(pipe, [{"data": 7}])

    with pytest.raises(Closed, match="closed during the measurement"):
        benchmark.benchmark(**how, duration_s=600, warmup_s=0, on_progress=lambda progress: pipe.close())


def test_a_python_thread_goes_on_while_a_pipeline_is_under_load(open_pipe: Any) -> None:
    pipe = open_pipe("Identity")
    benchmark = hami.ThroughputBenchmark(pipe, [{"data": 7}])
    raised: list[BaseException] = []

    def work() -> None:
        try:
            benchmark.benchmark(num_callers=2, duration_s=600, warmup_s=0)
        except Closed as error:
            raised.append(error)

    under_load = threading.Thread(target=work)
    under_load.start()
    wait_until(lambda: pipe.stats()[0]["items"] > 1000)
    pipe.close()
    under_load.join(WAIT_S)

    assert len(raised) == 1


@pytest.mark.parametrize(
    "how", [{"num_callers": 2, "rate_per_s": 0.0}, {"num_callers": 0, "rate_per_s": 1e5}]
)
def test_requests_of_a_pipeline_in_cpp_need_no_gil(open_pipe: Any, how: dict[str, Any]) -> None:
    samples = _core.LoadSamples(open_pipe("Identity"))
    samples.add({"data": 7})
    interval_s = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # this thread keeps the GIL from now on
    try:
        run = _core.LoadRun(
            samples,
            **how,
            is_poisson=True,
            duration_s=600,
            num_requests=None,
            seed=0,
            is_random=True,
            max_in_flight=100,
            timeout_s=1,
        )
        deadline_s = time.monotonic() + WAIT_S
        while run.progress()[0] < 5000 and time.monotonic() < deadline_s:
            pass
        num_ended = run.progress()[0]
    finally:
        sys.setswitchinterval(interval_s)
    run.stop()

    assert num_ended >= 5000


def test_values_of_cpp_results_are_dropped_while_it_runs(open_pipe: Any) -> None:
    class Thing:
        pass

    things = []

    class LoadThings(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> list[Thing]:
            made = [Thing() for _ in batch]
            things.extend(weakref.ref(thing) for thing in made)
            return made

    hami.register("LoadThings", LoadThings)

    measure(open_pipe("LoadThings"), num_requests=300)
    gc.collect()

    # The instance that ran last may hold its batch until the next one comes.
    assert len(things) == 300
    assert sum(thing() is not None for thing in things) <= 2
