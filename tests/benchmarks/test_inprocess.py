"""Check the benchmark of small pipelines: its tables on known numbers, and one short run from end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmark_files import load, run_benchmark

inprocess = load("inprocess")


def row(case: str, calls_per_s: float) -> dict[str, Any]:
    figures = {"p50_us": 1.0, "p99_us": 2.0, "max_ms": 3.0, "fairness": 0.9}
    return {"case": case, "callers": 1, "calls_per_s": calls_per_s, **figures}


def test_a_table_shows_medians_with_smallest_and_largest_round() -> None:
    rows = [row("hami/identity", calls) for calls in (3000, 1000, 2000)]

    assert "| 1 | hami | 2,000 (1,000 to 3,000) |" in inprocess.workload_table(rows, ["hami"], "identity")


def test_ratios_compare_with_every_peer() -> None:
    rows = [row("hami/identity", 3000), row("plain/identity", 1000), row("omniback/identity", 500)]

    text = inprocess.ratios(rows, ["hami", "plain", "omniback"])

    assert text == "one Identity node, 1 callers: hami makes 3.0x plain, 6.0x omniback"


def test_the_price_of_a_step_needs_both_workloads_at_one_caller() -> None:
    rows = [row("hami/identity", 1), {**row("hami/chain", 1), "p50_us": 1.5}]

    assert inprocess.step_line(rows).startswith("three nodes take 1.50x one node (target: at most 2), 1.5 us")
    assert inprocess.step_line(rows[:1]) == ""


@pytest.mark.timeout(200)
def test_the_benchmark_runs_from_end_to_end(tmp_path: Path) -> None:
    printed, rows = run_benchmark("inprocess.py", "--seconds", 0.05, "--callers", "2", folder=tmp_path)

    for workload in inprocess.WORKLOADS.values():
        assert f"### {workload}" in printed
    assert "| 2 | plain |" in printed
    assert {row["case"] for row in rows} == {
        f"{system}/{workload}" for system in ("hami", "plain") for workload in inprocess.WORKLOADS
    }
