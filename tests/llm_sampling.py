"""What the tests of the sampler share: states, random logits, and the distributions wanted.

`wanted_probabilities` is written token by token from the definitions, and shares nothing with the product.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch, which is not installed")

from hami.backends.llm.sampling import SamplingParams  # noqa: E402
from hami.backends.llm.sampling_state import SamplingState  # noqa: E402


def state(
    prompt: Sequence[int] = (), output: Sequence[int] = (), stop_ids: Sequence[int] = (), **params: Any
) -> SamplingState:
    """Return the state of a sequence with these tokens."""
    params.setdefault("max_tokens", 1000)
    made = SamplingState(SamplingParams(**params), prompt, stop_ids=stop_ids)
    for token in output:
        made.append(token)
    return made


def random_logits(rows: int, vocab: int, *, seed: int = 0, scale: float = 2.0) -> Any:
    """Return normally distributed logits."""
    return torch.randn(rows, vocab, generator=torch.Generator().manual_seed(seed)) * scale


def wanted_probabilities(
    logits: Sequence[float],
    *,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    min_p: float = 0.0,
) -> list[float]:
    """Return the probability of each token: temperature, then min-p, then top-k, then top-p."""
    best = max(logits)
    weights = {token: math.exp((logit - best) / temperature) for token, logit in enumerate(logits)}
    weights = {token: weight for token, weight in weights.items() if weight >= min_p}
    order = sorted(weights, key=lambda token: (-weights[token], token))
    if top_k:
        last = weights[order[min(top_k, len(order)) - 1]]
        order = [token for token in order if weights[token] >= last]
    total, before, kept = sum(weights[token] for token in order), 0.0, []
    for token in order:
        if top_p < 1 and before >= top_p * total:
            break
        kept.append(token)
        before += weights[token]
    return [weights[token] / before if token in kept else 0.0 for token in range(len(logits))]


def wanted_logits(
    logits: Sequence[float], prompt: Sequence[int], output: Sequence[int], **params: Any
) -> list[float]:
    """Return the logits after bias and penalties, token by token."""
    result = []
    for token, logit in enumerate(logits):
        logit += params.get("logit_bias", {}).get(token, 0.0)
        if token in prompt or token in output:
            repetition = params.get("repetition_penalty", 1.0)
            logit = logit / repetition if logit > 0 else logit * repetition
        logit -= params.get("frequency_penalty", 0.0) * output.count(token)
        logit -= params.get("presence_penalty", 0.0) * (token in output)
        result.append(logit)
    return result
