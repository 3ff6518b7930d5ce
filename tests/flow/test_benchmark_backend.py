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
        "requests", "errors", "seconds", "requests_per_s", "p50_ms", "p90_ms", "p99_ms", "first_error",
    }  # fmt: skip
    assert (report["requests"], report["errors"], report["first_error"]) == (50, 0, None)
    assert seen.items == [7] * 50
    assert 0 <= report["p50_ms"] <= report["p90_ms"] <= report["p99_ms"] <= report["seconds"] * 1000
    assert report["requests_per_s"] == pytest.approx(50 / report["seconds"])


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
