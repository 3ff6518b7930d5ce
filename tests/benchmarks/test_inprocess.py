"""Check the benchmark itself: its arithmetic on known numbers, and one short run from end to end."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


def load(name: str) -> ModuleType:
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


closed_loop, other_load, inprocess = load("closed_loop"), load("other_load"), load("inprocess")


@pytest.mark.parametrize(("percent", "value"), [(50, 2.0), (75, 3.0), (99, 4.0), (100, 4.0), (1, 1.0)])
def test_a_percentile_is_one_of_the_values(percent: float, value: float) -> None:
    assert closed_loop.percentile([1.0, 2.0, 3.0, 4.0], percent) == value


def test_an_error_in_a_caller_ends_the_measurement_with_that_error() -> None:
    def call() -> None:
        raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        closed_loop.measure(call, 2, 0.01)


def test_figures_of_a_loop_are_plausible() -> None:
    measured = closed_loop.measure(lambda: None, 1, 0.05)

    assert measured.calls_per_s > 10_000
    assert 0 < measured.p50_us <= measured.p99_us <= measured.max_ms * 1e3
    assert measured.fairness == 1


def test_busy_seconds_leave_out_idle_and_waiting() -> None:
    stat = "cpu  100 10 50 9999 8888 1 2 37 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n"

    assert other_load.busy_seconds(stat, ticks_per_s=100) == 2.0


def row(case: str, calls_per_s: float, before: float = 0.0, during: float = 0.0) -> dict[str, Any]:
    figures = {"p50_us": 1.0, "p99_us": 2.0, "max_ms": 3.0, "fairness": 0.9}
    loads = {"others_before_cores": before, "others_during_cores": during}
    return {"case": case, "callers": 1, "calls_per_s": calls_per_s, **figures, **loads}


def test_a_round_is_as_disturbed_as_its_worst_run() -> None:
    rows = [row("hami/identity", 1, before=0.1), row("plain/identity", 1, during=0.4)]

    assert inprocess.disturbance(rows) == 0.4


def test_an_unknown_load_counts_as_quiet() -> None:
    assert inprocess.disturbance([row("hami/identity", 1, before=math.nan, during=math.nan)]) == 0


def run_rounds(monkeypatch: pytest.MonkeyPatch, loads: list[float]) -> tuple[list[dict[str, Any]], int]:
    remaining = iter(loads)
    runs: list[str] = []

    def run_case(python: str, case: str, callers: int, seconds: float) -> dict[str, Any]:
        runs.append(case)
        return row(case, calls_per_s=len(runs), during=next(remaining))

    monkeypatch.setattr(inprocess, "run_case", run_case)
    return inprocess.run_round({"hami": "python"}, "identity", 1, 0.1, num_tries=3), len(runs)


def test_a_quiet_round_runs_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_rounds(monkeypatch, [0.2])[1] == 1


def test_a_disturbed_round_is_repeated_until_it_is_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, num_runs = run_rounds(monkeypatch, [0.9, 0.1])

    assert (num_runs, rows[0]["calls_per_s"]) == (2, 2)


def test_repeats_are_bounded_and_the_least_disturbed_try_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, num_runs = run_rounds(monkeypatch, [0.9, 0.5, 0.7])

    assert (num_runs, rows[0]["calls_per_s"]) == (3, 2)


def test_a_table_shows_medians_with_smallest_and_largest_round() -> None:
    rows = [row("hami/identity", calls) for calls in (3000, 1000, 2000)]

    assert "| 1 | hami | 2,000 (1,000 to 3,000) |" in inprocess.table(rows, ["hami"], "identity")


def test_ratios_compare_with_every_peer() -> None:
    rows = [row("hami/identity", 3000), row("plain/identity", 1000), row("omniback/identity", 500)]

    text = inprocess.ratios(rows, ["hami", "plain", "omniback"])

    assert text == "one Identity node, 1 callers: hami makes 3.0x plain, 6.0x omniback"


def test_the_benchmark_runs_from_end_to_end() -> None:
    options = ["--rounds", "1", "--seconds", "0.05", "--callers", "2", "--tries", "1"]

    done = subprocess.run(
        [sys.executable, str(FOLDER / "inprocess.py"), *options], capture_output=True, text=True, timeout=60
    )

    assert done.returncode == 0, done.stderr
    for workload in inprocess.WORKLOADS.values():
        assert f"### {workload}" in done.stdout
    assert "| 2 | plain |" in done.stdout
