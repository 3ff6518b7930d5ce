"""Chooses tokens out of logits for all rows of a step, each by its own request's parameters.

The engine gives the logits of the rows that sample and the state of each sequence. What is drawn for a row
does not depend on the other rows: rows are grouped by what they need, so none pays for, or is changed by,
another.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from .logits import edited
from .logprobs import TokenLogprobs, token_logprobs
from .randomness import uniforms
from .sampling_state import SamplingState


@dataclass
class Sampled:
    """A token for each row; rows in `errors` have -1 instead, with the reason."""

    tokens: list[int]
    errors: dict[int, str] = field(default_factory=dict)
    logprobs: list[TokenLogprobs | None] = field(default_factory=list)


@dataclass(frozen=True)
class BeamCandidate:
    """A continuation of a beam: which beam, by which token, and the log-probability of the whole."""

    parent: int
    token: int
    score: float


@torch.inference_mode()
def sample(
    logits: torch.Tensor,
    states: Sequence[SamplingState],
    rows: Sequence[int] | None = None,
    masks: Mapping[int, torch.Tensor] | None = None,
) -> Sampled:
    """Return a token for each state, from the row of `logits` [L, vocab] that `rows` names.

    Without `rows` they go in order. The first answers of a request with n > 1 come from one row, which then
    is named n times. `masks` gives for a state's place the tokens that its grammar allows, as bools [vocab].
    """
    if not states:
        return Sampled([])
    if rows is not None and list(rows) != list(range(logits.shape[0])):
        logits = logits.index_select(0, torch.tensor(rows, device=logits.device))
    assert logits.shape[0] == len(states), (logits.shape, len(states))
    wanted = edited(logits, states, masks)
    best, choice = wanted.max(-1)
    peaks = best if wanted is logits else logits.amax(-1)
    errors = dict.fromkeys(_not_finite(peaks), "the model's logits are not finite")
    if wanted is not logits:
        for row in _not_finite(best):
            errors.setdefault(row, "no token is left that may come next")
    drawing = [row for row, state in enumerate(states) if not state.params.is_greedy and row not in errors]
    if drawing:
        index = torch.tensor(drawing, device=logits.device)
        scaled = wanted if len(drawing) == len(states) else wanted.index_select(0, index)
        chosen = _draw(scaled, best.index_select(0, index), [states[row] for row in drawing])
        choice.index_copy_(0, index, chosen)
    tokens = [-1 if row in errors else token for row, token in enumerate(choice.tolist())]
    return Sampled(tokens, errors, _logprobs(logits, states, tokens))


def _not_finite(values: torch.Tensor) -> list[int]:
    return (~values.isfinite()).nonzero()[:, 0].tolist()


def _logprobs(
    logits: torch.Tensor, states: Sequence[SamplingState], tokens: Sequence[int]
) -> list[TokenLogprobs | None]:
    result: list[TokenLogprobs | None] = [None] * len(tokens)
    counts = [state.params.logprobs for state in states]
    rows = [row for row, count in enumerate(counts) if count is not None and tokens[row] >= 0]
    if rows:
        chosen = logits.index_select(0, torch.tensor(rows, device=logits.device))
        entries = token_logprobs(chosen, [tokens[row] for row in rows], [counts[row] or 0 for row in rows])
        for row, entry in zip(rows, entries, strict=True):
            result[row] = entry
    return result


def _draw(logits: torch.Tensor, best: torch.Tensor, states: Sequence[SamplingState]) -> torch.Tensor:
    """Return a token for each row, drawn by its temperature, min-p, top-k and top-p, in this order."""
    vocab = logits.shape[1]
    temperatures = [state.params.temperature for state in states]
    # Relative to the best, so that no temperature can overflow.
    scaled = (logits - best[:, None]) / torch.tensor(temperatures, device=logits.device)[:, None]
    numbers = uniforms(
        [state.seed for state in states],
        [state.answer for state in states],
        [state.num_output for state in states],
    )
    draws = torch.from_numpy(numbers).to(logits.device)
    is_cut = np.array([_is_cut(state, vocab) for state in states])
    chosen = torch.empty(len(states), dtype=torch.int64, device=logits.device)
    for group, draw in ((~is_cut, _from_all), (is_cut, _from_some)):
        members = group.nonzero()[0]
        if len(members) == len(states):
            return draw(scaled, draws, states)
        if len(members):
            index = torch.from_numpy(members).to(logits.device)
            part = draw(scaled.index_select(0, index), draws[index], [states[row] for row in members])
            chosen.index_copy_(0, index, part)
    return chosen


def _is_cut(state: SamplingState, vocab: int) -> bool:
    params = state.params
    return 0 < params.top_k < vocab or params.top_p < 1 or params.min_p > 0


def _pick(weights: torch.Tensor, draws: torch.Tensor) -> torch.Tensor:
    """Return for each row the first place where the running sum of `weights` exceeds its share."""
    sums = weights.cumsum(-1, dtype=torch.float64)
    return torch.searchsorted(sums, (draws * sums[:, -1])[:, None], right=True)[:, 0]


def _from_all(scaled: torch.Tensor, draws: torch.Tensor, states: Sequence[SamplingState]) -> torch.Tensor:
    return _pick(scaled.exp(), draws)


def _from_some(scaled: torch.Tensor, draws: torch.Tensor, states: Sequence[SamplingState]) -> torch.Tensor:
    """Draw among the tokens above a threshold, of which there are few, in the order of their probability."""
    thresholds, totals = _thresholds(scaled, states)
    values, ids = _candidates(scaled, thresholds)
    weights = values.exp()
    sums = weights.cumsum(-1, dtype=torch.float64)
    totals = totals.where(totals > 0, sums[:, -1])
    shares = torch.tensor([state.params.top_p for state in states], device=scaled.device, dtype=torch.float64)
    # A token stays if those before it do not reach the share by themselves; where there is no share, all do.
    is_kept = (sums - weights < (shares * totals)[:, None]) | (shares[:, None] >= 1)
    places = _pick(weights * is_kept, draws)
    return ids.gather(1, places[:, None])[:, 0]


def _thresholds(scaled: torch.Tensor, states: Sequence[SamplingState]) -> tuple[torch.Tensor, torch.Tensor]:
    """Return for each row a logit that every token reaches which top-k, min-p and top-p leave.

    Beside it the weight that top-p is a share of: of all tokens, or 0 where it is that of those that reach.
    """
    vocab = scaled.shape[1]
    least = [math.log(state.params.min_p) if state.params.min_p > 0 else -math.inf for state in states]
    thresholds = torch.tensor(least, device=scaled.device)
    totals = torch.zeros(len(states), dtype=torch.float64, device=scaled.device)
    by_rank = [row for row, state in enumerate(states) if 0 < state.params.top_k < vocab]
    if by_rank:
        ranks = torch.tensor([states[row].params.top_k for row in by_rank], device=scaled.device)
        index = torch.tensor(by_rank, device=scaled.device)
        top = scaled.index_select(0, index).topk(int(ranks.max())).values
        # Tokens as likely as the last one all stay, whatever their order.
        last = top.gather(1, ranks[:, None] - 1)[:, 0]
        thresholds[index] = torch.maximum(thresholds[index], last)
    cut = set(by_rank)
    by_share = [row for row, state in enumerate(states) if row not in cut and state.params.min_p == 0]
    if by_share:
        # Tokens below (1 - top_p) / vocab have less than 1 - top_p together: none of them is among the top.
        shares = [max(1 - states[row].params.top_p, 1e-30) / vocab for row in by_share]
        index = torch.tensor(by_share, device=scaled.device)
        total = scaled.index_select(0, index).logsumexp(-1)
        thresholds[index] = total + torch.tensor(shares, device=scaled.device).log() - 1e-3
        totals[index] = total.double().exp()
    return thresholds, totals


def _candidates(scaled: torch.Tensor, thresholds: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the logits and ids of tokens that reach the thresholds: the likeliest first, then by id."""
    is_candidate = scaled >= thresholds[:, None]
    counts = is_candidate.sum(-1)
    rows, ids = is_candidate.nonzero(as_tuple=True)
    places = torch.arange(len(rows), device=scaled.device) - (counts.cumsum(0) - counts)[rows]
    shape = (scaled.shape[0], int(counts.max()))
    values = torch.full(shape, -torch.inf, device=scaled.device)
    tokens = torch.zeros(shape, dtype=torch.int64, device=scaled.device)
    values[rows, places] = scaled[rows, ids]
    tokens[rows, places] = ids
    ordered, order = values.sort(dim=-1, descending=True, stable=True)
    return ordered, tokens.gather(1, order)


@torch.inference_mode()
def beam_candidates(
    logits: torch.Tensor,
    states: Sequence[SamplingState],
    scores: Sequence[float],
    count: int,
    masks: Mapping[int, torch.Tensor] | None = None,
) -> list[BeamCandidate]:
    """Return the best `count` continuations of all beams together, the best first.

    `scores` are the beams' log-probabilities so far. With twice as many as there are beams, enough are left
    where all of half of them end. Fewer come back where fewer tokens may come next.
    """
    wanted = edited(logits, states, masks).double()
    sums = wanted.log_softmax(-1) + torch.tensor(scores, device=logits.device, dtype=torch.float64)[:, None]
    vocab = sums.shape[1]
    best, places = (
        sums.flatten().nan_to_num(-torch.inf, -torch.inf, -torch.inf).topk(min(count, sums.numel()))
    )
    found = zip(places.tolist(), best.tolist(), strict=True)
    return [
        BeamCandidate(place // vocab, place % vocab, score) for place, score in found if score > -math.inf
    ]
