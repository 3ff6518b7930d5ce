"""What the engine asks of an executor: the only part that knows a model.

Executors hold no policy: which tokens are computed on which pages stands in the plan.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch


class Executor(Protocol):
    """Runs plans. Not thread-safe: the engine's thread alone calls it."""

    num_pages: int
    num_swap_pages: int
    page_size: int
    vocab_size: int

    def run(self, plan: Any) -> torch.Tensor:
        """Copy a plan's pages, compute its tokens, return the wanted logits, [L, vocab], in float32."""

    def close(self) -> None:
        """Let go of the memory."""
