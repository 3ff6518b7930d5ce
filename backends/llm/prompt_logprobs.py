"""Log-probabilities of the tokens of a prompt, collected chunk by chunk while it is computed.

The logits at one place say how likely the next token was; the first token has none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch

from .outputs import Logprob, TokenLogprobs

if TYPE_CHECKING:
    from hami._core import StepPlan

    from .jobs import Job
    from .vocabulary import Vocabulary


def note_prompt_logprobs(plan: StepPlan, logits: Any, jobs: Mapping[int, Job], vocabulary: Vocabulary) -> None:
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
        assert job.prompt_logprobs is not None
        for token in range(plan.query_starts[row], plan.query_starts[row + 1]):
            following = plan.positions[token] + 1
            # A preempted sequence comes by again, with tokens that were sampled.
            if following < len(job.prompt) and job.prompt_logprobs[following] is None and token in place_of:
                logprobs = torch.log_softmax(logits[place_of[token]].float(), dim=-1)
                job.prompt_logprobs[following] = token_logprobs(
                    logprobs, job.prompt[following], int(job.params.prompt_logprobs or 0), vocabulary
                )


def token_logprobs(
    logprobs: torch.Tensor, token: int, num_likeliest: int, vocabulary: Vocabulary
) -> TokenLogprobs:
    """Return the entry of one place: the token itself, and the likeliest ones. `logprobs` is [vocabulary]."""
    own = logprobs[token]
    rank = int((logprobs > own).sum()) + 1
    top = torch.topk(logprobs, min(num_likeliest, logprobs.numel()))
    found = {token: Logprob(float(own), rank, vocabulary.text_of(token))}
    for place, (value, index) in enumerate(zip(top.values.tolist(), top.indices.tolist(), strict=True)):
        found.setdefault(index, Logprob(value, place + 1, vocabulary.text_of(index)))
    return found
