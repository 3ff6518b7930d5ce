"""Policies: who waits for whom, and that nobody waits for ever."""

from __future__ import annotations

import pytest
from fake_engine import FakeEngine, Prompt, scheduled


@pytest.mark.parametrize("policy", ["fcfs", "priority", "fair", "shortest", "prefill_first"])
def test_a_flood_of_short_requests_does_not_starve_a_long_one(policy: str) -> None:
    engine = FakeEngine(policy=policy, max_running=4, max_batched_tokens=32, ageing_steps=10)
    settings = {"max_tokens": 40, "priority": 0, "user": "long"}

    def flood(num: int) -> None:
        for _ in range(num):
            i = len(engine.prompts)
            short = {"max_tokens": 2, "priority": 3, "user": f"user {i}"}
            engine.add(Prompt([i % 50, 3], settings=short))

    flood(8)
    for _ in range(5):
        flood(3)
        engine.step()
    long = engine.add(Prompt(range(50), settings=settings))
    steps = 0
    while long in engine.live:
        flood(3)  # more than can run
        engine.step()
        steps += 1
        assert steps < 400


def test_fair_gives_users_the_same_however_many_requests_they_send() -> None:
    engine = FakeEngine(policy="fair", max_running=2, max_batched_tokens=32)
    for _ in range(40):
        engine.add(Prompt([1, 2, 3], settings={"max_tokens": 4, "user": "many"}))
    few = [engine.add(Prompt([4, 5, 6], settings={"max_tokens": 4, "user": "few"})) for _ in range(5)]
    while any(id in engine.live for id in few):
        engine.step()
    done = sum(1 for outputs in engine.outputs[:40] if outputs)
    assert 3 <= done <= 7


def test_shortest_runs_what_is_expected_to_end_first() -> None:
    engine = FakeEngine(policy="shortest", max_running=1)
    engine.add(Prompt([1], settings={"max_tokens": 9}))
    engine.add(Prompt([2], settings={"max_tokens": 9, "expected_tokens": 3}))
    third = engine.add(Prompt([3], settings={"max_tokens": 2}))
    assert scheduled(engine) == [third]


def test_priority_runs_the_higher_first_and_waiting_is_worth_levels() -> None:
    engine = FakeEngine(policy="priority", max_running=1, ageing_steps=5)
    engine.add(Prompt([9], settings={"max_tokens": 11, "priority": 9}))
    engine.step()
    low = engine.add(Prompt([1], settings={"max_tokens": 1, "priority": 0}))
    for _ in range(6):
        engine.step()
    high = engine.add(Prompt([2], settings={"max_tokens": 1, "priority": 2}))
    one_higher = engine.add(Prompt([3], settings={"max_tokens": 1, "priority": 1}))
    order = [id for _ in range(8) for id in scheduled(engine) if id != 0]
    assert order == [high, low, one_higher]
