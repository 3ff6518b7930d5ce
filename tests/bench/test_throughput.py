"""Laws of `hami.ThroughputBenchmark`: who is called how often, and what is counted."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from load_rounds import SOON, measure
from probes import WAIT_S, Probe

import hami
from hami.bench import Load, Progress
from hami.errors import ConfigError, RequestError


def test_every_request_is_counted_once(open_pipe: Any) -> None:
    pipe = open_pipe({"load_id": {"backend": "Identity"}})

    round = measure(pipe, num_requests=500)

    assert (round.num_requests, round.num_errors, round.first_error) == (500, 0, None)
    assert pipe.stats()[0]["items"] == 500
    assert list(round.latency_ms) == ["p50", "p90", "p99", "p99.9", "mean", "max"]
    p50, p90, p99, p999, mean, most = round.latency_ms.values()
    assert 0 < p50 <= p90 <= p99 <= p999 <= most <= round.seconds * 1000
    assert 0 < mean <= most
    assert round.lateness_ms is None


def test_an_open_loop_sends_all_and_says_how_late(open_pipe: Any) -> None:
    round = measure(
        open_pipe("Identity"), num_callers=None, rate_per_s=2000, arrivals="fixed", num_requests=200
    )

    assert (round.num_requests, round.num_errors) == (200, 0)
    assert round.seconds >= 199 / 2000
    assert round.lateness_ms is not None
    assert 0 <= round.lateness_ms["p50"] <= round.lateness_ms["max"]
    # What is late when it is sent is at least as late when it is answered.
    assert round.latency_ms["max"] >= round.lateness_ms["p50"]


def test_exactly_as_many_requests_are_under_way_as_there_are_callers(open_pipe: Any) -> None:
    together, lock = threading.Barrier(3), threading.Lock()
    inside = most_inside = 0

    class LoadMeeting(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            nonlocal inside, most_inside
            with lock:
                inside += 1
                most_inside = max(most_inside, inside)
            together.wait(WAIT_S)  # ends only when three callers are inside
            with lock:
                inside -= 1
            together.wait(WAIT_S)
            return [0]

    hami.register("LoadMeeting", LoadMeeting)
    # One instance more than callers: a fourth request would find a place.
    pipe = open_pipe({"meeting": {"backend": "LoadMeeting", "instance_num": 4}})

    round = measure(pipe, num_callers=3, num_requests=30)

    assert (round.num_requests, round.num_errors, most_inside) == (30, 0, 3)


def test_requests_do_not_see_each_others_writes(open_pipe: Any) -> None:
    def load_scribble(batch: list[dict[str, Any]]) -> list[int]:
        for item in batch:
            assert set(item) == {"data", "mine"}, set(item)
            item["noted"] = True
            item["data"] = "gone"
            del item["mine"]
        return [0] * len(batch)

    hami.register("LoadScribble", load_scribble)
    given = {"data": 7, "mine": [1]}

    round = measure(open_pipe("LoadScribble"), given, num_callers=4, num_requests=100)

    assert (round.num_errors, round.first_error) == (0, None)
    assert given == {"data": 7, "mine": [1]}


def test_an_input_is_read_once_and_stays_as_it_is(open_pipe: Any) -> None:
    seen = Probe(lambda item: item["data"]).register("LoadSeen")
    given = {"data": 7, "result": "old"}
    benchmark = hami.ThroughputBenchmark(open_pipe("LoadSeen"), [given])
    given["data"] = 8

    benchmark.benchmark(**SOON)

    assert set(seen.items) == {7}
    assert given == {"data": 8, "result": "old"}


def test_inputs_come_in_turn_or_are_drawn(open_pipe: Any) -> None:
    seen = Probe(lambda item: 0).register("LoadDrawn")
    pipe = open_pipe("LoadDrawn")
    inputs = [{"data": name} for name in "abc"]

    measure(pipe, *inputs, num_callers=1, num_requests=7, order="given")
    in_turn = list(seen.items)
    measure(pipe, *inputs, num_callers=1, num_requests=300, order="random")
    drawn = seen.items[7:]

    assert in_turn == list("abcabca")
    counts = Counter(drawn)
    assert all(50 < counts[name] < 150 for name in "abc")
    assert drawn != list("abc" * 100)


def test_a_seed_draws_the_same_and_every_round_anew(open_pipe: Any) -> None:
    seen = Probe(lambda item: 0).register("LoadSeeded")
    benchmark = hami.ThroughputBenchmark(open_pipe("LoadSeeded"), [{"data": i} for i in range(5)])
    load = Load(num_callers=1, num_requests=50, warmup_s=0, repeats=2, seed=4)

    benchmark.benchmark(load)
    benchmark.benchmark(load)

    rounds = [seen.items[start : start + 50] for start in range(0, 200, 50)]
    assert rounds[0] == rounds[2]
    assert rounds[1] == rounds[3]
    assert rounds[0] != rounds[1]


def test_errors_are_counted_and_the_first_is_told(open_pipe: Any) -> None:
    def load_odd(batch: list[dict[str, Any]]) -> list[int]:
        if batch[0]["data"] == "bad":
            raise LookupError("no such thing")
        return [0]

    hami.register("LoadOdd", load_odd)
    inputs = [{"data": "good"}, {"data": "bad"}]

    round = measure(open_pipe("LoadOdd"), *inputs, num_requests=20, order="given")

    assert (round.num_requests, round.num_errors) == (20, 10)
    assert round.first_error == "LookupError: no such thing"
    assert round.latency_ms["p50"] > 0


def test_requests_that_all_fail_have_no_latency(open_pipe: Any) -> None:
    round = measure(open_pipe("Pow"), {"data": "text"}, num_requests=10)

    assert (round.num_errors, round.latency_ms) == (10, {})
    assert round.first_error is not None
    assert "`Pow` needs an int or a float" in round.first_error


def test_a_refusal_is_an_error_of_its_request(open_pipe: Any) -> None:
    plug = Probe(lambda item: 0).register("LoadPlugged")
    pipe = open_pipe({"max_in_flight": 1, "plugged": {"backend": "LoadPlugged"}})
    future = plug.plug(pipe)

    round = measure(pipe, num_callers=None, rate_per_s=1e6, num_requests=10)
    plug.open()
    future.result(WAIT_S)

    assert (round.num_requests, round.num_errors) == (10, 10)
    assert round.first_error is not None
    assert "max_in_flight" in round.first_error


def test_a_deadline_of_an_input_counts_for_each_request_anew(open_pipe: Any) -> None:
    round = measure(open_pipe("Identity"), {"data": 1, "deadline_ms": 60_000}, num_requests=200)

    assert round.num_errors == 0


def test_the_warm_up_is_not_counted(open_pipe: Any) -> None:
    pipe = open_pipe({"warm": {"backend": "Identity"}})
    benchmark = hami.ThroughputBenchmark(pipe, [{"data": 7}])

    report = benchmark.benchmark(num_callers=1, num_requests=5, warmup_s=0.02, repeats=3)

    assert [round.num_requests for round in report.rounds] == [5, 5, 5]
    assert pipe.stats()[0]["items"] > 15


def test_progress_is_told_and_counts_rounds(open_pipe: Any) -> None:
    told: list[Progress] = []
    threads = set()

    def note(progress: Progress) -> None:
        told.append(progress)
        threads.add(threading.current_thread())

    benchmark = hami.ThroughputBenchmark(open_pipe("Identity"), [{"data": 7}])
    benchmark.benchmark(num_callers=1, duration_s=0.25, warmup_s=0.25, repeats=1, on_progress=note)

    assert [progress.round for progress in told] == sorted(progress.round for progress in told)
    assert {progress.round for progress in told} == {0, 1}
    assert all(0 < progress.share <= 1 and progress.num_rounds == 1 for progress in told)
    assert told[-1].num_requests > 0
    assert told[-1].num_errors == 0
    assert threads == {threading.current_thread()}


def test_the_report_says_what_it_was_made_with(open_pipe: Any) -> None:
    report = hami.ThroughputBenchmark(open_pipe("Identity"), [{"data": 7}]).benchmark(**SOON)

    assert set(report.made_with) == {"hami", "python", "system", "processor", "processors", "time"}
    assert report.load == Load(**SOON)


def test_run_once_gives_the_answer_and_leaves_the_dict(open_pipe: Any) -> None:
    request = {"data": 3}

    answer = hami.ThroughputBenchmark(open_pipe("Pow")).run_once(request)

    assert answer["result"] == 9
    assert request == {"data": 3}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda b: b.benchmark(), "neither of `num_callers` and `rate_per_s`"),
        (lambda b: b.benchmark(num_caller=1), "no field `num_caller`"),
        (lambda b: b.benchmark(Load(num_callers=1), repeats=2), "a load and `repeats` were given"),
        (lambda b: b.benchmark(num_callers=1), "there is no input"),
        (lambda b: hami.ThroughputBenchmark("Identity"), "must be a pipeline, got a `str`"),
    ],
)
def test_a_wrong_call_is_refused(open_pipe: Any, call: Callable[[Any], Any], said: str) -> None:
    benchmark = hami.ThroughputBenchmark(open_pipe("Identity"))

    with pytest.raises(ConfigError) as caught:
        call(benchmark)

    assert said in str(caught.value)
    assert caught.value.help


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ([1], "a request is a dict, got a `list`"),
        ({"data": 1, "request_size": 0}, "`request_size` must be an int of at least 1"),
        ({"data": 1, "node_name": "nobody"}, "no entry node `nobody`"),
    ],
)
def test_a_wrong_input_is_refused_when_it_is_added(open_pipe: Any, request_: Any, said: str) -> None:
    benchmark = hami.ThroughputBenchmark(open_pipe("Identity"))

    with pytest.raises(RequestError, match=said):
        benchmark.add_input(request_)
    assert benchmark.num_inputs == 0
