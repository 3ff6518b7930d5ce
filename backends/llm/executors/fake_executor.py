"""An executor without a model: logits by a hash of all tokens so far, read back through the page table.

What it answers depends on every page of a sequence, so that a fault of paging changes the output. Schedulers,
engines and servers are tried with it.
"""

from __future__ import annotations

from typing import Any

import torch

from hami._core import FakeModel

from .cpu_executor import logits_of
from .sizing import Limits


class FakeExecutor:
    """Behaves like a model with `vocab_size` tokens."""

    config = None

    def __init__(self, limits: Limits, vocab_size: int = 256) -> None:
        self.page_size = limits.page_size
        self.num_pages = limits.num_pages or limits.max_running * limits.longest + 1
        self.num_swap_pages = limits.num_swap_pages
        self.vocab_size = vocab_size
        self._model = self._make()

    def _make(self) -> FakeModel:
        return FakeModel(self.vocab_size, self.num_pages, self.page_size, self.num_swap_pages)

    def run(self, plan: Any) -> torch.Tensor:
        """Do a plan's page copies, keep its tokens, and return the wanted logits, [L, vocab], in float32."""
        return logits_of(self._model.run(plan), self.vocab_size)

    def load(self, weights: Any) -> None:
        """Take any weights: there are none."""

    def use(self, loaded: None) -> None:
        """Lose what lies on the pages, as other executors do."""
        self._model = self._make()

    def close(self) -> None:
        """Nothing to let go of."""
