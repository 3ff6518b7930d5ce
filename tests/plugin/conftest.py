"""What the tests of plugins share: pipelines that are closed after the test, and a registry of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from probes import WAIT_S
from registries import clean_registry

import hami

__all__ = ["clean_registry"]


@pytest.fixture
def open_pipe() -> Iterator[Callable[[Any], hami.Pipeline]]:
    """Return `hami.pipe`; its pipelines are closed after the test."""
    opened: list[hami.Pipeline] = []

    def open_one(source: Any) -> hami.Pipeline:
        opened.append(hami.pipe(source))
        return opened[-1]

    yield open_one
    for pipeline in reversed(opened):
        pipeline.close(timeout=WAIT_S)
