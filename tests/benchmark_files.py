"""The modules of `benchmarks/` for the tests of them, and one short run of such a file from end to end."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"
SHORT = ["--rounds", "1", "--tries", "1"]


def load(name: str) -> ModuleType:
    """Import a module of the folder by the name by which its neighbours import it."""
    sys.path.insert(0, str(FOLDER))
    try:
        return importlib.import_module(name)
    finally:
        sys.path.remove(str(FOLDER))


def run_benchmark(file: str, *options: object, folder: Path, timeout_s: float = 180) -> tuple[str, list[Any]]:
    """Run a benchmark as briefly as it can; return what it printed and its raw rows."""
    raw = folder / "rows.jsonl"
    command = [sys.executable, str(FOLDER / file), *SHORT, *map(str, options), "--json", str(raw)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    assert "hami-core" in done.stdout.splitlines()[0], "the first line names versions, machine and commit"
    assert "rounds had more than" in done.stdout.splitlines()[-1]
    return done.stdout, [json.loads(line) for line in raw.read_text().splitlines()]
