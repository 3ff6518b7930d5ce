"""Requests whose sequences sample together: a beam search finds the same beams however short pages are."""

from __future__ import annotations

import random
from typing import Any

import pytest
from fake_engine import VOCAB_SIZE

from hami._core import FakeModel, LlmScheduler
from hami.errors import RequestError

WIDTH = 3
LENGTH = 14
Beam = tuple[float, tuple[int, ...]]


class BeamEngine:
    """Beam searches of `WIDTH`, all `LENGTH` tokens long, several at a time."""

    def __init__(self, **settings: Any) -> None:
        settings = {"num_pages": 200, "page_size": 4, "max_model_len": 60, "max_running": 12} | settings
        self.scheduler = LlmScheduler(**settings)
        self.model = FakeModel(
            VOCAB_SIZE, settings["num_pages"], settings["page_size"], settings.get("num_swap_pages", 0)
        )
        self.searches: list[dict[int, Beam]] = []
        self.found: list[list[Beam]] = []
        self.ended: list[int] = []

    def add(self, ids: list[int]) -> None:
        id = self.scheduler.add(ids, max_tokens=LENGTH, width=WIDTH, together=True)
        self.searches.append({id: (0.0, ())})
        self.found.append([])

    def step(self) -> None:
        plan = self.scheduler.step()
        self.ended += [id for id, _ in plan.ended]
        for search in self.searches:
            for id, _ in plan.ended:
                search.pop(id, None)
        if plan.num_rows == 0:
            return
        logits = self.model.run(plan).tolist()
        rows = dict(zip(plan.sample_sequences.tolist(), plan.sample_logits.tolist(), strict=True))
        chosen: list[tuple[int, int, Beam, int]] = []
        for number, search in enumerate(self.searches):
            sampling = [id for id in search if id in rows]
            assert sampling in ([], list(search))
            grown = [
                (score + logit, (*tokens, token), id)
                for id, (score, tokens) in search.items()
                if id in rows
                for token, logit in enumerate(logits[rows[id]])
            ]
            for score, tokens, id in sorted(grown, key=lambda beam: -beam[0])[:WIDTH]:
                chosen.append((id, tokens[-1], (score, tokens), number))
            if sampling:
                search.clear()
        parents, tokens_ = [each[0] for each in chosen], [each[1] for each in chosen]
        results = self.scheduler.commit(plan, parents, tokens_)
        for (id, reason), (_, _, beam, number) in zip(results, chosen, strict=True):
            if reason:
                self.found[number].append(beam)
            else:
                self.searches[number][id] = beam

    def run(self) -> list[list[Beam]]:
        for _ in range(10_000):
            if not self.scheduler.has_work():
                return self.found
            self.step()
        raise AssertionError("the searches do not end")


def prompts() -> list[list[int]]:
    rng = random.Random(9)
    return [[rng.randrange(VOCAB_SIZE) for _ in range(rng.randint(1, 12))] for _ in range(6)]


@pytest.mark.parametrize("prefix_cache", ["none", "hash", "radix"])
@pytest.mark.parametrize("preempt", ["recompute", "swap"])
@pytest.mark.parametrize("max_batched_tokens", [3, 7, 64])
@pytest.mark.parametrize("policy", ["fcfs", "fair", "prefill_first"])
def test_beams_are_the_same_under_pressure(
    prefix_cache: str, preempt: str, max_batched_tokens: int, policy: str
) -> None:
    expected = []
    for ids in prompts():
        alone = BeamEngine()
        alone.add(ids)
        expected += alone.run()
    assert all(len(beams) == WIDTH for beams in expected)
    engine = BeamEngine(
        num_pages=27,
        prefix_cache=prefix_cache,
        preempt=preempt,
        num_swap_pages=30 if preempt == "swap" else 0,
        max_batched_tokens=max_batched_tokens,
        policy=policy,
    )
    for ids in prompts():
        engine.add(ids)
    assert engine.run() == expected
    assert engine.ended == []
    if max_batched_tokens == 64:
        assert engine.scheduler.stats()["num_preempted_recompute"] > 0


def test_a_search_alone_that_cannot_grow_loses_a_sequence_and_goes_on() -> None:
    engine = BeamEngine(num_pages=7)
    engine.add([1, 2, 3])
    engine.run()
    assert engine.ended
    assert engine.found[0]


def test_a_group_wider_than_a_step_is_refused() -> None:
    scheduler = LlmScheduler(num_pages=20, max_batched_tokens=2)
    with pytest.raises(RequestError, match="`max_batched_tokens` is `2`") as caught:
        scheduler.add([1], width=3, together=True)
    assert caught.value.code == "llm-width"
    scheduler.add([1], width=3)
