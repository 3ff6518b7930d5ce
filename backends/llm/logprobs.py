"""Log-probabilities of tokens, and of the likeliest ones beside them: of the model's own distribution.

They are taken before temperature, penalties and everything else that a request says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

ROWS_AT_ONCE = 64  # bounds the memory where a long prompt's logits are wanted


class TokenLogprobs(NamedTuple):
    """A token with its log-probability and rank (from 1), and the likeliest tokens with theirs."""

    token: int
    logprob: float
    rank: int
    top: list[tuple[int, float]]


def token_logprobs(logits: torch.Tensor, tokens: Sequence[int], counts: Sequence[int]) -> list[TokenLogprobs]:
    """Return one entry for each row of `logits` [n, vocab]: its token, and the `counts` likeliest ones."""
    result: list[TokenLogprobs] = []
    for start in range(0, len(tokens), ROWS_AT_ONCE):
        end = min(start + ROWS_AT_ONCE, len(tokens))
        result += _of_rows(logits[start:end], tokens[start:end], counts[start:end])
    return result


def _of_rows(logits: torch.Tensor, tokens: Sequence[int], counts: Sequence[int]) -> list[TokenLogprobs]:
    index = torch.tensor(tokens, device=logits.device)[:, None]
    total = logits.logsumexp(-1, keepdim=True)
    own = logits.gather(1, index)
    ranks = ((logits > own).sum(-1) + 1).tolist()
    logprobs = (own - total)[:, 0].tolist()
    tops: list[list[tuple[int, float]]] = [[] for _ in tokens]
    most = min(max(counts, default=0), logits.shape[1])
    if most > 0:
        values, ids = logits.topk(most)
        rows = zip(ids.tolist(), (values - total).tolist(), counts, strict=True)
        tops = [list(zip(row[:count], scores[:count], strict=True)) for row, scores, count in rows]
    return [TokenLogprobs(*entry) for entry in zip(tokens, logprobs, ranks, tops, strict=True)]
