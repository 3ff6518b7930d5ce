"""What the engine asks of an executor: the only part that knows a model.

Executors hold no policy: which tokens are computed on which pages stands in the plan.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch

from ..config import ModelConfig
from ..weights import Weights


class Executor(Protocol):
    """Runs plans. Not thread-safe: the engine's thread alone calls it, but for `load`."""

    config: ModelConfig | None
    num_pages: int
    num_swap_pages: int
    page_size: int
    vocab_size: int

    def run(self, plan: Any) -> torch.Tensor:
        """Copy a plan's pages, compute its tokens, return the wanted logits, [L, vocab], in float32."""

    def load(self, weights: Weights) -> Any:
        """Return other weights of the same sizes, ready for `use`, beside those in use; on any thread.

        Raises BuildError where one is missing or has another shape.
        """

    def use(self, loaded: Any) -> None:
        """Run what `load` returned from now on. What lies on the pages is of no use any more."""

    def close(self) -> None:
        """Let go of the memory."""
