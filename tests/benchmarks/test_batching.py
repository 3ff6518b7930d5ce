"""Check the benchmark of batching: the batcher by hand, its tables, and one short run from end to end."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_files import load, run_benchmark

batching, batching_cases = load("batching"), load("batching_cases")


def test_the_batcher_by_hand_gives_every_caller_its_own_answer() -> None:
    batcher = batching_cases.HandBatcher(lambda rows: rows * 2)
    answers: dict[int, Any] = {}

    def call(number: int) -> None:
        answers[number] = batcher(np.array([number]))

    threads = [threading.Thread(target=call, args=(i,)) for i in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {number: int(answer[0]) for number, answer in answers.items()} == {i: 2 * i for i in range(20)}


def test_the_batcher_by_hand_raises_the_error_in_the_caller() -> None:
    def fail(rows: Any) -> Any:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        batching_cases.HandBatcher(fail)(np.zeros(1))


class Echo:
    def run(self, rows: Any) -> Any:
        return rows


def test_a_wrong_answer_ends_the_benchmark() -> None:
    rows = np.arange(4, dtype=np.float32).reshape(2, 2)

    batching_cases.check(lambda row: row, Echo(), rows)
    with pytest.raises(SystemExit, match="caller 0 got a wrong answer"):
        batching_cases.check(lambda row: row + 1, Echo(), rows)


def row(callers: int, of_bare: float) -> dict[str, Any]:
    figures = {"calls_per_s": 5000.0, "mean_batch": 15.5, "p50_us": 3000.0, "p99_us": 9000.0}
    return {"case": "hami", "callers": callers, "of_bare": of_bare, **figures}


def test_targets_stand_beside_what_was_reached() -> None:
    assert batching.targets([row(16, 0.93), row(40, 0.98)]).splitlines() == [
        "hami at 16 callers: 93.0% of bare (target 92%), mean batch 15.5 (target 15)",
        "hami at 40 callers: 98.0% of bare (target 97%), mean batch 15.5",
    ]


@pytest.mark.timeout(200)
def test_the_benchmark_runs_from_end_to_end(tmp_path: Path) -> None:
    printed, rows = run_benchmark("batching.py", "--seconds", 0.05, "--callers", "16", folder=tmp_path)

    for system in batching.SYSTEMS:
        assert f"| 16 | {system} |" in printed
    assert "hami at 16 callers: " in printed and "(target 92%)" in printed
    assert [row["case"] for row in rows] == batching.SYSTEMS
    for one in rows:
        assert one["calls_per_s"] > 0 and one["bare_before_per_s"] > 0 and one["bare_after_per_s"] > 0
        assert 1 <= one["mean_batch"] <= 16
