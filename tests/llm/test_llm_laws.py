"""The laws of the scheduler: who computes what, who makes room, how each request ends."""

from __future__ import annotations

from typing import Any

import pytest
from fake_engine import FakeEngine, Prompt, generate, scheduled

from hami.errors import RequestError

# --- a request alone ------------------------------------------------------------------------------


def test_a_request_beyond_the_pool_is_refused_and_those_behind_go_on() -> None:
    engine = FakeEngine(num_pages=4, page_size=4, max_model_len=100)
    with pytest.raises(RequestError) as caught:
        engine.add(Prompt([1] * 13))
    assert caught.value.code == "llm-prompt-pool"
    engine.add(Prompt([1] * 12, settings={"max_tokens": 1}))
    assert engine.run().outputs[0][0].reason == "length"


@pytest.mark.parametrize("length", [1, 4, 7, 9])
def test_max_tokens_is_clipped_to_what_the_model_can_hold(length: int) -> None:
    engine = generate([Prompt(list(range(length)), settings={"max_tokens": 1000})], max_model_len=10)
    assert len(engine.outputs[0][0].tokens) == 10 - length
    assert engine.outputs[0][0].reason == "length"


@pytest.mark.parametrize("max_tokens", [1, 2])
def test_max_tokens_are_exact(max_tokens: int) -> None:
    engine = generate([Prompt([1, 2, 3], settings={"max_tokens": max_tokens})])
    assert len(engine.outputs[0][0].tokens) == max_tokens


@pytest.mark.parametrize("prefix_cache", ["hash", "radix"])
@pytest.mark.parametrize("length", [4, 8, 12])
def test_a_prompt_found_whole_still_computes_its_last_token(prefix_cache: str, length: int) -> None:
    prompt = Prompt(list(range(length)), settings={"max_tokens": 6})
    engine = FakeEngine(page_size=4, prefix_cache=prefix_cache)
    engine.add(prompt)
    engine.run()
    engine.add(prompt)
    assert engine.step().num_tokens == 4  # the last page: hits are whole pages, and one must be computed
    engine.run()
    assert engine.tokens()[0] == engine.tokens()[1]


def test_one_alone_that_finds_no_page_ends_with_length() -> None:
    engine = generate([Prompt([1] * 5, settings={"max_tokens": 90})], num_pages=4, page_size=4)
    output = engine.outputs[0][0]
    assert (output.reason, len(output.tokens)) == ("length", 12 - 5 + 1)


def test_stop_ids_count_from_min_tokens_on() -> None:
    engine = FakeEngine()
    scheduler = engine.scheduler
    id = scheduler.add([1], max_tokens=9, min_tokens=3, stop_ids=[7, 8])
    for token, reason in ((7, ""), (8, ""), (8, "stop")):
        plan = scheduler.step()
        assert scheduler.commit(plan, [id], [token]) == [(id, reason)]
    assert not scheduler.has_work()


def test_a_prompt_whose_logits_are_wanted_takes_nothing_from_the_cache() -> None:
    engine = FakeEngine(max_batched_tokens=5)
    engine.add(Prompt(range(12)))
    engine.run()
    engine.add(Prompt(range(12), settings={"prompt_logits": True, "max_tokens": 2}))
    wanted = []
    engine.on_step = lambda plan: wanted.append((plan.logit_tokens.tolist(), plan.sample_logits.tolist()))
    engine.run()
    assert wanted == [([0, 1, 2, 3, 4], []), ([0, 1, 2, 3, 4], []), ([0, 1], [1]), ([0], [0])]


# --- the prefix cache -----------------------------------------------------------------------------


@pytest.mark.parametrize("prefix_cache", ["hash", "radix"])
def test_a_prefix_shared_by_requests_that_come_together_is_computed_once(prefix_cache: str) -> None:
    prompts = [Prompt([*range(40), 41 + i], settings={"max_tokens": 3}) for i in range(6)]
    engine = generate(prompts, page_size=8, prefix_cache=prefix_cache, max_batched_tokens=512)
    assert sum(engine.num_tokens_of) == 40 + 6 + 6 * 2


def test_a_shared_prefix_of_512_tokens_is_computed_once_for_16_requests() -> None:
    prompts = [
        Prompt([*range(512), *range(600 + 16 * i, 616 + 16 * i)], settings={"max_tokens": 1})
        for i in range(16)
    ]
    settings = {"num_pages": 200, "page_size": 16, "max_model_len": 1024, "max_running": 16}
    for budget in (512, 2048):
        engine = generate(prompts, max_batched_tokens=budget, **settings)
        assert sum(engine.num_tokens_of) == 512 + 16 * 16


def test_nobody_waits_for_a_prefix_that_saves_no_page() -> None:
    prompts = [Prompt([*range(7), 20 + i], settings={"max_tokens": 1}) for i in range(4)]
    engine = generate(prompts, page_size=8, max_batched_tokens=512)
    assert engine.num_tokens_of == [32]


