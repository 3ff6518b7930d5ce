"""Runs a model with the core's own kernels for the CPU: all layers of a step in one call, without the GIL.

Weights are packed once, in the format that they are computed with; torch is only needed to read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from hami._core import CpuDecoder
from hami.errors import BuildError

from ..config import ModelConfig
from ..models.rotary import inverse_frequencies
from ..weights import Weights
from .sizing import Limits, num_pages_for

KEPT_AS = {"float32": torch.float32, "float16": torch.float16}
"""How weights are handed over; all other formats are packed from bfloat16 or float32."""


class CpuExecutor:
    """A model with its pages. `dtype` is float32, bfloat16, float16, q8, q4, or auto: bfloat16."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        limits: Limits,
        *,
        dtype: str = "auto",
        num_threads: int = 1,
    ) -> None:
        if config.output_bias:
            raise BuildError(
                "the model has a bias after its attention, which `cpu_paged` does not compute",
                code="llm-attention",
                help='use `attention = "sdpa"`',
            )
        self.dtype = "bfloat16" if dtype == "auto" else dtype
        self.page_size = limits.page_size
        self.num_swap_pages = limits.num_swap_pages
        self.vocab_size = config.vocab
        self.config = config
        self._limits = limits
        self._num_threads = num_threads
        self._decoder: CpuDecoder | None = self.load(weights)
        self.num_pages = num_pages_for(
            config,
            limits,
            4 if self.dtype == "float32" else 2,
            torch.device("cpu"),
            lambda: 0.0,  # a decoder has its work space from the beginning
        )
        self._make_pool()

    def load(self, weights: Weights) -> CpuDecoder:
        """Return a decoder of other weights, without pages, beside the one in use; on any thread."""
        config = self.config
        decoder = CpuDecoder(
            num_layers=config.layers,
            hidden=config.hidden,
            num_heads=config.heads,
            num_kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            intermediate=config.intermediate,
            vocab=config.vocab,
            rms_eps=config.rms_eps,
            max_tokens_per_step=self._limits.max_batched_tokens,
            max_rows=self._limits.max_running,
            inv_freq=inverse_frequencies(config).tolist(),
            dtype=self.dtype,
            threads=self._num_threads,
            qkv_bias=config.qkv_bias,
            qk_norm=config.qk_norm,
            tie_embeddings=config.tie_embeddings,
        )
        as_read = KEPT_AS.get(self.dtype, torch.bfloat16 if self.dtype == "bfloat16" else torch.float32)
        for name, shape in weight_shapes(config):
            decoder.set_weight(name.removeprefix("model."), weights.get(name, shape, as_read))
        return decoder

    def use(self, loaded: CpuDecoder) -> None:
        """Run what `load` returned from now on; the old weights and pages go first, for their memory."""
        self._decoder = None
        self._decoder = loaded
        self._make_pool()

    def _make_pool(self) -> None:
        assert self._decoder is not None
        self._decoder.make_pool(self.num_pages, self.page_size, self.num_swap_pages)

    def run(self, plan: Any) -> torch.Tensor:
        """Do a plan's page copies, compute its tokens, and return the wanted logits, float32 [L, vocab]."""
        assert self._decoder is not None
        return logits_of(self._decoder.run(plan), self.vocab_size)

    def close(self) -> None:
        """Let go of the weights and the pages; `run` must not follow."""
        self._decoder = None


def logits_of(memory: memoryview, vocab_size: int) -> torch.Tensor:
    """Return what the core wrote as a tensor of float32, [L, vocab], which shares its memory."""
    if memory.nbytes == 0:  # which torch.frombuffer refuses
        return torch.empty((0, vocab_size))
    return torch.frombuffer(memory, dtype=torch.float32).view(-1, vocab_size)


def weight_shapes(config: ModelConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the names (Hugging Face's) and shapes of all weights of a dense decoder."""
    hidden, queries, keys = config.hidden, config.heads * config.head_dim, config.kv_heads * config.head_dim
    yield "model.embed_tokens.weight", (config.vocab, hidden)
    for layer in range(config.layers):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", (hidden,)
        for name, rows in (("q_proj", queries), ("k_proj", keys), ("v_proj", keys)):
            yield f"{prefix}self_attn.{name}.weight", (rows, hidden)
            if config.qkv_bias:
                yield f"{prefix}self_attn.{name}.bias", (rows,)
        if config.qk_norm:
            yield prefix + "self_attn.q_norm.weight", (config.head_dim,)
            yield prefix + "self_attn.k_norm.weight", (config.head_dim,)
        yield prefix + "self_attn.o_proj.weight", (hidden, queries)
        yield prefix + "post_attention_layernorm.weight", (hidden,)
        yield prefix + "mlp.gate_proj.weight", (config.intermediate, hidden)
        yield prefix + "mlp.up_proj.weight", (config.intermediate, hidden)
        yield prefix + "mlp.down_proj.weight", (hidden, config.intermediate)
    yield "model.norm.weight", (hidden,)
    if not config.tie_embeddings:
        yield "lm_head.weight", (config.vocab, hidden)
