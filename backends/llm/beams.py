"""Beam search over the engine: the `beam_width` likeliest continuations of a prompt, kept side by side.

A beam is a sequence of the scheduler; a beam that continues in several ways forks, one that continues in none
is dropped, and pages are shared until somebody writes. The score of a hypothesis is the sum of its
log-probabilities over its length to the power of `length_penalty` (Wu et al. 2016, without their coverage
term and with the plain length, as the field does it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .grammar import grammar_masks
from .sampler import beam_candidates

if TYPE_CHECKING:
    import torch

    from .sampling_state import SamplingState


@dataclass(eq=False)
class Beam:
    """One hypothesis; `sequence` is -1 once it has ended."""

    sequence: int
    state: SamplingState
    token_ids: list[int] = field(default_factory=list)
    logprob: float = 0.0
    finish_reason: str = ""
    stop_reason: int | None = None

    def extended(self, token: int, logprob: float) -> Beam:
        """Return the hypothesis with one more token; its sequence is still that of this one."""
        state = self.state.fork(self.state.answer)
        state.append(token)
        return Beam(self.sequence, state, [*self.token_ids, token], logprob)

    def score(self, length_penalty: float) -> float:
        """Return what hypotheses are compared by."""
        return float(self.logprob / max(len(self.token_ids), 1) ** length_penalty)


class BeamSearch:
    """The beams of one request; `state` is that of its prompt, and knows the ids that end a hypothesis."""

    def __init__(self, state: SamplingState, sequence: int) -> None:
        self._params = state.params
        self._stops = frozenset(state.stop_ids.tolist())
        self._next: list[Beam] = []
        self.width = max(self._params.beam_width, 1)
        self.live = [Beam(sequence, state)]
        self.ended: list[Beam] = []

    def propose(self, logits: torch.Tensor, rows: Mapping[int, int]) -> list[tuple[int, int]]:
        """Return (parent sequence, token) for each beam of the next round, to be settled.

        `rows` names the row of `logits` [L, vocabulary] for each beam: the scheduler has all in one step.
        """
        states = [beam.state for beam in self.live]
        candidates = beam_candidates(
            logits[[rows[beam.sequence] for beam in self.live]],
            states,
            [beam.logprob for beam in self.live],
            2 * self.width,  # half of them may end here, and the other half goes on
            grammar_masks(states),
        )
        self._next = []
        for candidate in candidates:
            beam = self.live[candidate.parent].extended(candidate.token, candidate.score)
            if candidate.token in self._stops:
                beam.finish_reason, beam.stop_reason, beam.sequence = "stop", candidate.token, -1
                self._end(beam)
            elif beam.state.is_complete:
                beam.finish_reason, beam.sequence = "stop", -1
                self._end(beam)
            else:
                self._next.append(beam)
            if len(self._next) == self.width:
                break
        return [(beam.sequence, beam.token_ids[-1]) for beam in self._next]

    @property
    def is_stuck(self) -> bool:
        """Say whether no hypothesis goes on, and none has ended."""
        return not self._next and not self.ended

    def settle(self, settled: list[tuple[int, str]]) -> bool:
        """Learn which sequences the beams are now, and why they ended. Returns whether the search is over."""
        self.live = []
        for beam, (sequence, reason) in zip(self._next, settled, strict=True):
            beam.sequence = sequence
            if reason:
                beam.finish_reason, beam.sequence = reason, -1
                self._end(beam)
            else:
                self.live.append(beam)
        return self._is_over()

    def best(self, reason: str) -> list[Beam]:
        """Return the `n` best hypotheses, the best first; those that live end with `reason`."""
        for beam in self.live:
            beam.finish_reason = reason
            self._end(beam)
        self.live = []
        return self.ended[: self._params.n]

    def _end(self, beam: Beam) -> None:
        self.ended.append(beam)
        self.ended.sort(key=lambda each: -each.score(self._params.length_penalty))
        del self.ended[self.width :]

    def _is_over(self) -> bool:
        if not self.live:
            return True
        if len(self.ended) < self.width:
            return False
        if self._params.early_stopping:
            return True
        penalty = self._params.length_penalty
        return max(beam.score(penalty) for beam in self.live) <= self.ended[-1].score(penalty)
