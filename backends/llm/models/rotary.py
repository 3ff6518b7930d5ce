"""Rotary positions: the frequencies of a model, and the rotation of heads.

The angles are worked out once a step and shared by its layers, which costs less memory than a table of all
positions and is as exact.
"""

from __future__ import annotations

import math

import torch

from ..config import ModelConfig, RopeScaling


def inverse_frequencies(config: ModelConfig) -> torch.Tensor:
    """Return the angle per position of each rotary pair, [head_dim / 2], in float32."""
    exponents = torch.arange(0, config.head_dim, 2, dtype=torch.int64).float() / config.head_dim
    plain = 1.0 / config.rope_theta**exponents
    scaling = config.rope_scaling
    if scaling is None:
        return plain
    if scaling.kind == "linear":
        return plain / scaling.factor
    if scaling.kind == "factors":
        return plain / torch.tensor(scaling.factors, dtype=torch.float32)
    return _llama3(plain, scaling)


def _llama3(plain: torch.Tensor, scaling: RopeScaling) -> torch.Tensor:
    """Divide the frequencies of long waves, keep those of short ones, and pass smoothly in between."""
    waves = 2 * math.pi / plain
    longest = scaling.original_max_position / scaling.low_freq_factor
    shortest = scaling.original_max_position / scaling.high_freq_factor
    scaled = torch.where(waves > longest, plain / scaling.factor, plain)
    smooth = scaling.original_max_position / waves - scaling.low_freq_factor
    smooth = smooth / (scaling.high_freq_factor - scaling.low_freq_factor)
    between = (1 - smooth) * scaled / scaling.factor + smooth * scaled
    return torch.where((waves <= longest) & (waves >= shortest), between, scaled)


def angles(
    positions: torch.Tensor, frequencies: torch.Tensor, dtype: torch.dtype
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return cosines and sines of `positions`, each [tokens, 1, head_dim / 2]."""
    turned = positions[:, None, None].float() * frequencies
    return turned.cos().to(dtype), turned.sin().to(dtype)


def rotated(heads: torch.Tensor, turns: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    """Return heads, [tokens, heads, head_dim], with their pairs (i, i + head_dim / 2) rotated."""
    cosines, sines = turns
    first, second = heads.chunk(2, dim=-1)
    return torch.cat((first * cosines - second * sines, second * cosines + first * sines), dim=-1)
