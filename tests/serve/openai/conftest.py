"""One real model behind one server, for all tests of the API; torch computes on one thread."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def smollm2() -> Iterator[object]:
    """SmolLM2 as the node `answer` of the service `demo`; greedy, unless a request says otherwise."""
    from llm_samples import SMOLLM2
    from openai_service import GREEDY, MODEL, SETTINGS, served

    if not SMOLLM2.is_file():
        pytest.skip(f"needs {SMOLLM2}: run examples/fetch_models.py")
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with served({MODEL: {**SETTINGS, "sampling": GREEDY}}) as running:
        yield running
    torch.set_num_threads(threads)
