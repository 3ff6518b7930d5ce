"""The models of the examples are fetched once, before the first test that needs them."""

from __future__ import annotations

import pytest
from example_files import module_at


@pytest.fixture(scope="session", autouse=True)
def models() -> None:
    """Bring the models that are not there yet."""
    fetch_models = module_at("fetch_models.py")
    fetch_models.fetch(fetch_models.MODELS)
