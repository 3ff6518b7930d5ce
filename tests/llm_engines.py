"""Engines for tests: a model made of a hash, whose tokens are bytes, and executors that misbehave."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from hami.backends.llm.engine import Engine
from hami.backends.llm.executors.fake_executor import FakeExecutor
from hami.backends.llm.executors.sizing import Limits
from hami.backends.llm.llm import LLM
from hami.backends.llm.loading import make_scheduler
from hami.backends.llm.sampling import SamplingParams
from hami.backends.llm.settings import EngineSettings
from hami.backends.llm.vocabulary import Vocabulary

VOCAB = 256
EOS = 0
WAIT_S = 20.0


class ByteTokenizer:
    """Every byte is a token; byte 0 ends a text, and stands for no text."""

    eos_ids = (EOS,)
    special_ids = frozenset({EOS})

    def encode(self, text: str) -> list[int]:
        return list(text.encode())

    def encode_chat(self, messages: Any) -> list[int]:
        return self.encode("".join(f"{each['role']}:{each['content']}\n" for each in messages))

    def decode(self, ids: Sequence[int]) -> str:
        return bytes(token for token in ids if token != EOS).decode(errors="replace")

    def token_bytes(self) -> list[bytes]:
        return [b"", *(bytes([token]) for token in range(1, VOCAB))]


class Script:
    """An executor that answers with given tokens, whatever it is asked: `next_of(position)` names each."""

    def __init__(self, inner: FakeExecutor, text: bytes) -> None:
        self._inner = inner
        self._text = text
        self.num_pages, self.page_size = inner.num_pages, inner.page_size
        self.num_swap_pages, self.vocab_size = inner.num_swap_pages, inner.vocab_size

    def run(self, plan: Any) -> torch.Tensor:
        logits = torch.full_like(self._inner.run(plan), -20.0)
        for place, token in enumerate(plan.logit_tokens):
            position = plan.positions[token] + 1 - 4  # prompts have four tokens
            if 0 <= position < len(self._text):
                logits[place, self._text[position]] = 20.0
            else:
                logits[place, EOS] = 20.0
        return logits

    def close(self) -> None:
        self._inner.close()


class Hooked:
    """An executor that lets a test look at, change or refuse each step."""

    def __init__(self, inner: Any, hook: Callable[[Any, torch.Tensor], torch.Tensor]) -> None:
        self._inner, self._hook = inner, hook
        self.config, self.load, self.use = inner.config, inner.load, inner.use
        self.num_pages, self.page_size = inner.num_pages, inner.page_size
        self.num_swap_pages, self.vocab_size = inner.num_swap_pages, inner.vocab_size

    def run(self, plan: Any) -> torch.Tensor:
        return self._hook(plan, self._inner.run(plan))

    def close(self) -> None:
        self._inner.close()


class Gate:
    """A hook that holds every step until it is opened."""

    def __init__(self) -> None:
        self.is_open = threading.Event()
        self.is_reached = threading.Event()

    def __call__(self, plan: Any, logits: torch.Tensor) -> torch.Tensor:
        self.is_reached.set()
        assert self.is_open.wait(WAIT_S), "nobody opened the gate"
        return logits


def fake_engine(
    *,
    tokenizer: Any = None,
    wrap: Callable[[FakeExecutor], Any] = lambda inner: inner,
    **keywords: Any,
) -> Engine:
    """Return an engine over FakeExecutor; `wrap` puts another executor around it."""
    settings = EngineSettings.from_keywords("test", {"max_model_len": 512, "num_pages": 400, **keywords})
    swap = settings.num_swap_pages or (settings.num_pages if settings.preempt == "swap" else 0)
    limits = Limits(
        page_size=settings.page_size,
        num_pages=settings.num_pages or 0,
        max_running=settings.max_running,
        max_model_len=settings.max_model_len or 512,
        max_batched_tokens=settings.max_batched_tokens,
        num_swap_pages=swap or 0,
    )
    executor = wrap(FakeExecutor(limits, VOCAB))
    scheduler = make_scheduler(executor, limits, settings)
    vocabulary = Vocabulary(VOCAB, tokenizer, eos_ids=() if tokenizer else (EOS,))
    return Engine(scheduler, executor, vocabulary, seed=settings.seed)


def fake_llm(**keywords: Any) -> LLM:
    """Return the same as an LLM."""
    return LLM.of_engine(fake_engine(**keywords))


def greedy_params(max_tokens: int = 16, **keywords: Any) -> SamplingParams:
    """Return parameters that take the likeliest token and end by length."""
    return SamplingParams(temperature=0.0, max_tokens=max_tokens, ignore_eos=True, **keywords)
