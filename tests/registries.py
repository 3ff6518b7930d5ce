"""A fixture for the `conftest.py` of tests that register classes of their own."""

from __future__ import annotations

import contextlib

import pytest

from hami import backend, scheduler
from hami.errors import ConfigError
from hami.parser import aliases

# A module registers its classes once a process. Were that to happen within a test, they would go with the
# registry of that test, and the tests of other folders would miss them.
for family in backend.FAMILY_MODULES:
    with contextlib.suppress(ConfigError):
        backend.load_family(family)


@pytest.fixture(autouse=True)
def clean_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each test register backends, instances, schedulers and macros of its own."""
    monkeypatch.setattr(backend, "_classes", dict(backend._classes))
    monkeypatch.setattr(backend, "_instances", dict(backend._instances))
    monkeypatch.setattr(scheduler, "_classes", dict(scheduler._classes))
    monkeypatch.setattr(aliases, "_macros", dict(aliases._macros))
