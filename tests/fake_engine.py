"""An engine of a few lines around `LlmScheduler` and `FakeModel`: what laws about tokens are checked with.

Tokens are drawn by a hash of the logits, the request's seed, the number of the fork and the position, so that
they depend on nothing but the request.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hami._core import FakeModel, LlmScheduler, StepPlan

VOCAB_SIZE = 50


@dataclass
class Prompt:
    """What is asked of the engine."""

    ids: Sequence[int]
    n: int = 1
    seed: int = 0
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass
class Output:
    """What one of the n sequences of a prompt has become."""

    prompt: int
    fork: int
    tokens: list[int] = field(default_factory=list)
    reason: str = ""


class FakeEngine:
    """Steps until nothing is left; `outputs` has the n sequences of each prompt, in order."""

    def __init__(self, **settings: Any) -> None:
        settings = {"num_pages": 200, "page_size": 4, "max_model_len": 200, "max_running": 16} | settings
        self.scheduler = LlmScheduler(**settings)
        self.model = FakeModel(
            VOCAB_SIZE, settings["num_pages"], settings["page_size"], settings.get("num_swap_pages", 0)
        )
        self.prompts: list[Prompt] = []
        self.live: dict[int, Output] = {}
        self.outputs: list[list[Output]] = []
        self.num_tokens_of: list[int] = []
        self.on_step: Callable[[StepPlan], None] | None = None

    def add(self, prompt: Prompt) -> int:
        id = self.scheduler.add(prompt.ids, width=prompt.n, **prompt.settings)
        self.live[id] = Output(len(self.prompts), 0)
        self.prompts.append(prompt)
        self.outputs.append([])
        return id

    def draw(self, output: Output, logits: memoryview, position: int) -> int:
        seed = self.prompts[output.prompt].seed
        key = f"{seed} {output.fork} {position}".encode()
        digest = hashlib.blake2b(logits.tobytes() + key, digest_size=8).digest()
        return int.from_bytes(digest, "little") % VOCAB_SIZE

    def step(self) -> StepPlan:
        plan = self.scheduler.step()
        for id, reason in plan.ended:
            self.end(self.live.pop(id), reason)
        self.num_tokens_of.append(plan.num_tokens)
        if plan.num_rows == 0:
            return plan
        logits = self.model.run(plan)
        if self.on_step is not None:
            self.on_step(plan)
        rows = memoryview(logits.tobytes()).cast("B")
        parents, tokens, forks = array("q"), array("q"), []
        for id, row in zip(plan.sample_sequences, plan.sample_logits, strict=True):
            if id not in self.live:
                continue
            output = self.live[id]
            prompt = self.prompts[output.prompt]
            is_first = not output.tokens and output.fork == 0
            here = rows[row * VOCAB_SIZE * 4 : (row + 1) * VOCAB_SIZE * 4]
            for fork in range(prompt.n if is_first else 1):
                drawn = Output(output.prompt, fork) if fork else output
                parents.append(id)
                tokens.append(self.draw(drawn, here, len(drawn.tokens)))
                forks.append(drawn)
        for (id, reason), output, token in zip(
            self.scheduler.commit(plan, parents, tokens), forks, tokens, strict=True
        ):
            self.live[id] = output
            output.tokens.append(token)
            if reason:
                self.end(self.live.pop(id), reason)
        return plan

    def end(self, output: Output, reason: str) -> None:
        output.reason = reason
        self.outputs[output.prompt].append(output)
        self.outputs[output.prompt].sort(key=lambda each: each.fork)

    def run(self, most_steps: int = 100_000) -> FakeEngine:
        while self.scheduler.has_work():
            self.step()
            most_steps -= 1
            assert most_steps, "the engine does not come to an end"
        return self

    def tokens(self) -> list[list[list[int]]]:
        return [[output.tokens for output in outputs] for outputs in self.outputs]


def generate(prompts: Sequence[Prompt], **settings: Any) -> FakeEngine:
    """Run all prompts at once."""
    engine = FakeEngine(**settings)
    for prompt in prompts:
        engine.add(prompt)
    return engine.run()


def scheduled(engine: FakeEngine) -> list[int]:
    """Return who has a row in the next step."""
    rows: list[int] = []
    engine.on_step = lambda plan: rows.extend(plan.sequences)
    engine.step()
    return rows
