"""The models of the examples are fetched once, before the first test that needs them."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_files import module_at

HERE = Path(__file__).resolve().parent


@pytest.fixture(scope="session", autouse=True)
def models() -> None:
    """Bring the models that are not there yet."""
    fetch_models = module_at("fetch_models.py")
    fetch_models.fetch(fetch_models.MODELS)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give these tests five minutes: a model may have to be downloaded, and cores may be shared."""
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.timeout(300))
