"""The sampler: what is drawn follows the parameters, and depends on nothing but a row's own request."""

from __future__ import annotations

import random
from typing import Any

import pytest
from llm_sampling import random_logits, state, torch, wanted_probabilities

from hami.backends.llm.randomness import uniforms
from hami.backends.llm.sampler import sample

SHAPES: list[dict[str, Any]] = [
    {},
    {"temperature": 0.5},
    {"temperature": 3.0},
    {"top_k": 5},
    {"top_k": 40, "temperature": 0.7},
    {"top_p": 0.5},
    {"top_p": 0.9, "temperature": 1.5},
    {"top_p": 0.01},
    {"min_p": 0.1},
    {"min_p": 1.0},
    {"top_k": 7, "top_p": 0.6},
    {"top_k": 20, "top_p": 0.8, "min_p": 0.05, "temperature": 1.3},
    {"min_p": 0.02, "top_p": 0.7},
    {"top_k": 1000},
]


def draw_many(logits: Any, count: int, **params: Any) -> list[int]:
    """Return `count` draws at consecutive positions of one answer."""
    states = [state(seed=11, **params)]
    for position in range(1, count):
        states.append(states[0].fork(0))
        states[-1].num_output = position
    return sample(logits[None].expand(count, -1), states).tokens


@pytest.mark.parametrize("params", SHAPES, ids=str)
def test_draws_follow_the_distribution_that_is_asked_for(params: dict[str, Any]) -> None:
    logits = random_logits(1, 50, seed=3)[0]
    wanted = wanted_probabilities(logits.tolist(), **params)
    count = 20000
    tokens = draw_many(logits, count, **params)
    found = [tokens.count(token) for token in range(50)]
    assert all(number == 0 for number, share in zip(found, wanted, strict=True) if share == 0)
    expected = [share * count for share in wanted]
    many = [token for token in range(50) if expected[token] >= 5]
    square = sum((found[token] - expected[token]) ** 2 / expected[token] for token in many)
    # Chi-square: mean n, variance 2n; the draws are fixed by the seed, so this holds or does not for good.
    assert square < len(many) + 5 * (2 * len(many)) ** 0.5


def test_the_share_of_top_p_is_one_of_all_tokens() -> None:
    """Not of those that are likely enough to be looked at, which matters where there are many others."""
    logits = torch.cat([torch.tensor([8.0, 7.5, 7.0, 6.5]), torch.zeros(5000)])
    wanted = wanted_probabilities(logits.tolist(), top_p=0.4)
    tokens = draw_many(logits, 5000, top_p=0.4)
    assert set(tokens) == {token for token, share in enumerate(wanted) if share} == {0, 1}


def test_every_token_that_may_come_does_come() -> None:
    tokens = draw_many(torch.zeros(16), 2000)
    assert set(tokens) == set(range(16))


@pytest.mark.parametrize("params", [{"temperature": 0}, {"top_k": 1}, {"temperature": 1e-6}, {"top_p": 1e-9}])
def test_greedy_is_the_likeliest_token(params: dict[str, Any]) -> None:
    logits = random_logits(9, 300)
    states = [state(**params) for _ in range(9)]
    assert sample(logits, states).tokens == logits.argmax(-1).tolist()


@pytest.mark.parametrize("params", [{"temperature": 0}, {"top_k": 1}])
def test_of_equally_likely_tokens_greedy_takes_the_first(params: dict[str, Any]) -> None:
    logits = torch.zeros(1, 50)
    logits[0, [7, 13, 44]] = 5.0
    assert sample(logits, [state(**params)]).tokens == [7]


def test_tokens_as_likely_as_the_last_of_top_k_stay() -> None:
    logits = torch.tensor([3.0, 1.0, 1.0, 1.0, 0.0])
    assert set(draw_many(logits, 500, top_k=2)) == {0, 1, 2, 3}


def mixed_requests(count: int, seed: int) -> list[dict[str, Any]]:
    """Return the parameters of requests of all kinds."""
    chance = random.Random(seed)
    kinds = [*SHAPES, {"temperature": 0}, {"top_k": 1}, {"presence_penalty": 1.0}, {"logit_bias": {3: 5.0}}]
    return [{**chance.choice(kinds), "seed": chance.randrange(1 << 64)} for _ in range(count)]


@pytest.mark.parametrize("vocab", [64, 5000])
def test_what_is_drawn_does_not_depend_on_the_others_nor_on_their_order(vocab: int) -> None:
    requests = mixed_requests(24, seed=vocab)
    logits = random_logits(24, vocab, seed=9).bfloat16().float()  # as bfloat16 gives them: many are equal
    together = sample(logits, [state([1, 2], [3], **request) for request in requests]).tokens
    alone = [
        sample(logits[row : row + 1], [state([1, 2], [3], **request)]).tokens[0]
        for row, request in enumerate(requests)
    ]
    order = random.Random(1).sample(range(24), 24)
    shuffled = sample(logits[order], [state([1, 2], [3], **requests[row]) for row in order]).tokens
    assert together == alone
    assert shuffled == [together[row] for row in order]