def test_nobody_waits_forever_for_the_prefix_of_another() -> None:
    engine = FakeEngine(page_size=4, max_batched_tokens=8, max_model_len=100)
    engine.add(Prompt(range(80)))
    second = engine.add(Prompt([*range(8), 9, 9], settings={"max_tokens": 1}))
    steps = 0
    while second in engine.live:
        engine.step()
        steps += 1
    assert steps < 14


def test_two_salts_share_nothing() -> None:
    engine = FakeEngine()
    for salt in ("a", "b", "", "a"):
        engine.add(Prompt(range(20), settings={"salt": salt, "max_tokens": 1}))
        engine.run()
    assert engine.num_tokens_of == [20, 20, 20, 4]


def test_one_preempted_comes_back_on_its_own_pages() -> None:
    engine = FakeEngine(num_pages=9, page_size=4, max_model_len=40)
    engine.add(Prompt(range(12), settings={"max_tokens": 12}))
    engine.add(Prompt(range(30, 42), settings={"max_tokens": 8}))
    engine.run()
    stats = engine.scheduler.stats()
    assert stats["num_preempted_recompute"] > 0
    assert stats["prefix_hit_tokens"] > 0


def test_a_page_that_a_request_has_found_is_not_evicted_under_it() -> None:
    engine = FakeEngine(num_pages=11, page_size=4, max_model_len=44)
    engine.add(Prompt(range(16), settings={"max_tokens": 1}))
    engine.run()
    engine.add(Prompt([*range(16), 17], settings={"max_tokens": 20}))
    engine.add(Prompt(range(60, 80), settings={"max_tokens": 20}))
    engine.run()
    alone = generate([engine.prompts[1]]).tokens()[0]
    assert engine.tokens()[1] == alone


def test_after_a_reset_nothing_computed_before_is_found() -> None:
    engine = FakeEngine(page_size=4)
    engine.add(Prompt(range(20), settings={"max_tokens": 20}))
    engine.step()
    engine.scheduler.reset_prefix_cache()
    engine.run()
    assert engine.scheduler.stats()["pages_cached"] == 0
    engine.add(Prompt(range(20), settings={"max_tokens": 1}))
    assert engine.step().num_tokens == 20


def test_what_has_failed_is_not_cached_and_what_it_had_from_others_stays() -> None:
    engine = FakeEngine(page_size=4)
    engine.add(Prompt(range(8), settings={"max_tokens": 1}))
    engine.run()
    failing = engine.add(Prompt([*range(8), *range(30, 42)], settings={"max_tokens": 30}))
    for _ in range(6):
        engine.step()
    plan = engine.scheduler.step()
    engine.scheduler.fail(failing)
    assert engine.scheduler.commit(plan, plan.sample_sequences, [1]) == [(failing, "gone")]
    assert engine.scheduler.stats()["pages_cached"] == 2
    engine.live.clear()
    engine.add(Prompt([*range(8), *range(30, 42)], settings={"max_tokens": 1}))
    assert engine.step().num_tokens == 12


def test_what_was_finished_from_outside_is_cached() -> None:
    engine = FakeEngine(page_size=4)
    id = engine.add(Prompt(range(20), settings={"max_tokens": 30}))
    plan = engine.scheduler.step()
    engine.scheduler.finish(id)
    engine.scheduler.commit(plan, [], [])
    assert engine.scheduler.stats()["pages_cached"] == 5
    assert not engine.scheduler.has_work()


# --- the step -------------------------------------------------------------------------------------


def test_a_long_prompt_among_decodes_takes_what_the_budget_leaves() -> None:
    engine = FakeEngine(max_batched_tokens=16, max_model_len=200)
    running = [engine.add(Prompt([i], settings={"max_tokens": 60})) for i in range(4)]
    engine.step()
    engine.add(Prompt(range(100), settings={"max_tokens": 1}))
    shares = []
    engine.on_step = lambda plan: shares.append(
        (plan.num_decode_rows, plan.num_tokens, plan.sequences.tolist()[:4])
    )
    for _ in range(8):
        engine.step()
    assert shares == [(4, 16, running)] * 8


def test_prefill_first_lets_decodes_wait_and_the_others_do_not() -> None:
    for policy, decodes in (("prefill_first", 0), ("fcfs", 5)):
        engine = FakeEngine(policy=policy, max_batched_tokens=16)
        first = engine.add(Prompt([1], settings={"max_tokens": 60}))
        engine.step()
        engine.add(Prompt(range(75), settings={"max_tokens": 1}))
        rows = [id for _ in range(5) for id in scheduled(engine)]
        assert rows.count(first) == decodes


def test_a_percent_of_the_pages_stays_free_of_new_requests() -> None:
    settings = {"num_pages": 200, "page_size": 1, "max_model_len": 300, "max_batched_tokens": 300}
    engine = FakeEngine(**settings)
    engine.add(Prompt([1], settings={"max_tokens": 9}))
    engine.add(Prompt([2] * 197))
    assert len(scheduled(engine)) == 1  # 199 pages, 1 in use, 2 kept back
    engine = FakeEngine(**settings)
    engine.add(Prompt([1], settings={"max_tokens": 9}))
    engine.add(Prompt([2] * 196))
    assert len(scheduled(engine)) == 2


