"""`make free-threaded` says what it lacks, and never passes for a Python that has the GIL."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "tools" / "free_threaded.sh"


def run(python: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SCRIPT, python], capture_output=True, text=True, timeout=30, check=False)


def test_without_such_a_python_it_is_skipped_and_says_why() -> None:
    done = run("no-such-python")
    assert done.returncode == 0, done.stderr
    assert "skipped, there is no `no-such-python`" in done.stdout


@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="this Python has no GIL")
def test_a_python_with_the_gil_is_refused() -> None:
    done = run(sys.executable)
    assert done.returncode == 1
    assert "is a Python with the GIL" in done.stderr
