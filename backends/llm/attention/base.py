"""What a model asks of attention: write keys and values to their slots, then attend over the pages.

One object serves all layers of a model. `prepare` comes once a step, `write` and `attend` once a layer, all
from the executor's thread. A new kind of attention is one more class here and one more name in `ATTENTIONS`.
"""

from __future__ import annotations

from typing import Protocol

import torch

from ..step import Step


class Attention(Protocol):
    """Causal attention of rows over the pages of their sequences."""

    def prepare(self, step: Step) -> None:
        """Work out what all layers of a step share."""

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put keys and values, [tokens, kv_heads, head_dim], into the slots of the step."""

    def attend(self, layer: int, queries: torch.Tensor) -> torch.Tensor:
        """Return the attention of `queries`, [tokens, heads, head_dim], over what is before them."""
