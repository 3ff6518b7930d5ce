"""The dense decoder of Llama, and of Qwen2 and Qwen3, which differ by a bias and by norms of heads.

Which of the two a model has stands in its configuration, so one class serves all three.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812  its usual name

from ..attention import Attention
from ..config import ModelConfig
from ..step import Step
from ..weights import Weights
from .base import LayerReader, LayerWeights
from .rotary import angles, inverse_frequencies, rotated


class Llama:
    """A decoder whose keys and values are kept by the attention that `forward` is given."""

    def __init__(
        self, config: ModelConfig, weights: Weights, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        self.config = config
        reader = LayerReader(config, weights, dtype, device)
        self._dtype = dtype
        self._embedding = reader.get("model.embed_tokens.weight", config.vocab, config.hidden)
        self._layers = [reader.layer(number) for number in range(config.layers)]
        self._norm = reader.get("model.norm.weight", config.hidden)
        is_tied = config.tie_embeddings or "lm_head.weight" not in weights
        head = self._embedding if is_tied else reader.get("lm_head.weight", config.vocab, config.hidden)
        self._head = head
        self._frequencies = inverse_frequencies(config).to(device)

    def forward(self, step: Step, attention: Attention) -> torch.Tensor:
        """Return the logits of the step's `logit_tokens`, [L, vocab], in float32."""
        attention.prepare(step)
        turns = angles(step.positions, self._frequencies, self._dtype)
        hidden = F.embedding(step.token_ids, self._embedding)
        for number, layer in enumerate(self._layers):
            hidden = hidden + self._attend(
                number, layer, self._normed(hidden, layer.input_norm), turns, attention
            )
            hidden = hidden + self._feed(layer, self._normed(hidden, layer.post_norm))
        wanted = self._normed(hidden.index_select(0, step.logit_tokens), self._norm)
        return F.linear(wanted, self._head).float()

    def _normed(self, values: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(values, weight.shape, weight, self.config.rms_eps)

    def _attend(
        self,
        number: int,
        layer: LayerWeights,
        hidden: torch.Tensor,
        turns: tuple[torch.Tensor, torch.Tensor],
        attention: Attention,
    ) -> torch.Tensor:
        config = self.config
        heads = F.linear(hidden, layer.qkv, layer.qkv_bias).unflatten(-1, (-1, config.head_dim))
        turning, values = heads.split([config.heads + config.kv_heads, config.kv_heads], dim=1)
        if layer.query_norm is not None and layer.key_norm is not None:
            queries, keys = turning.split([config.heads, config.kv_heads], dim=1)
            turning = torch.cat(
                (self._normed(queries, layer.query_norm), self._normed(keys, layer.key_norm)), dim=1
            )
        queries, keys = rotated(turning, turns).split([config.heads, config.kv_heads], dim=1)
        attention.write(number, keys, values)
        attended = attention.attend(number, queries)
        return F.linear(attended.flatten(1), layer.output, layer.output_bias)

    def _feed(self, layer: LayerWeights, hidden: torch.Tensor) -> torch.Tensor:
        gate, up = F.linear(hidden, layer.gate_up).chunk(2, dim=-1)
        return F.linear(F.silu(gate) * up, layer.down)
