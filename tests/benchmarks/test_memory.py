"""Check the benchmark of memory: its arithmetic on known numbers, and one small run from end to end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmark_files import FOLDER, load, run_benchmark

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/smaps_rollup").exists(), reason="reads /proc/self/smaps_rollup, which only Linux has"
)

memory, memory_loading = load("memory"), load("memory_loading")


def test_what_is_loaded_is_shown_above_bare_python() -> None:
    def row(case: str, mb: float, ms: float) -> dict[str, Any]:
        return {"case": case, "pss_mb": mb, "rss_mb": 2 * mb, "ms": ms}

    rows = [row("nothing", 10, 0), *(row(case, 15, ms) for case in list(memory.LOADING)[1:] for ms in (9, 7))]

    text = memory.loading_section(rows)

    assert "| bare Python | (itself 10.0 (10.0 to 10.0)) |" in text
    assert "| `import hami` | 5.0 (5.0 to 5.0) | 10.0 (10.0 to 10.0) | 8.0 (7.0 to 9.0) | 7.0 |" in text


def test_growth_is_told_by_the_call() -> None:
    row = {"case": "many_calls", "calls": 1000, "growth_kb": 90, "sizes_kb": [1024, 1114]}

    assert "after the first tenth: +90 KB, +102.400 bytes a call" in memory.growth_section([row])


def test_the_newest_wheel_is_weighed(tmp_path: Path) -> None:
    assert "not built" in memory.wheel_line(tmp_path)
    for name, size, changed in (
        ("hami_core-1.whl", 5, 2),
        ("hami_core-2.whl", 1_500_000, 3),
        ("other-1.whl", 5, 4),
    ):
        (tmp_path / name).write_bytes(b"x" * size)
        os.utime(tmp_path / name, (changed, changed))

    assert memory.wheel_line(tmp_path).startswith("wheel: hami_core-2.whl, 1.50 MB")


def test_what_loads_imports_nothing_of_its_own() -> None:
    script = "import sys; before = set(sys.modules); import memory_loading; print(set(sys.modules) - before)"

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=FOLDER, check=True
    )

    assert set(done.stdout.strip("{}\n").replace("'", "").split(", ")) <= {"memory_loading", "time"}


def test_the_kernel_says_how_large_this_process_is() -> None:
    assert memory_loading.memory_kb("Rss") >= memory_loading.memory_kb("Pss") > 1000


@pytest.mark.timeout(200)
def test_the_benchmark_runs_from_end_to_end(tmp_path: Path) -> None:
    printed, rows = run_benchmark(
        "memory.py", "--seconds", 0.05, "--requests", 200, "--calls", 320, folder=tmp_path
    )

    for case in (*memory.LOADING, *memory.HELD, *memory.IDLE):
        assert any(row["case"] == case for row in rows), case
    held = {row["case"]: row["waiting"] for row in rows if row["case"].startswith("held")}
    assert set(held.values()) <= {199, 200}
    assert "320 calls; PSS in MB after each tenth:" in printed
    assert "200 requests in flight" in printed and "wheel: " in printed
