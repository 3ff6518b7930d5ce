"""Torch computes on one thread in these tests: waiting threads cost more than small models."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest
from registries import clean_registry

__all__ = ["clean_registry"]


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    if importlib.util.find_spec("torch") is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
