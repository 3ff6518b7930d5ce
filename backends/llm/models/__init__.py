"""The torch models by the name of their architecture."""

from .base import Model
from .llama import Llama

MODELS = {"llama": Llama, "qwen2": Llama, "qwen3": Llama}

__all__ = ["MODELS", "Llama", "Model"]
