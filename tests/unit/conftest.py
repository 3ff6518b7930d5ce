"""Fixtures of the planner's tests: the table of classes, and a clean registry for each test."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import fake_core
import pytest

from hami import backend
from hami.parser import aliases

HAS_CORE = importlib.util.find_spec("hami._core") is not None


@pytest.fixture(autouse=True)
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test register classes and macros of its own."""
    monkeypatch.setattr(backend, "_classes", dict(backend._classes))
    monkeypatch.setattr(backend, "_instances", dict(backend._instances))
    monkeypatch.setattr(aliases, "_macros", dict(aliases._macros))


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Answer from the table in fake_core.py, whether or not the core is built."""
    module = types.ModuleType("hami._core")
    module.declarations = fake_core.declarations  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "hami._core", module)
        backend.core_table.cache_clear()
        yield
    backend.core_table.cache_clear()


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Return a function that writes `pipeline.toml` into an empty folder, makes that current, and returns the
    name."""
    monkeypatch.chdir(tmp_path)

    def write_file(text: str, name: str = "pipeline.toml") -> str:
        Path(name).write_text(text, encoding="utf-8")
        return name

    return write_file
