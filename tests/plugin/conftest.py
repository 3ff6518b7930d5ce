"""The fixtures of running pipelines, shared with tests/flow; and which hami is tested.

HAMI_HOME names the environment whose hami these tests are for, where that is an installed wheel.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from flow.conftest import open_pipe
from registries import clean_registry

import hami

__all__ = ["clean_registry", "open_pipe"]


def pytest_configure() -> None:
    home = os.environ.get("HAMI_HOME")
    if home is not None and not Path(hami.__file__).resolve().is_relative_to(Path(home).resolve()):
        raise pytest.UsageError(f"`{hami.__file__}` is not the hami of `{home}`")
