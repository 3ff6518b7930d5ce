"""CPU decoders for the small random models, and what plain torch computes with the same weights."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from dense_models import DenseModel, Sizes, State, random_weights

import hami._core as core

ISAS = core.cpu_isas()
MAX_ROWS = 8


def make_decoder(sizes: Sizes, weights: dict[str, Any] | None = None, **more: Any) -> Any:
    options = {"max_tokens_per_step": 256, "max_rows": MAX_ROWS, "dtype": "float32", "threads": 2} | more
    decoder = core.CpuDecoder(
        num_layers=sizes.num_layers,
        hidden=sizes.hidden,
        num_heads=sizes.num_heads,
        num_kv_heads=sizes.num_kv_heads,
        head_dim=sizes.head_dim,
        intermediate=sizes.intermediate,
        vocab=sizes.vocab,
        rms_eps=sizes.rms_eps,
        inv_freq=sizes.inv_freq,
        qkv_bias=sizes.qkv_bias,
        qk_norm=sizes.qk_norm,
        tie_embeddings=sizes.tie_embeddings,
        **options,
    )
    for name, weight in (random_weights(sizes) if weights is None else weights).items():
        decoder.set_weight(name, weight)
    return decoder


def random_ids(sizes: Sizes, number: int, seed: int = 0) -> list[int]:
    generator = random.Random(seed)
    return [generator.randrange(sizes.vocab) for _ in range(number)]


def logits_of(decoder: Any, plan: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(decoder.run(plan)))


def expected(sizes: Sizes, ids: list[int]) -> torch.Tensor:
    return DenseModel(sizes, random_weights(sizes)).forward(ids, State())
