"""The first law of the engine: whatever the settings, every prompt gets the same tokens."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from llm_engines import fake_llm, greedy_params

from hami.backends.llm.sampling import SamplingParams

RANDOM = random.Random(7)
SHARED = [RANDOM.randrange(1, 256) for _ in range(40)]
PROMPTS = [SHARED[: RANDOM.randrange(1, 41)] + [RANDOM.randrange(1, 256)] * (i % 5) for i in range(12)]
PROMPTS += [[RANDOM.randrange(1, 256) for _ in range(RANDOM.randrange(1, 60))] for _ in range(12)]
PARAMS = [
    greedy_params(20)
    if i % 3 == 0
    else SamplingParams(max_tokens=20, temperature=0.9, seed=i, ignore_eos=True)
    for i in range(len(PROMPTS))
]


@pytest.fixture(scope="module")
def alone() -> list[list[int]]:
    """Return the tokens of each prompt, run alone with everything switched off."""
    answers = []
    for prompt, params in zip(PROMPTS, PARAMS, strict=True):
        with fake_llm(prefix_cache="none", max_running=1) as llm:
            answers.append(llm.generate([prompt], params)[0].token_ids)
    return answers


def tokens(llm: Any) -> list[list[int]]:
    return [generation.token_ids for generation in llm.generate(PROMPTS, PARAMS)]


def test_different_prompts_and_seeds_give_different_tokens(alone: list[list[int]]) -> None:
    assert len({tuple(each) for each in alone}) == len(alone)


@pytest.mark.parametrize("prefix_cache", ["none", "hash", "radix"])
@pytest.mark.parametrize("page_size", [1, 4, 16])
@pytest.mark.parametrize("max_batched_tokens", [3, 17, 256])
def test_pages_chunks_and_caches_change_nothing(
    alone: list[list[int]], prefix_cache: str, page_size: int, max_batched_tokens: int
) -> None:
    with fake_llm(
        prefix_cache=prefix_cache,
        page_size=page_size,
        max_batched_tokens=max_batched_tokens,
        num_pages=4000 // page_size,
    ) as llm:
        assert tokens(llm) == alone
        assert tokens(llm) == alone  # and once more, out of the cache
        stats = llm.stats()
        assert (stats["prefix_hit_tokens"] > 0) == (prefix_cache != "none")


@pytest.mark.parametrize("preempt", ["recompute", "swap"])
@pytest.mark.parametrize("prefix_cache", ["none", "radix", "hash"])
@pytest.mark.parametrize("num_pages", [24, 40])
def test_preemption_changes_nothing(
    alone: list[list[int]], preempt: str, prefix_cache: str, num_pages: int
) -> None:
    with fake_llm(page_size=4, num_pages=num_pages, prefix_cache=prefix_cache, preempt=preempt) as llm:
        assert tokens(llm) == alone
        stats = llm.stats()
        assert stats["num_preempted_" + preempt] > 0
        assert stats["pages_referenced"] == 0


@pytest.mark.parametrize("policy", ["fcfs", "priority", "fair", "shortest", "prefill_first"])
def test_policies_change_the_order_only(alone: list[list[int]], policy: str) -> None:
    with fake_llm(policy=policy, page_size=4, num_pages=60, max_running=3) as llm:
        assert tokens(llm) == alone


def test_answers_of_one_request_are_those_of_any_run(alone: list[list[int]]) -> None:
    params = SamplingParams(n=4, max_tokens=24, seed=3, ignore_eos=True)
    runs = []
    for settings in itertools.product([4, 16], [30, 400], ["recompute", "swap"]):
        page_size, num_pages, preempt = settings
        with fake_llm(page_size=page_size, num_pages=num_pages, preempt=preempt) as llm:
            (generation, *_) = llm.generate([PROMPTS[0], *PROMPTS[1:8]], [params, *PARAMS[1:8]])
            runs.append([each.token_ids for each in generation.outputs])
    assert all(run == runs[0] for run in runs)
    assert len({tuple(each) for each in runs[0]}) == 4
