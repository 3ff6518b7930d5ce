"""What the engine knows of one request: its branches, their texts, and whom to tell.

A job has one branch, or `n` of them once the prompt is computed. Everything here belongs to the engine's
thread; a `Listener` is called there, and must come back at once.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from .outputs import Completion, Generation, Timing, Update, Usage

if TYPE_CHECKING:
    from hami._core import TextStream

    from .beams import BeamSearch
    from .grammar import Grammar
    from .logprobs import TokenLogprobs
    from .sampling import SamplingParams
    from .sampling_state import SamplingState


class Listener(Protocol):
    """Whoever waits for a generation."""

    def is_wanted(self) -> bool:
        """Say whether somebody still waits; the engine asks once a step, and aborts what nobody wants."""

    def has_room(self) -> bool:
        """Say whether `on_update` may be called now; what comes meanwhile is added up."""

    def on_update(self, update: Update, is_last: bool) -> None:
        """Take what is new of one completion; its last update comes whether there is room or not."""

    def on_end(self, generation: Generation) -> None:
        """Take the answer."""

    def on_error(self, error: BaseException) -> None:
        """Learn that there will be no answer; of a bad grammar on the thread that submits the job."""


@dataclass(eq=False)
class Branch:
    """One completion in the making: a sequence of the scheduler, the state of its sampler, and its text."""

    job: Job
    sequence: int
    completion: Completion
    state: SamplingState
    text: TextStream | None
    pending: Update | None = None

    def add(self, token: int, is_shown: bool, logprobs: TokenLogprobs | None) -> str | None:
        """Append a sampled token; one that is not shown has no text. Returns a stop text if there is one."""
        done = self.completion
        done.token_ids.append(token)
        self.state.append(token)
        if logprobs is not None and done.logprobs is not None:
            done.cumulative_logprob += logprobs.logprob
            done.logprobs.append(logprobs)
        piece = self.text.push(token) if self.text is not None and is_shown else ""
        self._note(piece, [token], logprobs)
        return None if self.text is None else self.text.stopped

    def end(self, reason: str, stop_reason: str | int | None = None) -> None:
        """Note why it ended, and bring out the text that was held back, unless a stop text cut it off."""
        piece = self.text.flush() if self.text is not None and not isinstance(stop_reason, str) else ""
        self.completion.finish_reason = reason
        self.completion.stop_reason = stop_reason
        self._note(piece, [], None)

    def deliver(self) -> None:
        """Hand over what is new, if there is room or nothing follows."""
        update = self.pending
        is_last = bool(self.completion.finish_reason)
        if update is not None and (is_last or self.job.listener.has_room()):
            self.pending = None
            self.job.listener.on_update(update, is_last)

    def _note(self, piece: str, tokens: list[int], logprobs: TokenLogprobs | None) -> None:
        done = self.completion
        done.text += piece
        if not self.job.is_streamed:
            return
        listed = None if logprobs is None else [logprobs]
        update = Update(done.index, piece, tokens, listed, done.finish_reason, done.stop_reason)
        if self.pending is None:
            self.pending = update
        else:
            self.pending.absorb(update)


@dataclass(eq=False)
class Job:
    """One request from its arrival to its answer; `seed` is the one that its tokens are drawn with."""

    prompt: list[int]
    params: SamplingParams
    listener: Listener
    is_streamed: bool = False
    priority: int = 0
    salt: str = ""
    user: str = ""
    seed: int = 0
    arrived_at: float = field(default_factory=time.perf_counter)
    started_at: float = 0.0
    first_token_at: float = 0.0
    num_cached: int = 0
    grammar: Grammar | None = None
    beams: BeamSearch | None = None
    has_forked: bool = False
    live: list[Branch] = field(default_factory=list)
    ended: list[Completion] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprobs | None] | None = None

    def generation(self) -> Generation:
        """Return the answer, when all branches have ended."""
        now = time.perf_counter()
        outputs = sorted(self.ended, key=lambda completion: completion.index)
        return Generation(
            self.prompt,
            outputs,
            Usage(len(self.prompt), sum(len(each.token_ids) for each in outputs), self.num_cached),
            Timing(
                1000 * ((self.started_at or now) - self.arrived_at),
                1000 * ((self.first_token_at or now) - self.arrived_at),
                1000 * (now - self.arrived_at),
            ),
            self.prompt_logprobs,
        )
