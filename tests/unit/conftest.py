"""Fixtures of the planner's tests: the table of classes, and a clean registry for each test."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import fake_core
import pytest
from bench_stand import stand
from registries import clean_registry

from hami import backend

__all__ = ["clean_registry", "stand"]


@pytest.fixture(autouse=True)
def table(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Answer from the table in fake_core.py, except in a test that asks for the fixture `real_core`."""
    if "real_core" not in request.fixturenames:
        module = types.ModuleType("hami._core")
        module.declarations = fake_core.declarations  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "hami._core", module)
    backend.core_table.cache_clear()
    yield
    backend.core_table.cache_clear()


@pytest.fixture
def real_core() -> None:
    """Use the compiled core."""
    pytest.importorskip("hami._core", reason="the compiled core is not built")


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that writes a file into an empty current folder and returns its name."""
    monkeypatch.chdir(tmp_path)

    def write_file(text: str, name: str = "pipeline.toml") -> str:
        path = Path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return name

    return write_file
