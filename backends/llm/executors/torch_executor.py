"""Runs a torch model on the CPU or on a GPU.

Made once by the engine, which then calls `run` from its own thread. The pages are as many as asked for, or as
many as fit into the memory beside the worst step (`sizing.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from hami.errors import BuildError, quoted

from ..attention import ATTENTIONS
from ..config import ModelConfig
from ..kv_pool import KvPool
from ..models import MODELS
from ..models.base import Model
from ..step import step_of_plan
from ..weights import Weights
from .sizing import Limits, measured_peak, num_pages_for

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class TorchExecutor:
    """A model with its pages."""

    def __init__(
        self,
        config: ModelConfig,
        weights: Weights,
        limits: Limits,
        *,
        device: str | torch.device = "cpu",
        dtype: str = "auto",
        attention: str = "sdpa",
        layout: str = "",
    ) -> None:
        if attention not in ATTENTIONS:
            raise BuildError(
                f"there is no attention `{attention}` in torch",
                code="llm-attention",
                help=f"choose one of {quoted(ATTENTIONS)}",
            )
        self.config = config
        self.device = torch.device(device)
        self.dtype = choose_dtype(dtype, config, self.device)
        self.page_size = limits.page_size
        self.num_swap_pages = limits.num_swap_pages
        self.vocab_size = config.vocab
        self._layout = layout or ("token" if self.device.type == "cuda" else "head")
        self._attention_type = ATTENTIONS[attention]
        self._model = self.load(weights)
        self.num_pages = num_pages_for(
            config,
            limits,
            self.dtype.itemsize,
            self.device,
            lambda: measured_peak(limits, self.device, self._trial),
        )
        self._make_pool(self.num_pages)

    def load(self, weights: Weights) -> Model:
        """Return a model of other weights, beside the one in use; on any thread."""
        return MODELS[self.config.architecture](self.config, weights, dtype=self.dtype, device=self.device)

    def use(self, loaded: Model) -> None:
        """Run what `load` returned from now on."""
        self._model = loaded

    def _make_pool(self, num_pages: int) -> None:
        config = self.config
        self._pool = KvPool(
            config.layers,
            num_pages,
            self.page_size,
            config.kv_heads,
            config.head_dim,
            dtype=self.dtype,
            device=self.device,
            layout=self._layout,
            num_swap_pages=self.num_swap_pages if num_pages > 1 else 0,
        )
        self._attention = self._attention_type(self._pool, config.heads)

    def _trial(self, plan: Any) -> None:
        """Run a plan whose pages are all the dummy, in a pool that has no other, to see what it takes."""
        self._make_pool(1)
        self.run(plan)

    @torch.inference_mode()
    def run(self, plan: Any) -> torch.Tensor:
        """Copy a plan's pages, compute its tokens, return the wanted logits, [L, vocab], in float32."""
        self._pool.copy_pages(*(_pairs(getattr(plan, name)) for name in ("swap_out", "swap_in", "copies")))
        if plan.num_tokens == 0:
            return torch.empty((0, self.vocab_size), device=self.device)
        return self._model.forward(step_of_plan(plan, self.page_size, self.device), self._attention)

    def close(self) -> None:
        """Let go of the weights and the pages; `run` must not follow."""
        for name in ("_pool", "_attention", "_model"):
            self.__dict__.pop(name, None)


def _pairs(values: Any) -> torch.Tensor:
    return torch.from_numpy(np.array(values, dtype=np.int64).reshape(-1, 2))


def choose_dtype(name: str, config: ModelConfig, device: torch.device) -> torch.dtype:
    """Return the type to compute in; `auto` is float32 on the CPU, and on a GPU the type of the weights.

    Weights in float32, and quantised ones, become bfloat16 on a GPU that has it, else float16.
    """
    if name in DTYPES:
        return DTYPES[name]
    if name != "auto":
        raise BuildError(
            f"`dtype` is `{name}`", code="llm-dtype", help=f"choose `auto` or one of {quoted(DTYPES)}"
        )
    if device.type == "cpu":
        return torch.float32
    wanted = DTYPES.get(config.dtype, torch.float32)
    if wanted is not torch.float16:
        wanted = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return wanted
