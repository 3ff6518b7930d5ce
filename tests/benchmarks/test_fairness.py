"""Check the benchmark of fairness: its verdicts on known numbers, and one short run from end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmark_files import load, run_benchmark

fairness = load("fairness")


def row(fairness_of_row: float, max_ms: float, p99_us: float) -> dict[str, Any]:
    figures = {"fairness": fairness_of_row, "max_ms": max_ms, "p99_us": p99_us}
    return {"case": "hami/identity", "callers": 40, **figures}


def test_the_worst_round_counts_and_of_p99_the_median() -> None:
    rows = [row(0.9, 10, 1000), row(0.7, 60, 2000), row(0.8, 20, 3000)]

    assert fairness.verdicts(rows, "identity", [40]) == [
        "one Identity node, 40 callers: slowest/median caller 0.70 (target: at least 0.67), longest call "
        "60.0 ms (target: below 50), p99 2.00 ms (target: below 3)"
    ]


@pytest.mark.timeout(200)
def test_the_benchmark_runs_from_end_to_end(tmp_path: Path) -> None:
    printed, rows = run_benchmark("fairness.py", "--seconds", 0.05, "--callers", "8", folder=tmp_path)

    assert printed.count("8 callers: slowest/median caller") == 2
    assert {row["case"] for row in rows} == {
        f"{system}/{workload}" for system in ("hami", "plain") for workload in ("identity", "python")
    }
    assert all(0 <= row["fairness"] <= 1 and row["max_ms"] > 0 for row in rows)
