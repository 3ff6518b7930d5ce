"""`wheels/symbols.py` finds what would be taken from any library that happens to have it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    shutil.which("gcc") is None or shutil.which("readelf") is None, reason="gcc or readelf is not installed"
)


def judge(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Link a library from a text in C, and ask for its symbols."""
    source, library = folder / "core.c", folder / "core.so"
    source.write_text(text, encoding="utf-8")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source], check=True, timeout=60)
    command = [sys.executable, str(ROOT / "wheels" / "symbols.py"), str(library)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_symbols_of_the_system_and_of_python_pass(tmp_path: Path) -> None:
    text = """
        #include <stdlib.h>
        #include <errno.h>
        void *PyErr_Clear(void), *_Py_Dealloc(void);
        void* ask(void) { errno = 1; free(_Py_Dealloc()); return PyErr_Clear(); }
    """
    done = judge(tmp_path, text)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_symbol_of_some_other_library_is_refused_by_name(tmp_path: Path) -> None:
    done = judge(
        tmp_path,
        "int rand(void), zlibVersion(void), Pythagoras(void);"
        "int ask(void) { return rand() + zlibVersion() + Pythagoras(); }",
    )

    assert done.returncode == 1
    assert done.stderr == "foreign symbols without a version: Pythagoras zlibVersion\n"


def test_what_a_library_defines_itself_is_nothing_foreign(tmp_path: Path) -> None:
    text = "int rand(void); int mine(void) { return rand(); } int ask(void) { return mine(); }"

    assert judge(tmp_path, text).returncode == 0


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("no library", encoding="utf-8")
    command = [sys.executable, str(ROOT / "wheels" / "symbols.py"), str(tmp_path / "text.so")]

    assert subprocess.run(command, capture_output=True, timeout=60, check=False).returncode != 0
