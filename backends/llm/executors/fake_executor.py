"""An executor without a model: logits by a hash of all tokens so far, read back through the page table.

What it answers depends on every page of a sequence, so that a fault of paging changes the output. Schedulers,
engines and servers are tried with it.
"""

from __future__ import annotations

from typing import Any

import torch

from hami._core import FakeModel

from .sizing import Limits


class FakeExecutor:
    """Behaves like a model with `vocab_size` tokens."""

    def __init__(self, limits: Limits, vocab_size: int = 256) -> None:
        self.page_size = limits.page_size
        self.num_pages = limits.num_pages or limits.max_running * limits.longest + 1
        self.num_swap_pages = limits.num_swap_pages
        self.vocab_size = vocab_size
        self._model = FakeModel(vocab_size, self.num_pages, self.page_size, self.num_swap_pages)

    def run(self, plan: Any) -> torch.Tensor:
        """Do a plan's page copies, keep its tokens, and return the wanted logits, [L, vocab], in float32."""
        logits = self._model.run(plan)
        if logits.nbytes == 0:
            return torch.empty((0, self.vocab_size))
        return torch.frombuffer(logits, dtype=torch.float32).view(-1, self.vocab_size)

    def close(self) -> None:
        """Nothing to let go of."""
