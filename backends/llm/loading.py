"""From a model's files and settings to a running engine."""

from __future__ import annotations

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

from hami import scheduler
from hami._core import LlmScheduler
from hami.errors import BuildError, ConfigError

from .config import ModelConfig
from .engine import Engine
from .executors.base import Executor
from .executors.cpu_executor import CpuExecutor
from .executors.sizing import Limits
from .executors.torch_executor import TorchExecutor
from .settings import EngineSettings
from .tokenizer import load_tokenizer
from .vocabulary import Vocabulary
from .weights import Weights, find_model, open_weights

CPU_MODEL_LEN = 8192
"""On a CPU, the longest sequence where nothing else is asked for: longer ones would take minutes."""


def load_engine(model: str | os.PathLike[str], settings: EngineSettings, name: str = "llm") -> Engine:
    """Load a Hugging Face folder or a GGUF file. Raises BuildError or ConfigError."""
    place = find_model(Path(model))
    config, weights, file = open_weights(place)
    try:
        vocabulary = Vocabulary(config.vocab, load_tokenizer(config, file or place))
        limits = _limits(config, settings)
        executor = _executor(config, weights, limits, settings)
    finally:
        weights.close()
    return Engine(
        make_scheduler(executor, limits, settings),
        executor,
        vocabulary,
        name=name,
        seed=settings.seed,
    )


def reload_weights(engine: Engine, model: str | os.PathLike[str]) -> None:
    """Give a running engine the weights of another model of the same sizes.

    They are read beside those in use, and exchanged between two steps: see Engine.use. Raises BuildError
    where the two models differ in more than weights, or a weight does not fit; the engine then goes on as
    before.
    """
    config, weights, _ = open_weights(find_model(Path(model)))
    try:
        if engine.executor.config is not None:
            _check_same_sizes(engine.executor.config, config)
        loaded = engine.executor.load(weights)
    finally:
        weights.close()
    engine.use(loaded)


def _check_same_sizes(running: ModelConfig, other: ModelConfig) -> None:
    free = {"dtype", "eos_ids", "bos_id"}  # the type of the files, and what the tokenizer in use says
    for field in fields(ModelConfig):
        mine, theirs = getattr(running, field.name), getattr(other, field.name)
        if field.name not in free and mine != theirs:
            raise BuildError(
                f"`{field.name}` of the new model is `{theirs}`, and of the running one `{mine}`",
                code="llm-reload",
                help="give weights of the same architecture and sizes, or make a new engine",
            )


def make_scheduler(executor: Executor, limits: Limits, settings: EngineSettings) -> LlmScheduler:
    """Return the scheduler for an executor's pages."""
    return LlmScheduler(
        num_pages=executor.num_pages,
        page_size=executor.page_size,
        max_running=limits.max_running,
        max_model_len=limits.max_model_len,
        max_batched_tokens=limits.max_batched_tokens,
        prefix_cache=settings.prefix_cache,
        policy=_policy(settings.policy),
        preempt=settings.preempt,
        num_swap_pages=executor.num_swap_pages,
    )


def _policy(policy: Any) -> Any:
    """Return what the scheduler takes: a name of its own, or a function that gives a request its place."""
    registered = scheduler.find(policy) if isinstance(policy, str) else None
    return policy if registered is None else registered().order


def _limits(config: ModelConfig, settings: EngineSettings) -> Limits:
    longest = config.max_position
    if settings.max_model_len is not None and settings.max_model_len > longest:
        raise ConfigError(
            f"`max_model_len` is {settings.max_model_len}, and the model was made for {longest} tokens",
            code="llm-setting",
            help=f"use at most {longest}",
        )
    wanted = settings.max_model_len or (min(longest, CPU_MODEL_LEN) if settings.device == "cpu" else longest)
    num_pages = settings.num_pages or 0
    num_swap_pages = 0
    if settings.preempt == "swap":
        num_swap_pages = (
            settings.num_swap_pages or num_pages or settings.max_running * -(-wanted // settings.page_size)
        )
    return Limits(
        page_size=settings.page_size,
        num_pages=num_pages,
        memory_utilization=settings.memory_utilization,
        max_running=settings.max_running,
        max_model_len=wanted,
        max_batched_tokens=settings.max_batched_tokens,
        num_swap_pages=num_swap_pages,
    )


def _executor(config: ModelConfig, weights: Weights, limits: Limits, settings: EngineSettings) -> Executor:
    attention = settings.attention
    is_cpu = torch.device(settings.device).type == "cpu"
    if attention == "auto":
        attention = "cpu_paged" if is_cpu else "sdpa"
    if attention == "cpu_paged":
        if not is_cpu:
            raise ConfigError(
                f"`attention` is `cpu_paged`, and `device` is `{settings.device}`",
                code="llm-setting",
                help='use `attention = "sdpa"` there',
            )
        return CpuExecutor(config, weights, limits, dtype=settings.dtype, num_threads=settings.num_threads)
    if settings.dtype in ("q8", "q4"):
        raise ConfigError(
            f"`dtype` is `{settings.dtype}`, which only `cpu_paged` computes with",
            code="llm-setting",
            help='use `attention = "cpu_paged"`',
        )
    return TorchExecutor(
        config, weights, limits, device=settings.device, dtype=settings.dtype, attention=attention
    )


def prompts_of(prompts: Any) -> list[Any]:
    """Return a list of prompts: what is one prompt (a text, ids, a chat) becomes a list of one."""
    if isinstance(prompts, (list, tuple)) and prompts:
        is_chat = all(isinstance(each, dict) for each in prompts)
        is_ids = all(isinstance(each, int) for each in prompts)
        return [list(prompts)] if is_chat or is_ids else list(prompts)
    return [prompts] if isinstance(prompts, str) else list(prompts)
