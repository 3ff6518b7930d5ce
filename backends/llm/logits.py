"""What requests change in their logits before a token is chosen: in the order of vLLM.

Only the tokens kept are left, then those that would end too early are banned, then biases are added, then the
penalties are taken. All rows are changed at once, and only at the tokens concerned.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from .sampling_state import SamplingState

Array = np.ndarray[Any, Any]


def edited(
    logits: torch.Tensor, states: Sequence[SamplingState], masks: Mapping[int, torch.Tensor] | None = None
) -> torch.Tensor:
    """Return the logits as the requests want them, in a copy; the tensor itself if nothing is changed.

    `masks` has for some rows the tokens that a grammar allows, as bools.
    """
    rows = [row for row, state in enumerate(states) if state.edits_logits]
    if not rows and not masks:
        return logits
    logits = logits.clone()
    for row in rows:
        if (allowed := states[row].params.allowed_token_ids) is not None:
            _keep(logits[row], torch.tensor(allowed, device=logits.device))
    for row, mask in (masks or {}).items():
        logits[row].masked_fill_(~mask.to(logits.device), -torch.inf)
    banning = [row for row in rows if states[row].bans_stops]
    if banning:
        logits[_places(logits, banning, [states[row].stop_ids for row in banning])] = -torch.inf
    biased = [row for row in rows if len(states[row].bias_ids)]
    if biased:
        places = _places(logits, biased, [states[row].bias_ids for row in biased])
        logits[places] += _on(logits, np.concatenate([states[row].biases for row in biased]))
    penalised = [row for row in rows if states[row].params.has_penalties]
    if penalised:
        _penalise(logits, penalised, [states[row] for row in penalised])
    return logits


def _keep(row: torch.Tensor, allowed: torch.Tensor) -> None:
    kept = row[allowed]
    row.fill_(-torch.inf)
    row[allowed] = kept


def _on(logits: torch.Tensor, values: Array) -> torch.Tensor:
    return torch.from_numpy(values).to(logits.device)


def _places(
    logits: torch.Tensor, rows: Sequence[int], ids: Sequence[Array]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the index of `ids[i]` in row `rows[i]`, for all i."""
    repeated = np.repeat(np.array(rows, np.int64), [len(part) for part in ids])
    return _on(logits, repeated), _on(logits, np.concatenate(ids))


def _penalise(logits: torch.Tensor, rows: Sequence[int], states: Sequence[SamplingState]) -> None:
    seen = [state.seen for state in states]
    lengths = [len(ids) for ids, _ in seen]
    places = _places(logits, rows, [ids for ids, _ in seen])
    counts = _on(logits, np.concatenate([counts for _, counts in seen]))

    def each(name: str) -> torch.Tensor:
        values = np.array([getattr(state.params, name) for state in states], np.float32)
        return _on(logits, np.repeat(values, lengths))

    values, repetition = logits[places], each("repetition_penalty")
    values = torch.where(values > 0, values / repetition, values * repetition)
    values -= each("frequency_penalty") * counts
    values -= each("presence_penalty") * (counts > 0)
    logits[places] = values
