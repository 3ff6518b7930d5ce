"""Laws of `Benchmark`: what it calls, and what it reports."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import hami


def test_a_benchmark_reports_what_it_did(open_pipe: Any, probe: Any) -> None:
    seen = probe(is_reentrant=True)
    report = open_pipe("Benchmark(num_clients=3, num_requests=50)[Probe]")({"data": 7})["result"]
    assert set(report) == {
        "requests", "errors", "seconds", "requests_per_s", "requests_per_s_of_rounds",
        "mean_ms", "p50_ms", "p90_ms", "p99_ms", "p99.9_ms", "max_ms", "first_error",
    }  # fmt: skip
    assert (report["requests"], report["errors"], report["first_error"]) == (50, 0, None)
    assert seen.items == [7] * 50
    percentiles = [report[name] for name in ("p50_ms", "p90_ms", "p99_ms", "p99.9_ms", "max_ms")]
    assert percentiles == sorted(percentiles)
    assert 0 < report["mean_ms"] <= report["max_ms"] <= report["seconds"] * 1000
    assert report["requests_per_s"] == pytest.approx(50 / report["seconds"])
    assert report["requests_per_s_of_rounds"] == [report["requests_per_s"]]


def test_all_clients_call_at_the_same_time(open_pipe: Any) -> None:
    together = threading.Barrier(4)

    class Meeting(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            together.wait(10)  # ends only when four clients are inside
            return [0]

    hami.register("Meeting", Meeting)
    report = open_pipe("Benchmark(num_clients=4, num_requests=8)[Meeting]")({"data": 7})["result"]
    assert (report["requests"], report["errors"]) == (8, 0)


@pytest.mark.parametrize(("is_reentrant", "num_copies"), [(True, 1), (False, 4)])
def test_what_is_not_reentrant_gets_a_copy_for_each_client(
    open_pipe: Any, is_reentrant: bool, num_copies: int
) -> None:
    used = set()
    inside: dict[int, int] = {}

    class Copy(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            used.add(id(self))
            inside[id(self)] = inside.get(id(self), 0) + 1
            assert is_reentrant or inside[id(self)] == 1
            inside[id(self)] -= 1
            return [0]

    Copy.is_reentrant = is_reentrant
    hami.register("Copy", Copy)
    report = open_pipe("Benchmark(num_requests=200)[Copy]")({"data": 7})["result"]
    assert report["errors"] == 0
    assert 1 <= len(used) <= num_copies


def test_errors_are_counted_and_the_first_is_told(open_pipe: Any) -> None:
    calls = []

    def sometimes(batch: list[dict[str, Any]]) -> list[int]:
        calls.append(1)
        if len(calls) % 2 == 0:
            raise LookupError(f"call {len(calls)}")
        return [0]

    hami.register("Sometimes", sometimes)
    report = open_pipe("Benchmark(num_clients=1, num_requests=9)[Sometimes]")({"data": 7})["result"]
    assert (report["requests"], report["errors"], report["first_error"]) == (9, 4, "LookupError: call 2")


def test_errors_of_items_are_counted_as_well(open_pipe: Any) -> None:
    report = open_pipe("Benchmark(num_requests=5)[Pow]")({"data": "x"})["result"]
    assert report["errors"] == 5
    assert "`Pow` needs an int or a float" in report["first_error"]


def test_calls_do_not_see_each_others_items(open_pipe: Any) -> None:
    def note(batch: list[dict[str, Any]]) -> list[int]:
        assert "noted" not in batch[0]
        batch[0]["noted"] = True
        return [0]

    hami.register("Note", note)
    answer = open_pipe("Benchmark(num_requests=20)[Note]")({"data": 7})
    assert answer["result"]["errors"] == 0
    assert "noted" not in answer


def test_a_node_can_be_measured_with_its_batches(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "work": {"backend": "Identities", "max": 4, "next": "bench"},
            "bench": {"backend": "Benchmark(num_clients=8, num_requests=64)[Forward[node.work]]"},
        }
    )
    report = pipeline({"data": 7})["result"]
    assert (report["requests"], report["errors"]) == (64, 0)
    assert pipeline.stats()[0]["items"] == 65


def test_calls_that_all_fail_have_no_latency_and_no_rate(open_pipe: Any) -> None:
    report = open_pipe("Benchmark(num_requests=5)[Pow]")({"data": "x"})["result"]

    assert (report["requests_per_s"], report["p50_ms"], report["max_ms"]) == (0, None, None)


def test_rounds_are_repeated_and_told_apart(open_pipe: Any, probe: Any) -> None:
    seen = probe(is_reentrant=True)

    report = open_pipe("Benchmark(num_requests=10, repeats=3)[Probe]")({"data": 7})["result"]

    assert (report["requests"], len(seen.items)) == (30, 30)
    assert len(report["requests_per_s_of_rounds"]) == 3
    assert report["requests_per_s"] == pytest.approx(sum(report["requests_per_s_of_rounds"]) / 3)


@pytest.mark.parametrize("rate", ["", ", rate_per_s=100000"])
def test_warm_ups_are_made_once_and_not_counted(open_pipe: Any, probe: Any, rate: str) -> None:
    seen = probe(is_reentrant=True)
    expression = f"Benchmark(num_requests=10, num_warmups=7, repeats=2{rate})[Probe]"

    report = open_pipe(expression)({"data": 7})["result"]

    assert (report["requests"], len(seen.items)) == (20, 27)


def test_calls_at_a_rate_come_no_faster(open_pipe: Any, probe: Any) -> None:
    seen = probe(is_reentrant=True)
    expression = "Benchmark(num_clients=2, num_requests=21, rate_per_s=500, arrivals=fixed)[Probe]"

    report = open_pipe(expression)({"data": 7})["result"]

    assert (report["requests"], report["errors"], len(seen.items)) == (21, 0, 21)
    assert report["seconds"] >= 20 / 500


def test_a_call_at_a_rate_counts_its_waiting_for_a_client(open_pipe: Any) -> None:
    def count(batch: list[dict[str, Any]]) -> list[int]:
        return [sum(range(3000))]

    hami.register("CountForBench", count)

    at_a_rate, closed = (
        open_pipe(f"Benchmark(num_clients=1, num_requests=200{rate})[CountForBench]")({"data": 7})["result"]
        for rate in (", rate_per_s=1e6", "")
    )

    # At that rate all are due at once, and wait for half of the others on average; callers wait for nobody.
    assert at_a_rate["mean_ms"] > 0.25 * at_a_rate["seconds"] * 1000
    assert closed["mean_ms"] <= closed["seconds"] * 1000 / 200 * 1.01


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ("rate_per_s=-1", "rate_per_s"),
        ("arrivals=uniform", "poisson"),
        ("repeats=0", "repeats"),
        ("num_warmups=-1", "num_warmups"),
    ],
)
def test_wrong_loads_are_refused(open_pipe: Any, params: str, said: str) -> None:
    with pytest.raises(hami.ConfigError, match=said):
        open_pipe(f"Benchmark({params})[Pow]")
