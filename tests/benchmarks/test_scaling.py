"""Check the benchmark of scaling: its ratios on known numbers, and one short run from end to end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmark_files import load, run_benchmark

scaling = load("scaling")


def row(size: int, calls_per_s: float, round_number: int) -> dict[str, Any]:
    return {"case": f"processes/{size}", "calls_per_s": calls_per_s, "round": round_number}


def test_the_speed_up_compares_within_a_round() -> None:
    rows = [row(1, 100, 1), row(2, 190, 1), row(1, 50, 2), row(2, 90, 2), row(1, 10, 3), row(2, 30, 3)]

    assert scaling.speed_up(rows, "processes", [1, 2], 2) == pytest.approx(1.9)
    assert scaling.speed_up(rows, "processes", [1, 2], 1) == 1


def test_it_says_what_threads_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling.sysconfig, "get_config_var", {"Py_GIL_DISABLED": 0}.get)
    assert "free-threaded build" in scaling.gil_line(has_gil=True)
    monkeypatch.setattr(scaling.sysconfig, "get_config_var", {"Py_GIL_DISABLED": 1}.get)
    assert "has turned the GIL on" in scaling.gil_line(has_gil=True)
    assert "without the GIL" in scaling.gil_line(has_gil=False)


@pytest.mark.timeout(200)
def test_the_benchmark_runs_from_end_to_end(tmp_path: Path) -> None:
    printed, rows = run_benchmark("scaling.py", "--seconds", 0.05, "--callers", 2, folder=tmp_path)

    kinds = ["processes", "pools", "threads", "executor"]
    assert [row["case"] for row in rows] == [f"{kind}/{size}" for kind in kinds for size in (1, 2)]
    assert all(row["calls_per_s"] >= 0 and row["own_cores"] > 0 for row in rows)
    assert "| instances (threads) | 2 |" in printed and "\nthreads: " in printed
