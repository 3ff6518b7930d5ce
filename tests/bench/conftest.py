"""Every test of this folder has a registry of its own, and pipelines that are closed after it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
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
    for pipeline in opened:
        pipeline.close()
