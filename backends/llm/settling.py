"""What becomes of the logits of a step: tokens, forks, ends, and news for those who wait.

The `Settler` keeps the jobs of an engine by the sequences that the scheduler made of them. It belongs to the
engine's thread.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import torch

from hami.errors import Error, RequestError

from .beams import BeamSearch
from .grammar import grammar_masks
from .jobs import Branch, Job
from .outputs import Completion
from .prompt_logprobs import note_prompt_logprobs
from .sampler import Sampled, sample
from .sampling_state import SamplingState

if TYPE_CHECKING:
    from hami._core import LlmScheduler, StepPlan

    from .vocabulary import Vocabulary


class Settler:
    """The jobs inside, and how a step changes them."""

    def __init__(self, scheduler: LlmScheduler, vocabulary: Vocabulary, seed: int) -> None:
        self._scheduler = scheduler
        self._vocabulary = vocabulary
        self._seed = seed
        self._num_admitted = 0
        self._jobs: dict[int, Job] = {}  # by sequence, as the next
        self._branches: dict[int, Branch] = {}

    @property
    def has_work(self) -> bool:
        """Say whether a job is inside."""
        return bool(self._jobs)

    # --- arrival and early ends ---

    def admit(self, job: Job) -> None:
        """Give a job to the scheduler; what that refuses goes to the listener."""
        params = job.params
        job.seed = params.seed if params.seed is not None else self._seed + self._num_admitted
        self._num_admitted += 1
        stops = self._vocabulary.stop_ids(params)
        try:
            params.check_tokens(self._vocabulary.vocab_size)
            text = self._vocabulary.text_stream(params)
            sequence = self._scheduler.add(
                job.prompt,
                max_tokens=params.max_tokens,
                min_tokens=params.min_tokens,
                stop_ids=[] if params.beam_width else sorted(stops),
                width=params.width,
                together=bool(params.beam_width),
                priority=job.priority,
                salt=job.salt,
                user=job.user,
                prompt_logits=params.prompt_logprobs is not None,
            )
        except (Error, ValueError, TypeError, OverflowError) as error:
            job.listener.on_error(error)
            return
        self._jobs[sequence] = job
        if params.prompt_logprobs is not None:
            job.prompt_logprobs = [None] * len(job.prompt)
        if params.beam_width:
            job.beams = BeamSearch(self._state(job), sequence)
        else:
            self._add_branch(job, sequence, 0, text)

    def _add_branch(self, job: Job, sequence: int, index: int, text: Any) -> None:
        completion = Completion(index, logprobs=None if job.params.logprobs is None else [])
        state = job.live[0].state.fork(index) if job.live else self._state(job)
        job.live.append(Branch(job, sequence, completion, state, text))
        self._branches.setdefault(sequence, job.live[-1])

    def _state(self, job: Job) -> SamplingState:
        stops = self._vocabulary.stop_ids(job.params)
        grammar = None if job.grammar is None else job.grammar.start(stops)
        return SamplingState(job.params, job.prompt, stop_ids=stops, seed=job.seed, grammar=grammar)

    def drop_unwanted(self) -> None:
        """Abort the jobs that nobody waits for."""
        for job in self._all_jobs():
            if not job.listener.is_wanted():
                self.abort(job)

    def abort(self, job: Job) -> None:
        """End a job with what it has. One that is not inside is left alone."""
        if job.beams is not None and job in self._all_jobs():
            self._end_beams(job, "abort")
        for branch in list(job.live):
            self._scheduler.abort(branch.sequence)
            self._end_branch(branch, "abort")

    def fail(self, job: Job, error: BaseException) -> None:
        """End a job with an error; what it computed may be wrong, so that nobody shares it."""
        for sequence in [sequence for sequence, owner in self._jobs.items() if owner is job]:
            self._scheduler.fail(sequence)
            self._forget(sequence)
        job.live.clear()
        job.listener.on_error(error)

    def fail_rows(self, plan: StepPlan, error: BaseException) -> None:
        """Fail whoever was in a step."""
        for job in {self._jobs[sequence] for sequence in plan.sequences if sequence in self._jobs}:
            self.fail(job, error)
        self._scheduler.discard(plan)

    def fail_all(self, error: BaseException) -> None:
        """Fail every job."""
        for job in self._all_jobs():
            self.fail(job, error)

    def _all_jobs(self) -> Iterable[Job]:
        return dict.fromkeys(self._jobs.values())

    def _forget(self, sequence: int) -> None:
        self._jobs.pop(sequence, None)
        self._branches.pop(sequence, None)

    # --- a step ---

    def note_plan(self, plan: StepPlan) -> None:
        """Learn which jobs begin with this step, and which end without a row in it."""
        for sequence, reason in plan.ended:
            job = self._jobs.get(sequence)
            if job is None:
                continue  # a beam whose search ended with another one of it
            if job.beams is not None:
                self._end_beams(job, reason)
            else:
                self._end_branch(self._branches[sequence], reason)
        now = time.perf_counter()
        for row in range(plan.num_decode_rows, plan.num_rows):
            job = self._jobs[plan.sequences[row]]
            if not job.started_at:
                job.started_at = now
                job.num_cached = plan.positions[plan.query_starts[row]]  # what lies before was there

    def settle(self, plan: StepPlan, logits: torch.Tensor) -> None:
        """Sample for every sequence that may, and tell the scheduler and the listeners."""
        note_prompt_logprobs(plan, logits, self._jobs)
        branches: list[Branch] = []
        rows: list[int] = []
        beams: dict[Job, dict[int, int]] = {}
        for sequence, row in zip(plan.sample_sequences, plan.sample_logits, strict=True):
            job = self._jobs.get(sequence)
            if job is None:
                continue  # aborted since the step was planned
            if job.beams is not None:
                beams.setdefault(job, {})[sequence] = row
                continue
            for branch in self._branches_of(job, sequence):
                branches.append(branch)
                rows.append(row)
        states = [branch.state for branch in branches]
        sampled = sample(logits, states, rows, grammar_masks(states))
        for place, reason in sampled.errors.items():
            if branches[place].sequence in self._jobs:
                grammar = states[place].grammar
                problem = "" if grammar is None else grammar.problem
                self.fail(branches[place].job, _no_token(branches[place].job, problem or reason))
        kept = [place for place, branch in enumerate(branches) if branch.sequence in self._jobs]
        parents = [branches[place].sequence for place in kept]
        tokens = [sampled.tokens[place] for place in kept]
        proposals = self._propose(beams, logits, parents, tokens)
        settled = self._scheduler.commit(plan, parents, tokens)
        for place, (sequence, reason) in zip(kept, settled[: len(kept)], strict=True):
            self._take(branches[place], sequence, reason, sampled, place)
        for job, start, end in proposals:
            self._take_beams(job, settled[start:end])

    def _branches_of(self, job: Job, sequence: int) -> list[Branch]:
        """Return who samples from this sequence's logits: all `n` branches the first time, then one."""
        if not job.has_forked:
            job.has_forked = True
            for index in range(1, job.params.n):
                self._add_branch(job, sequence, index, self._vocabulary.text_stream(job.params))
            return list(job.live)
        return [self._branches[sequence]]

    def _take(self, branch: Branch, sequence: int, reason: str, sampled: Sampled, place: int) -> None:
        job = branch.job
        if not job.first_token_at:
            job.first_token_at = time.perf_counter()
        branch.sequence = sequence
        self._jobs[sequence] = job
        self._branches[sequence] = branch
        token = sampled.tokens[place]
        is_shown = reason != "stop" or job.params.include_stop_str_in_output
        stopped = branch.add(token, is_shown, sampled.logprobs[place])
        if stopped is not None or (branch.state.is_complete and reason != "stop"):
            if not reason:
                self._scheduler.finish(sequence)
            self._end_branch(branch, "stop", stopped)
        elif reason:
            is_own_end = reason == "stop" and token in self._vocabulary.eos_ids and not job.params.ignore_eos
            self._end_branch(branch, reason, token if reason == "stop" and not is_own_end else None)
        else:
            branch.deliver()

    def _end_branch(self, branch: Branch, reason: str, stop_reason: str | int | None = None) -> None:
        job = branch.job
        branch.end(reason, stop_reason)
        branch.deliver()
        job.live.remove(branch)
        job.ended.append(branch.completion)
        self._forget(branch.sequence)
        if not job.live:
            job.listener.on_end(job.generation())

    # --- beams ---

    def _propose(
        self, beams: dict[Job, dict[int, int]], logits: torch.Tensor, parents: list[int], tokens: list[int]
    ) -> list[tuple[Job, int, int]]:
        """Append what the beams choose. Returns which places of the two lists belong to which job."""
        places: list[tuple[Job, int, int]] = []
        for job, rows in beams.items():
            assert job.beams is not None
            if not bool(logits[list(rows.values())].amax(-1).isfinite().all()):
                self.fail(job, _no_token(job, "the model's logits are not finite"))
                continue
            proposal = job.beams.propose(logits, rows)
            if job.beams.is_stuck:
                self.fail(job, _no_token(job, "no token is left that may come next"))
                continue
            places.append((job, len(parents), len(parents) + len(proposal)))
            parents += [sequence for sequence, _ in proposal]
            tokens += [token for _, token in proposal]
        return places

    def _take_beams(self, job: Job, settled: list[tuple[int, str]]) -> None:
        assert job.beams is not None
        job.first_token_at = job.first_token_at or time.perf_counter()
        for sequence in [sequence for sequence, owner in self._jobs.items() if owner is job]:
            self._forget(sequence)
        is_over = job.beams.settle(settled)
        self._jobs.update((beam.sequence, job) for beam in job.beams.live)
        if is_over:
            self._end_beams(job, "length")

    def _end_beams(self, job: Job, reason: str) -> None:
        """End a search; `reason` is that of the beams that have not ended by themselves."""
        assert job.beams is not None
        for beam in job.beams.live:
            self._scheduler.abort(beam.sequence)
            self._forget(beam.sequence)
        for index, beam in enumerate(job.beams.best(reason)):
            text = self._vocabulary.text_stream(job.params)
            shown = beam.token_ids if beam.stop_reason is None else beam.token_ids[:-1]
            whole = "" if text is None else "".join([*map(text.push, shown), text.flush()])
            stop_reason = None if beam.stop_reason in self._vocabulary.eos_ids else beam.stop_reason
            job.ended.append(
                Completion(index, whole, beam.token_ids, beam.finish_reason, stop_reason, None, beam.logprob)
            )
        job.listener.on_end(job.generation())


def _no_token(job: Job, reason: str) -> RequestError:
    place = len(job.prompt) + max((len(branch.completion.token_ids) for branch in job.live), default=0)
    return RequestError(
        f"there is no token {place}: {reason}",
        code="llm-no-token",
        help="if nothing in `sampling` forbids all tokens, the number format may not suit the weights: "
        'try `dtype = "float32"`',
    )
