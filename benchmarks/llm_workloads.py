"""The workloads of `llm.py`: token ids in, so many tokens out, always greedy and never ended by the model.

Only the standard library is imported: the environments of the peers load this file too.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

Ids = list[int]


@dataclass
class Answer:
    """What came of one request: its tokens, and the seconds until the first one, if the peer tells."""

    token_ids: Ids
    first_token_s: float


@dataclass
class Workload:
    """Requests that come at once: prompts, and how many tokens each is to be given."""

    prompts: list[Ids]
    max_tokens: list[int] = field(default_factory=list)

    @property
    def num_prompt_tokens(self) -> int:
        return sum(map(len, self.prompts))

    @property
    def num_output_tokens(self) -> int:
        return sum(self.max_tokens)


Serve = Callable[[Workload], list[Answer]]


def ids(count: int, seed: int) -> Ids:
    """Return `count` tokens that are no special ones."""
    chosen = random.Random(seed)
    return [chosen.randrange(1000, 40000) for _ in range(count)]


def alone(num_prompt: int, num_output: int, seed: int = 1) -> Workload:
    return Workload([ids(num_prompt, seed)], [num_output])


def side_by_side(count: int, num_prompt: int, num_output: int) -> Workload:
    return Workload([ids(num_prompt, 100 + i) for i in range(count)], [num_output] * count)


def crowd() -> Workload:
    """Return 32 requests of uneven lengths: 2,348 prompt and 2,537 output tokens."""
    lengths = random.Random(0)
    num_prompt, num_output = ([lengths.randint(16, 128) for _ in range(32)] for _ in range(2))
    return Workload([ids(count, 200 + i) for i, count in enumerate(num_prompt)], num_output)


def shared(seed: int) -> Workload:
    """Return 16 requests that begin with the same 512 tokens."""
    prefix = ids(512, seed)
    return Workload([prefix + ids(16, 1000 * seed + i) for i in range(16)], [16] * 16)
