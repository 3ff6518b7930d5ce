"""Check what all benchmarks share: the closed loop, the load of others, and the repeats of a round."""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from benchmark_files import load

closed_loop, other_load, rounds = load("closed_loop"), load("other_load"), load("rounds")


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


def test_every_caller_makes_its_own_call() -> None:
    threads_of: dict[str, set[int]] = {"a": set(), "b": set()}

    closed_loop.measure(
        [lambda name=name: threads_of[name].add(threading.get_ident()) for name in threads_of], 2, 0.02
    )

    assert threads_of["a"] and threads_of["b"]


def test_a_call_for_every_caller_is_asked_for() -> None:
    with pytest.raises(ValueError, match="1 calls for 2 callers"):
        closed_loop.measure([lambda: None], 2, 0.01)


def test_a_call_that_ends_after_the_phase_is_not_counted() -> None:
    phase = closed_loop.Phase([lambda: time.sleep(0.3)])

    phase.run(phase.count_calls, 0.01)

    assert phase.counts == [0]


def test_busy_seconds_leave_out_idle_and_waiting() -> None:
    stat = "cpu  100 10 50 9999 8888 1 2 37 0 0\ncpu0 1 2 3 4 5 6 7 8 0 0\n"

    assert other_load.busy_seconds(stat, ticks_per_s=100) == 2.0


def test_the_name_of_a_process_may_hold_anything() -> None:
    text = "12 (a) b (c) S 7 0 0 0 -1 0 0 0 0 0 11 12 13 14 20 0 1 0\n"

    assert other_load.stat_of_process(text) == (7, 50)


def test_all_generations_of_workers_are_counted() -> None:
    processes = {1: (0, 1000), 2: (1, 100), 3: (2, 10), 4: (3, 1), 5: (1, 5000)}

    assert other_load.descendants_ticks(processes, 2) == 11


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="reads /proc, which only Linux has")
def test_time_of_a_worker_is_not_that_of_others() -> None:
    worker = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        load_now = other_load.OtherLoad(has_workers=True)
        deadline_s = time.monotonic() + 30
        while load_now.own_seconds() - load_now.own_s < 0.1 and time.monotonic() < deadline_s:
            os.sched_yield()
        assert load_now.own_seconds() - load_now.own_s >= 0.1
        assert load_now.own_cores() > 0
    finally:
        worker.kill()
        worker.wait()


def row(before: float = 0.0, during: float = 0.0, **figures: Any) -> dict[str, Any]:
    return {"case": "a", "others_before_cores": before, "others_during_cores": during, **figures}


def test_a_round_is_as_disturbed_as_its_worst_run() -> None:
    assert rounds.disturbance([row(before=0.1), row(during=0.4)]) == 0.4


def test_an_unknown_load_counts_as_quiet() -> None:
    assert rounds.disturbance([row(before=math.nan, during=math.nan)]) == 0


def run_rounds(loads: list[float]) -> tuple[list[dict[str, Any]], int]:
    remaining = iter(loads)
    runs: list[int] = []

    def run() -> dict[str, Any]:
        runs.append(len(runs) + 1)
        return row(during=next(remaining), number=len(runs))

    return rounds.run_round([run], num_tries=3), len(runs)


def test_a_quiet_round_runs_once() -> None:
    assert run_rounds([0.2])[1] == 1


def test_a_disturbed_round_is_repeated_until_it_is_quiet() -> None:
    rows, num_runs = run_rounds([0.9, 0.1])

    assert (num_runs, rows[0]["number"]) == (2, 2)


def test_repeats_are_bounded_and_the_least_disturbed_try_is_kept() -> None:
    rows, num_runs = run_rounds([0.9, 0.5, 0.7])

    assert (num_runs, rows[0]["number"]) == (3, 2)


def test_groups_take_turns_within_a_round(capsys: pytest.CaptureFixture[str]) -> None:
    options = argparse.Namespace(rounds=2, tries=1, json=None)
    measured = rounds.Rounds(options)

    rows = measured.measure([[lambda: row(name="a")], [lambda: row(name="b", before=0.5)]])
    measured.finish()

    assert [(one["name"], one["round"]) for one in rows] == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]
    assert "2 of 4 rounds had more than 0.3 cores used by others" in capsys.readouterr().out


def test_raw_rows_are_written_one_a_line(tmp_path: Path) -> None:
    measured = rounds.Rounds(argparse.Namespace(rounds=1, tries=1, json=tmp_path / "rows"))
    measured.measure([[row, row]])

    measured.finish()

    assert len((tmp_path / "rows").read_text().splitlines()) == 2


def test_a_process_without_figures_ends_the_benchmark_with_its_errors(tmp_path: Path) -> None:
    file = tmp_path / "broken.py"
    file.write_text("raise ValueError('no figures here')\n")

    with pytest.raises(SystemExit, match="no figures here"):
        rounds.run_process(sys.executable, str(file))


def test_a_spread_is_the_median_with_the_smallest_and_the_largest() -> None:
    assert rounds.spread([3000, 1000, 2000]) == "2,000 (1,000 to 3,000)"
    assert rounds.spread_of([row(value=1.25)], "value", 2) == "1.25 (1.25 to 1.25)"


def test_a_table_has_a_cell_for_each_column() -> None:
    assert rounds.table(["a", "b"], [[1, 2]]) == "| a | b |\n|---|---|\n| 1 | 2 |"


def test_a_missing_package_is_named_as_such() -> None:
    assert rounds.versions(["no-such-package-here"]) == "no-such-package-here missing"


def test_versions_of_a_peer_come_from_its_own_interpreter() -> None:
    assert rounds.peer_versions(sys.executable, "hami-core").startswith("hami-core ")
