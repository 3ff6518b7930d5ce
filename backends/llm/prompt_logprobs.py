"""Log-probabilities of the tokens of a prompt, collected chunk by chunk while it is computed.

The logits at one place say how likely the next token was; the first token has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch

from .logprobs import token_logprobs

if TYPE_CHECKING:
    from hami._core import StepPlan

    from .jobs import Job


def note_prompt_logprobs(plan: StepPlan, logits: torch.Tensor, jobs: Mapping[int, Job]) -> None:
    """Fill `prompt_logprobs` of the jobs that want them; `logits` are those of the step, [L, vocabulary]."""
    wanting = [
        (row, jobs[sequence])
        for row, sequence in enumerate(plan.sequences)
        if sequence in jobs and jobs[sequence].prompt_logprobs is not None
    ]
    if not wanting:
        return
    place_of = {token: place for place, token in enumerate(plan.logit_tokens)}
    for row, job in wanting:
        known = job.prompt_logprobs
        assert known is not None
        tokens = range(plan.query_starts[row], plan.query_starts[row + 1])
        # A preempted sequence comes by again, with tokens that were sampled.
        places = {plan.positions[token] + 1: place_of[token] for token in tokens if token in place_of}
        new = [place for place in places if place < len(job.prompt) and known[place] is None]
        if new:
            entries = token_logprobs(
                logits[[places[place] for place in new]],
                [job.prompt[place] for place in new],
                [int(job.params.prompt_logprobs or 0)] * len(new),
            )
            for place, entry in zip(new, entries, strict=True):
                known[place] = entry
