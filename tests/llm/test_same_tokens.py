"""A request's tokens are those of the request alone: no setting, batch mate or preemption changes one."""

from __future__ import annotations

import random
from typing import Any

import pytest
from fake_engine import VOCAB_SIZE, FakeEngine, Prompt, generate

from hami._core import FakeModel

ALONE = {"num_pages": 400, "max_batched_tokens": 1000, "prefix_cache": "none"}


def some_prompts() -> list[Prompt]:
    rng = random.Random(4)
    shared = [rng.randrange(VOCAB_SIZE) for _ in range(24)]
    prompts = []
    for i in range(14):
        ids = shared[: rng.choice((0, 8, 24))] + [
            rng.randrange(VOCAB_SIZE) for _ in range(rng.randint(1, 20))
        ]
        settings = {"max_tokens": rng.randint(1, 30), "salt": rng.choice(("", "b"))}
        prompts.append(Prompt(ids, n=rng.choice((1, 1, 3)), seed=i, settings=settings))
    return prompts


PROMPTS = some_prompts()


@pytest.fixture(scope="module")
def expected() -> list[list[list[int]]]:
    tokens = [generate([prompt], **ALONE).tokens()[0] for prompt in PROMPTS]
    assert len({tuple(line) for lines in tokens for line in lines}) == sum(p.n for p in PROMPTS)
    return tokens


@pytest.mark.parametrize("prefix_cache", ["none", "hash", "radix"])
@pytest.mark.parametrize("page_size", [1, 4, 16])
@pytest.mark.parametrize("max_batched_tokens", [1, 7, 64, 1000])
def test_chunk_and_page_size_and_prefix_cache_change_no_token(
    prefix_cache: str, page_size: int, max_batched_tokens: int, expected: list[list[list[int]]]
) -> None:
    engine = generate(
        PROMPTS,
        num_pages=3200 // page_size,
        page_size=page_size,
        max_batched_tokens=max_batched_tokens,
        prefix_cache=prefix_cache,
    )
    assert engine.tokens() == expected
    hits = engine.scheduler.stats()["prefix_hit_tokens"]
    assert (hits == 0) == (prefix_cache == "none")


@pytest.mark.parametrize("policy", ["fcfs", "priority", "fair", "shortest", "prefill_first", lambda _: 0.0])
@pytest.mark.parametrize(
    ("preempt", "num_swap_pages"), [("recompute", 0), ("swap", 8), ("swap", 100)], ids=str
)
@pytest.mark.parametrize("prefix_cache", ["none", "hash", "radix"])
def test_preemption_changes_no_token(
    policy: Any, preempt: str, num_swap_pages: int, prefix_cache: str, expected: list[list[list[int]]]
) -> None:
    settings = {"num_pages": 31, "max_batched_tokens": 40, "prefix_cache": prefix_cache, "policy": policy}
    engine = generate(PROMPTS, preempt=preempt, num_swap_pages=num_swap_pages, **settings)
    assert engine.tokens() == expected
    stats = engine.scheduler.stats()
    if preempt == "swap":
        assert stats["num_preempted_swap"] > 0
        assert stats["num_swapped_in"] == stats["num_preempted_swap"]
    if num_swap_pages < 100:
        assert stats["num_preempted_recompute"] > 0
    if prefix_cache != "none":
        assert stats["num_evictions"] > 0 and stats["prefix_hit_tokens"] > 0
    assert stats["num_copies"] > 0
    assert (stats["pages_referenced"], stats["waiting"], stats["swapped"]) == (0, 0, 0)
    assert stats["swap_pages_free"] == num_swap_pages


def test_requests_that_come_while_others_run_get_the_same_tokens(expected: list[list[list[int]]]) -> None:
    engine = FakeEngine(num_pages=60, max_batched_tokens=16, max_running=6)
    for prompt in PROMPTS:
        engine.add(prompt)
        engine.step()
    assert engine.run().tokens() == expected


def test_aborted_mates_and_resets_of_the_cache_change_no_token(expected: list[list[list[int]]]) -> None:
    rng = random.Random(5)
    engine = FakeEngine(num_pages=60, max_batched_tokens=16, max_running=8)
    kept: list[int] = []
    doomed = []
    for prompt in PROMPTS:
        kept.append(len(engine.prompts))
        engine.add(prompt)
        doomed.append(engine.add(Prompt(prompt.ids, settings={"max_tokens": 50})))
    while engine.scheduler.has_work():
        engine.step()
        if doomed and rng.random() < 0.3:
            id = doomed.pop(rng.randrange(len(doomed)))
            rng.choice((engine.scheduler.abort, engine.scheduler.finish, engine.scheduler.fail))(id)
            engine.live.pop(id, None)
        if rng.random() < 0.1:
            engine.scheduler.reset_prefix_cache()
    assert [engine.tokens()[index] for index in kept] == expected


def test_different_requests_give_different_tokens() -> None:
    base = Prompt([1, 2, 3], settings={"max_tokens": 8})
    others = [Prompt([1, 2, 4], settings={"max_tokens": 8}), Prompt([1, 2, 3], 1, 1, {"max_tokens": 8})]
    tokens = [tuple(generate([prompt]).tokens()[0][0]) for prompt in [base, *others]]
    assert len(set(tokens)) == 3


def test_a_fault_of_paging_changes_the_logits() -> None:
    expected = FakeModel.reference_logits([1, 2, 3, 4, 5], VOCAB_SIZE).tolist()[0]
    engine = FakeEngine()
    engine.add(Prompt([1, 2, 3, 4, 5]))
    plan = engine.scheduler.step()
    assert engine.model.run(plan).tolist()[0] == expected
    plan.token_ids[1] = 7
    assert engine.model.run(plan).tolist()[0] != expected


@pytest.mark.parametrize(
    ("field", "index", "value", "text"),
    [
        ("slots", 0, 3, "writes slot 3"),
        ("positions", 2, 9, "skips a position"),
        ("context_lens", 0, 500, "a wrong context"),
        ("context_lens", 0, -1, "a wrong context"),
        ("table_rows", 0, 99, "a wrong row of the table"),
        ("query_starts", 1, 77, "wrong tokens"),
        ("query_starts", 1, -5, "wrong tokens"),
        ("logit_tokens", 0, 6, "wants logits of token 6"),
    ],
)
def test_a_plan_that_nobody_could_run_is_refused(field: str, index: int, value: int, text: str) -> None:
    engine = FakeEngine()
    engine.add(Prompt([1, 2, 3, 4, 5]))
    plan = engine.scheduler.step()
    getattr(plan, field)[index] = value
    with pytest.raises(RuntimeError, match=text):
        engine.model.run(plan)


def test_a_page_that_two_rows_hold_may_not_be_written() -> None:
    engine = FakeEngine()
    engine.add(Prompt([1, 2]))
    engine.add(Prompt([3, 4]))
    plan = engine.scheduler.step()
    first, second = plan.table_rows
    plan.page_table[second, 0] = plan.page_table[first, 0]
    with pytest.raises(RuntimeError, match="shared one"):
        engine.model.run(plan)


def test_a_model_of_another_size_refuses_the_plan() -> None:
    engine = FakeEngine()
    engine.add(Prompt([1, 2, 3, 4, 5]))
    plan = engine.scheduler.step()
    with pytest.raises(RuntimeError):
        FakeModel(VOCAB_SIZE, 2, 4).run(plan)
    with pytest.raises(RuntimeError):
        FakeModel(VOCAB_SIZE, 200, 1).run(plan)
    with pytest.raises(ValueError, match="at least"):
        FakeModel(0, 1, 1)
