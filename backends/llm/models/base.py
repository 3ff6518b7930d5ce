"""What an executor asks of a model, and the weights of a layer as the models keep them.

Projections that read the same input are one matrix: queries, keys and values, and the two halves of the
feed-forward layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from ..attention import Attention
from ..config import ModelConfig
from ..step import Step
from ..weights import Weights


class Model(Protocol):
    """A decoder: tokens of a step in, logits out."""

    config: ModelConfig

    def forward(self, step: Step, attention: Attention) -> torch.Tensor:
        """Return the logits of the step's `logit_tokens`, [L, vocab], in float32."""


@dataclass(frozen=True)
class LayerWeights:
    """One layer; a bias or a norm that the model does not have is None."""

    input_norm: torch.Tensor
    qkv: torch.Tensor
    qkv_bias: torch.Tensor | None
    query_norm: torch.Tensor | None
    key_norm: torch.Tensor | None
    output: torch.Tensor
    output_bias: torch.Tensor | None
    post_norm: torch.Tensor
    gate_up: torch.Tensor
    down: torch.Tensor


class LayerReader:
    """Reads the weights of layers in one type onto one device."""

    def __init__(
        self, config: ModelConfig, weights: Weights, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._config = config
        self._weights = weights
        self._dtype = dtype
        self._device = device

    def get(self, name: str, *shape: int) -> torch.Tensor:
        """Return one tensor."""
        return self._weights.get(name, shape, self._dtype).to(self._device)

    def fused(self, *parts: tuple[str, int], columns: int | None = None) -> torch.Tensor:
        """Return tensors below each other: names and numbers of rows; without `columns` they are vectors."""
        width = () if columns is None else (columns,)
        whole = torch.empty(
            (sum(rows for _, rows in parts), *width), dtype=self._dtype, device=self._device
        )  # filled part by part, so that no more than one of them is there twice
        start = 0
        for name, rows in parts:
            whole[start : start + rows] = self._weights.get(name, (rows, *width), self._dtype)
            start += rows
        return whole

    def layer(self, number: int) -> LayerWeights:
        """Return the weights of a layer."""
        config = self._config
        prefix = f"model.layers.{number}."
        attention, feed = prefix + "self_attn.", prefix + "mlp."
        queries, keys = config.heads * config.head_dim, config.kv_heads * config.head_dim
        sizes = {"q_proj": queries, "k_proj": keys, "v_proj": keys}
        has_bias, has_norms = config.qkv_bias, config.qk_norm
        return LayerWeights(
            input_norm=self.get(prefix + "input_layernorm.weight", config.hidden),
            qkv=self.fused(*((f"{attention}{n}.weight", r) for n, r in sizes.items()), columns=config.hidden),
            qkv_bias=self.fused(*((f"{attention}{n}.bias", r) for n, r in sizes.items()))
            if has_bias
            else None,
            query_norm=self.get(attention + "q_norm.weight", config.head_dim) if has_norms else None,
            key_norm=self.get(attention + "k_norm.weight", config.head_dim) if has_norms else None,
            output=self.get(attention + "o_proj.weight", config.hidden, queries),
            output_bias=self.get(attention + "o_proj.bias", config.hidden) if config.output_bias else None,
            post_norm=self.get(prefix + "post_attention_layernorm.weight", config.hidden),
            gate_up=self.fused(
                (feed + "gate_proj.weight", config.intermediate),
                (feed + "up_proj.weight", config.intermediate),
                columns=config.hidden,
            ),
            down=self.get(feed + "down_proj.weight", config.hidden, config.intermediate),
        )
