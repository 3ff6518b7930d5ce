"""The whole engine on a real model: the tokens of Hugging Face's greedy search, whatever the settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from llm_samples import SMOLLM2, needs_smollm2

import hami

pytestmark = [needs_smollm2, pytest.mark.timeout(240)]

HERE = Path(__file__).parent
CASES: list[dict[str, Any]] = [
    case
    for name in ("smollm2_greedy.json", "smollm2_more.json")
    for case in json.loads((HERE / name).read_text()).values()
]
PROMPTS = [case["prompt_ids"] for case in CASES]
EXPECTED = [case["gen_ids"] for case in CASES]
PARAMS = [hami.SamplingParams(temperature=0, max_tokens=len(each)) for each in EXPECTED]
MODEL = {"dtype": "float32", "max_model_len": 256}


def tokens(llm: Any) -> list[list[int]]:
    return [generation.token_ids for generation in llm.generate(PROMPTS, PARAMS)]


def test_all_prompts_at_once_and_again_out_of_the_cache() -> None:
    with hami.LLM(SMOLLM2, num_pages=800, **MODEL) as llm:
        assert tokens(llm) == EXPECTED
        assert tokens(llm) == EXPECTED
        assert llm.stats()["prefix_hit_tokens"] > 0


@pytest.mark.parametrize(
    ("preempt", "prefix_cache", "page_size", "num_pages", "max_batched_tokens"),
    [("recompute", "hash", 4, 110, 24), ("swap", "radix", 8, 60, 100), ("swap", "none", 16, 34, 37)],
)
def test_chunks_pages_and_preemption_change_no_token(
    preempt: str, prefix_cache: str, page_size: int, num_pages: int, max_batched_tokens: int
) -> None:
    with hami.LLM(
        SMOLLM2,
        preempt=preempt,
        prefix_cache=prefix_cache,
        page_size=page_size,
        num_pages=num_pages,
        max_batched_tokens=max_batched_tokens,
        **MODEL,
    ) as llm:
        assert tokens(llm) == EXPECTED
        stats = llm.stats()
    assert stats["num_preempted_" + preempt] > 0
    assert stats["pages_referenced"] == 0


def test_company_that_draws_and_forks_changes_no_token() -> None:
    company = hami.SamplingParams(n=3, temperature=1.0, seed=1, max_tokens=30)
    with hami.LLM(SMOLLM2, num_pages=800, **MODEL) as llm:
        mixed = llm.generate([*PROMPTS, *PROMPTS[:4]], [*PARAMS, *[company] * 4])
    assert [generation.token_ids for generation in mixed[: len(PROMPTS)]] == EXPECTED
    assert len({tuple(each.token_ids) for each in mixed[-1].outputs}) == 3


def test_a_seed_gives_the_same_tokens_alone_in_company_and_after_preemption() -> None:
    params = hami.SamplingParams(temperature=0.8, top_p=0.9, seed=11, max_tokens=40)
    with hami.LLM(SMOLLM2, num_pages=800, **MODEL) as llm:
        (alone,) = llm.generate([PROMPTS[0]], params)
        company, *_ = llm.generate([PROMPTS[0], *PROMPTS[1:9]], [params, *PARAMS[1:9]])
    with hami.LLM(SMOLLM2, page_size=4, num_pages=40, **MODEL) as llm:
        *_, pressed = llm.generate([*PROMPTS[1:9], PROMPTS[0]], [*PARAMS[1:9], params])
        assert llm.stats()["num_preempted_recompute"] > 0
    assert alone.token_ids == company.token_ids == pressed.token_ids


def test_half_the_precision_agrees_at_first() -> None:
    with hami.LLM(SMOLLM2, num_pages=800, dtype="bfloat16", max_model_len=256) as llm:
        answers = tokens(llm)
    agreeing = [answer[:3] == expected[:3] for answer, expected in zip(answers, EXPECTED, strict=True)]
    assert sum(agreeing) >= 0.9 * len(agreeing)
