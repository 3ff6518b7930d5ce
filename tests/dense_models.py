"""Small random Llamas, Qwen2s and Qwen3s in plain torch: what the CPU decoder is tested against.

Every token attends to a list of keys and values that grows, in float32 throughout; no pages, no batching.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch
import torch.nn.functional as F  # noqa: N812


@dataclass(frozen=True)
class Sizes:
    """The sizes of a model, and which of the families' additions it has."""

    num_layers: int = 3
    hidden: int = 96
    num_heads: int = 6
    num_kv_heads: int = 2
    head_dim: int = 16
    intermediate: int = 200
    vocab: int = 301
    rms_eps: float = 1e-5
    qkv_bias: bool = False
    qk_norm: bool = False
    tie_embeddings: bool = True
    rope_theta: float = 10000.0

    @property
    def inv_freq(self) -> list[float]:
        exponents = torch.arange(0, self.head_dim, 2, dtype=torch.float32) / self.head_dim
        return (1.0 / self.rope_theta**exponents).tolist()


LLAMA = Sizes()
QWEN2 = Sizes(qkv_bias=True, num_heads=4, num_kv_heads=4, head_dim=32, hidden=130, tie_embeddings=False)
QWEN3 = Sizes(qk_norm=True, num_heads=5, num_kv_heads=1, head_dim=48, hidden=77, intermediate=65, vocab=97)


@dataclass
class State:
    """Keys and values of one sequence: [heads, tokens, head_dim] for each layer."""

    keys: list[torch.Tensor] = field(default_factory=list)
    values: list[torch.Tensor] = field(default_factory=list)


def random_weights(sizes: Sizes, seed: int = 0) -> dict[str, torch.Tensor]:
    """Return weights under the names of model files without `model.`; bfloat16 holds them exactly."""
    generator = torch.Generator().manual_seed(seed)

    def matrix(rows: int, columns: int) -> torch.Tensor:
        weight = torch.randn(rows, columns, generator=generator) / math.sqrt(columns)
        return weight.to(torch.bfloat16).to(torch.float32)

    def vector(size: int) -> torch.Tensor:
        return (1 + 0.2 * torch.randn(size, generator=generator)).to(torch.bfloat16).to(torch.float32)

    q, kv = sizes.num_heads * sizes.head_dim, sizes.num_kv_heads * sizes.head_dim
    weights = {"embed_tokens.weight": matrix(sizes.vocab, sizes.hidden), "norm.weight": vector(sizes.hidden)}
    if not sizes.tie_embeddings:
        weights["lm_head.weight"] = matrix(sizes.vocab, sizes.hidden)
    for i in range(sizes.num_layers):
        layer = {
            "self_attn.q_proj.weight": matrix(q, sizes.hidden),
            "self_attn.k_proj.weight": matrix(kv, sizes.hidden),
            "self_attn.v_proj.weight": matrix(kv, sizes.hidden),
            "self_attn.o_proj.weight": matrix(sizes.hidden, q),
            "mlp.gate_proj.weight": matrix(sizes.intermediate, sizes.hidden),
            "mlp.up_proj.weight": matrix(sizes.intermediate, sizes.hidden),
            "mlp.down_proj.weight": matrix(sizes.hidden, sizes.intermediate),
            "input_layernorm.weight": vector(sizes.hidden),
            "post_attention_layernorm.weight": vector(sizes.hidden),
        }
        if sizes.qkv_bias:
            for name, size in (("q", q), ("k", kv), ("v", kv)):
                layer[f"self_attn.{name}_proj.bias"] = vector(size) - 1
        if sizes.qk_norm:
            layer["self_attn.q_norm.weight"] = vector(sizes.head_dim)
            layer["self_attn.k_norm.weight"] = vector(sizes.head_dim)
        weights.update({f"layers.{i}.{name}": weight for name, weight in layer.items()})
    return weights


class DenseModel:
    """The reference: `forward(ids, state)` appends to the state and returns logits [tokens, vocab]."""

    def __init__(self, sizes: Sizes, weights: dict[str, torch.Tensor]) -> None:
        self.sizes, self.weights = sizes, weights

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        scale = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.sizes.rms_eps)
        return x * scale * self.weights[name]

    def rotate(self, x: torch.Tensor, first: int) -> torch.Tensor:
        positions = torch.arange(first, first + x.shape[1], dtype=torch.float32)
        angles = positions[:, None] * torch.tensor(self.sizes.inv_freq)[None]
        cos, sin = torch.cos(angles).repeat(1, 2), torch.sin(angles).repeat(1, 2)
        half = x.shape[-1] // 2
        turned = torch.cat((-x[..., half:], x[..., :half]), -1)
        return x * cos + turned * sin

    def project(self, x: torch.Tensor, layer: str, name: str) -> torch.Tensor:
        bias = self.weights.get(f"{layer}.self_attn.{name}_proj.bias")
        y = F.linear(x, self.weights[f"{layer}.self_attn.{name}_proj.weight"], bias)
        y = y.view(x.shape[0], -1, self.sizes.head_dim).transpose(0, 1)
        if self.sizes.qk_norm and name != "v":
            y = self.norm(y, f"{layer}.self_attn.{name}_norm.weight")
        return y

    def attend(self, x: torch.Tensor, index: int, state: State) -> torch.Tensor:
        layer = f"layers.{index}"
        if len(state.keys) <= index:
            empty = torch.zeros(self.sizes.num_kv_heads, 0, self.sizes.head_dim)
            state.keys.append(empty)
            state.values.append(empty)
        first = state.keys[index].shape[1]
        q = self.rotate(self.project(x, layer, "q"), first)
        k = self.rotate(self.project(x, layer, "k"), first)
        state.keys[index] = torch.cat((state.keys[index], k), 1)
        state.values[index] = torch.cat((state.values[index], self.project(x, layer, "v")), 1)
        group = self.sizes.num_heads // self.sizes.num_kv_heads
        keys = state.keys[index].repeat_interleave(group, 0)
        values = state.values[index].repeat_interleave(group, 0)
        scores = q @ keys.transpose(1, 2) / math.sqrt(self.sizes.head_dim)
        seen = torch.arange(keys.shape[1])[None] <= first + torch.arange(x.shape[0])[:, None]
        weights = scores.masked_fill(~seen, -math.inf).softmax(-1)
        return (weights @ values).transpose(0, 1).reshape(x.shape[0], -1)

    def forward(self, ids: list[int], state: State) -> torch.Tensor:
        x = self.weights["embed_tokens.weight"][torch.tensor(ids)]
        for i in range(self.sizes.num_layers):
            layer = f"layers.{i}"
            attended = self.attend(self.norm(x, f"{layer}.input_layernorm.weight"), i, state)
            x = x + F.linear(attended, self.weights[f"{layer}.self_attn.o_proj.weight"])
            y = self.norm(x, f"{layer}.post_attention_layernorm.weight")
            gate = F.silu(F.linear(y, self.weights[f"{layer}.mlp.gate_proj.weight"]))
            up = F.linear(y, self.weights[f"{layer}.mlp.up_proj.weight"])
            x = x + F.linear(gate * up, self.weights[f"{layer}.mlp.down_proj.weight"])
        head = "embed_tokens.weight" if self.sizes.tie_embeddings else "lm_head.weight"
        return F.linear(self.norm(x, "norm.weight"), self.weights[head])
