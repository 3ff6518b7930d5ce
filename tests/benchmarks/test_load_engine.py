"""Check the benchmark of the load engine: its tables on known numbers, and one short run from end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmark_files import load, run_benchmark

load_engine = load("load_engine")


def row(case: str, size: int, calls_per_s: float) -> dict[str, Any]:
    late = {"late_p50_us": 1.0, "late_p99_us": 2.0}
    return {"case": case, "size": size, "calls_per_s": calls_per_s, "p50_us": 3.0, "p99_us": 4.0, **late}


def test_the_ratio_is_that_of_the_medians() -> None:
    rows = [row("closed/core", 8, calls) for calls in (300, 100, 200)]
    rows += [row("closed/python", 8, calls) for calls in (40, 60, 50)]

    lines = load_engine.closed_table(rows, [8]).splitlines()

    assert lines[2] == ("| 8 | core | 200 (100 to 300) | 3.00 (3.00 to 3.00) | 4.00 (4.00 to 4.00) | 4.0x |")
    assert lines[3].endswith("| 1.0x |")


def test_the_benchmark_runs_from_end_to_end(tmp_path: Path) -> None:
    printed, rows = run_benchmark(
        "load_engine.py", "--seconds", 0.05, "--callers", "2", "--rates", "500", folder=tmp_path
    )

    assert {row["case"] for row in rows} == {"closed/core", "closed/python", "open/core"}
    assert all(row["calls_per_s"] > 0 and row["p50_us"] > 0 for row in rows)
    assert "| 2 | core |" in printed
    assert "| 500 |" in printed
