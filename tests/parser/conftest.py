"""Fixtures of the parser's tests."""

from __future__ import annotations

import pytest

from hami.parser import aliases


@pytest.fixture(autouse=True)
def clean_macros(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test define macros of its own."""
    monkeypatch.setattr(aliases, "_macros", {})