def test_the_same_seed_draws_the_same_and_another_differs() -> None:
    logits = random_logits(40, 200)

    def drawn(seed: int | None) -> list[int]:
        states = [state(seed=seed) for _ in range(40)]
        for position, each in enumerate(states):
            each.num_output = position
        return sample(logits, states).tokens

    assert drawn(5) == drawn(5)
    assert drawn(5) != drawn(6)
    assert drawn(None) != drawn(None)
    assert drawn(-1) == drawn((1 << 64) - 1)


def test_answers_of_one_request_differ() -> None:
    first = state(seed=1)
    states = [first, *[first.fork(answer) for answer in range(1, 12)]]
    tokens = sample(torch.zeros(1, 500), states, rows=[0] * 12).tokens
    assert len(set(tokens)) == 12


def test_rows_may_be_named_in_any_order_and_more_than_once() -> None:
    logits = random_logits(3, 40)
    states = [state(temperature=0) for _ in range(4)]
    best = logits.argmax(-1).tolist()
    assert sample(logits, states, rows=[2, 0, 0, 1]).tokens == [best[2], best[0], best[0], best[1]]


def test_nothing_to_sample_is_nothing() -> None:
    assert sample(torch.empty(0, 10), []).tokens == []


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "params", [{"temperature": 0}, {}, {"top_p": 0.9}, {"allowed_token_ids": [1, 2]}], ids=str
)
def test_a_row_that_is_not_finite_is_reported_and_the_others_are_drawn(
    params: dict[str, Any], bad: float
) -> None:
    logits = random_logits(3, 30)
    clean = sample(logits, [state(seed=1, **params) for _ in range(3)]).tokens
    logits[1, 17] = bad
    result = sample(logits, [state(seed=1, logprobs=1, **params) for _ in range(3)])
    assert list(result.errors) == [1] and "not finite" in result.errors[1]
    assert result.tokens == [clean[0], -1, clean[2]]
    assert result.logprobs[1] is None and result.logprobs[0] is not None


def test_a_row_without_any_token_left_is_reported() -> None:
    states = [state(allowed_token_ids=[4], min_tokens=1, stop_ids=[4]), state(temperature=0)]
    result = sample(random_logits(2, 10), states)
    assert list(result.errors) == [0] and "no token is left" in result.errors[0]


def test_a_row_of_minus_infinity_is_reported() -> None:
    assert list(sample(torch.full((1, 4), -torch.inf), [state()]).errors) == [0]


def test_logits_are_left_as_they_were() -> None:
    logits = random_logits(4, 30)
    before = logits.clone()
    sample(logits, [state([1], [2], repetition_penalty=2.0, top_p=0.5, logit_bias={1: 9}) for _ in range(4)])
    assert torch.equal(logits, before)


def test_huge_logits_and_tiny_temperatures_do_not_overflow() -> None:
    logits = torch.tensor([[3e38, -3e38, 0.0]])
    assert sample(logits, [state(temperature=1e-4)]).tokens == [0]
    assert sample(logits, [state(temperature=1e-4, top_p=0.9)]).tokens == [0]


@pytest.mark.parametrize("params", [{}, {"top_k": 50}, {"top_p": 0.9}], ids=str)
def test_a_token_of_no_probability_is_never_drawn(params: dict[str, Any]) -> None:
    logits = torch.full((64,), -torch.inf)
    logits[[5, 60]] = 1.0
    assert set(draw_many(logits, 3000, **params)) == {5, 60}


def test_uniform_numbers_are_uniform_and_independent() -> None:
    count = 50000
    for seeds, answers, positions in (
        (range(count), [0] * count, [0] * count),
        ([7] * count, range(count), [3] * count),
        ([7] * count, [0] * count, range(count)),
    ):
        numbers = uniforms(seeds, answers, positions)
        assert numbers.min() >= 0 and numbers.max() < 1
        assert abs(numbers.mean() - 0.5) < 0.005 and abs(numbers.var() - 1 / 12) < 0.002
        assert abs(((numbers[1:] - 0.5) * (numbers[:-1] - 0.5)).mean()) < 0.002
        assert len(set(numbers.tolist())) == count


def test_seed_answer_and_position_are_not_interchangeable() -> None:
    triples = [(a, b, c) for a in range(8) for b in range(8) for c in range(8)]
    seeds, answers, positions = zip(*triples, strict=True)
    assert len(set(uniforms(seeds, answers, positions).tolist())) == len(triples)
