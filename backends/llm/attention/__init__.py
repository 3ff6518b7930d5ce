"""Attention over paged keys and values: the interface in `base.py`, one file for each way to compute it."""

from .base import Attention
from .sdpa import SdpaAttention

# By the name that the engine's parameter `attention` takes.
ATTENTIONS = {"sdpa": SdpaAttention}

__all__ = ["ATTENTIONS", "Attention", "SdpaAttention"]