def test_rows_are_reserved_for_the_forks_of_a_request() -> None:
    engine = FakeEngine(max_running=4)
    wide = engine.add(Prompt([1], n=3, settings={"max_tokens": 2}))
    single = engine.add(Prompt([2], settings={"max_tokens": 9}))
    other = engine.add(Prompt([3], settings={"max_tokens": 9}))
    assert scheduled(engine) == [wide, single]
    engine.step()
    assert sorted(scheduled(engine)) == [single, other]


# --- who makes room -------------------------------------------------------------------------------


def pressed(preempt: str = "recompute", **settings: Any) -> FakeEngine:
    """Two requests that cannot both grow."""
    swap_pages = 20 if preempt == "swap" else 0
    return FakeEngine(
        **{
            "num_pages": 9,
            "page_size": 4,
            "max_model_len": 40,
            "preempt": preempt,
            "num_swap_pages": swap_pages,
            **settings,
        }
    )


def first_victim(engine: FakeEngine) -> int:
    before = set(engine.live)
    while True:
        rows = set(scheduled(engine))
        stats = engine.scheduler.stats()
        if stats["num_preempted_recompute"] + stats["num_preempted_swap"]:
            (victim,) = before - rows
            return victim


@pytest.mark.parametrize("preempt", ["recompute", "swap"])
def test_the_latest_makes_room(preempt: str) -> None:
    engine = pressed(preempt)
    engine.add(Prompt(range(10), settings={"max_tokens": 20}))
    last = engine.add(Prompt(range(20, 30), settings={"max_tokens": 20}))
    assert first_victim(engine) == last


def test_the_lowest_priority_makes_room() -> None:
    engine = pressed(policy="priority")
    low = engine.add(Prompt(range(10), settings={"max_tokens": 20, "priority": 0}))
    engine.add(Prompt(range(20, 30), settings={"max_tokens": 20, "priority": 1}))
    assert first_victim(engine) == low


def test_swapped_ones_come_back_before_new_ones_enter() -> None:
    engine = pressed("swap")
    engine.add(Prompt(range(10), settings={"max_tokens": 20}))
    last = engine.add(Prompt(range(20, 30), settings={"max_tokens": 20}))
    victim = first_victim(engine)
    new = engine.add(Prompt([1], settings={"max_tokens": 1}))
    seen: list[int] = []
    while new in engine.live:
        seen += scheduled(engine)
    assert victim == last
    assert seen.index(victim) <= seen.index(new)


def test_one_preempted_often_is_spared() -> None:
    tokens = []
    for max_preemptions in (0, 1, 100):
        engine = pressed(max_preemptions=max_preemptions, num_pages=8)
        for i in range(3):
            engine.add(Prompt([i] * 6, settings={"max_tokens": 18}))
        tokens.append(engine.run().tokens())
        num = engine.scheduler.stats()["num_preempted_recompute"]
        if max_preemptions == 1:
            assert 0 < num <= 6
    assert tokens[0] == tokens[1] == tokens[2]


@pytest.mark.parametrize("preempt", ["recompute", "swap"])
@pytest.mark.parametrize("prefix_cache", ["none", "radix"])
def test_forks_that_make_room_for_each_other_end_with_the_tokens_they_have_alone(
    preempt: str, prefix_cache: str
) -> None:
    prompt = Prompt(range(9), n=4, settings={"max_tokens": 18})
    engine = pressed(preempt, prefix_cache=prefix_cache, num_pages=13)
    engine.add(prompt)
    engine.run()
    stats = engine.scheduler.stats()
    assert stats["num_preempted_recompute"] + stats["num_preempted_swap"] > 0
    assert engine.tokens() == generate([prompt]).tokens()


@pytest.mark.parametrize("preempt", ["recompute", "swap"])
def test_a_sequence_can_be_aborted_in_every_state_and_twice(preempt: str) -> None:
    engine = pressed(preempt, max_running=2)
    ids = [engine.add(Prompt(range(i, i + 10), settings={"max_tokens": 20})) for i in range(0, 30, 10)]
    while not engine.scheduler.stats()["num_preempted_" + preempt]:
        engine.step()
    for id in [*ids, 10**12, -1]:
        engine.scheduler.abort(id)
        engine.scheduler.abort(id)
        engine.live.pop(id, None)
    stats = engine.scheduler.stats()
    assert not engine.scheduler.has_work()
    assert (stats["waiting"], stats["running"], stats["swapped"]) == (0, 0, 0)
    assert stats["pages_referenced"] == 0
    assert engine.step().num_rows == 0


def test_two_schedulers_know_nothing_of_each_other() -> None:
    first, second = FakeEngine(), FakeEngine()
    ids = [engine.add(Prompt([1, 2, 3], settings={"max_tokens": 3})) for engine in (first, second)]
    assert ids == [0, 0]
    first.step()
    assert second.scheduler.stats()["num_steps"] == 0
    assert first.run().tokens() == second.run().tokens()
