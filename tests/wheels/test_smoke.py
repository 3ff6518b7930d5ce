"""`wheels/smoke.py`, what a wheel must do in an empty environment, passes with all other packages hidden."""

from __future__ import annotations

from pathlib import Path

import only_core

SMOKE = Path(__file__).resolve().parents[2] / "wheels" / "smoke.py"


def test_the_core_alone_passes(tmp_path: Path) -> None:
    done = only_core.run(f"import runpy; runpy.run_path({str(SMOKE)!r}, run_name='__main__')", tmp_path)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_core_that_loses_an_error_does_not_pass(tmp_path: Path) -> None:
    code = f"""
import runpy
smoke = runpy.run_path({str(SMOKE)!r})
smoke["Twice"].forward = lambda self, batch: [2 * item["data"] for item in batch]
smoke["main"]()
"""
    done = only_core.run(code, tmp_path)

    assert done.returncode == 1
    assert "AssertionError: the error did not come out" in done.stderr
