"""What importing the language costs and loads: never the compiled core, nothing heavy, and little time."""

from __future__ import annotations

import subprocess
import sys

import pytest


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    "module", ["hami", "hami.parser", "hami.config", "hami.errors", "hami.backend", "hami.plan"]
)
@pytest.mark.parametrize("other", ["hami._core", "lark", "typer", "numpy", "asyncio", "difflib", "json"])
def test_importing_loads_neither_the_core_nor_anything_slow(module: str, other: str) -> None:
    assert run(f"import sys; import {module}; print({other!r} in sys.modules)") == "False"


def test_parsing_and_reading_a_configuration_need_no_core() -> None:
    code = "import sys, hami.parser, hami.config; hami.parser.parse('A[B]'); hami.config.load('A[B]')"

    assert run(f"{code}; print('hami._core' in sys.modules)") == "False"


def test_the_language_works_without_the_core() -> None:
    code = "import sys; sys.modules['hami._core'] = None; import hami; print(hami.parse('A[B]'))"

    assert run(code) == "A[B]"


def test_a_command_that_needs_no_core_does_not_load_it() -> None:
    code = "import sys; from hami.cli import app; app(['parse', 'A[B]'], standalone_mode=False)"

    assert run(f"{code}; print('hami._core' in sys.modules)").endswith("False")


def import_seconds(modules: str) -> float:
    """Return the processor time of an import, the best of several: the machine may be busy with something
    else."""
    code = f"import time; start = time.process_time(); import {modules}; print(time.process_time() - start)"
    return min(float(run(code)) for _ in range(12))


@pytest.mark.parametrize("module", ["hami.errors", "hami.parser", "hami.config"])
def test_importing_takes_little_more_than_the_standard_modules_in_use(module: str) -> None:
    assert import_seconds(module) < 4 * import_seconds("dataclasses, typing, threading, re")
