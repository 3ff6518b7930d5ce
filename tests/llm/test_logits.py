"""What requests change in their logits: biases, bans, allowed tokens, penalties; held against plain rules."""

from __future__ import annotations

import random
from typing import Any

import pytest
from llm_sampling import random_logits, state, torch, wanted_logits

from hami.backends.llm.logits import edited
from hami.backends.llm.sampler import sample

VOCAB = 40


def penalties(chance: random.Random) -> dict[str, Any]:
    return {
        "repetition_penalty": chance.choice([1.0, 0.8, 1.3, 2.0]),
        "presence_penalty": chance.choice([0.0, 0.7, -1.5]),
        "frequency_penalty": chance.choice([0.0, 0.4, -0.9]),
        "logit_bias": chance.choice([{}, {3: 2.5, 9: -100.0}]),
    }


@pytest.mark.parametrize("seed", range(20))
def test_bias_and_penalties_follow_their_definitions(seed: int) -> None:
    chance = random.Random(seed)
    logits = random_logits(6, VOCAB, seed=seed)
    rows = [
        (
            [chance.randrange(VOCAB) for _ in range(9)],
            [chance.randrange(VOCAB) for _ in range(chance.randrange(30))],
        )
        for _ in range(6)
    ]
    params = [penalties(chance) for _ in range(6)]
    found = edited(logits, [state(*row, **each) for row, each in zip(rows, params, strict=True)])
    for row, (tokens, each) in enumerate(zip(rows, params, strict=True)):
        wanted = wanted_logits(logits[row].tolist(), *tokens, **each)
        torch.testing.assert_close(found[row], torch.tensor(wanted), rtol=1e-5, atol=1e-5)


def test_repetition_counts_the_prompt_and_the_others_do_not() -> None:
    logits = torch.ones(1, 4)
    assert edited(logits, [state([2], [], repetition_penalty=2.0)])[0].tolist() == [1, 1, 0.5, 1]
    assert edited(logits, [state([2], [], presence_penalty=2.0, frequency_penalty=1.0)])[0].tolist() == [
        1,
        1,
        1,
        1,
    ]
    assert edited(logits, [state([], [2, 2], frequency_penalty=1.0)])[0].tolist() == [1, 1, -1, 1]
    assert edited(logits, [state([], [2, 2], presence_penalty=1.0)])[0].tolist() == [1, 1, 0, 1]


def test_a_row_without_wishes_keeps_its_logits_bit_by_bit() -> None:
    logits = random_logits(3, VOCAB)
    plain = [state() for _ in range(3)]
    assert edited(logits, plain) is logits
    changed = edited(logits, [plain[0], state([], [1], presence_penalty=1.0), plain[2]])
    assert torch.equal(changed[[0, 2]], logits[[0, 2]]) and not torch.equal(changed[1], logits[1])


def test_allowed_tokens_are_the_only_ones_left() -> None:
    logits = random_logits(1, VOCAB)
    found = edited(logits, [state(allowed_token_ids=[5, 6])])[0]
    assert found.isfinite().nonzero()[:, 0].tolist() == [5, 6]
    assert torch.equal(found[5:7], logits[0, 5:7])


def test_stops_are_banned_until_there_are_min_tokens() -> None:
    logits = torch.zeros(1, 8)
    logits[0, 3] = 10
    sequence = state(temperature=0, min_tokens=2, stop_ids=[3, 4])
    tokens = []
    for _ in range(4):
        tokens += sample(logits, [sequence]).tokens
        sequence.append(tokens[-1])
    assert tokens == [0, 0, 3, 3]


def test_a_mask_allows_what_a_grammar_says() -> None:
    logits = random_logits(2, VOCAB)
    mask = torch.zeros(VOCAB, dtype=torch.bool)
    mask[8] = True
    result = sample(logits, [state(), state(temperature=0)], masks={0: mask})
    assert result.tokens == [8, int(logits[1].argmax())]


def test_bias_comes_before_penalties_as_in_vllm() -> None:
    logits = torch.tensor([[-1.0, 0.0]])
    found = edited(logits, [state([0], [], repetition_penalty=2.0, logit_bias={0: 3.0})])
    assert found[0, 0].item() == 1.0  # (-1 + 3) / 2, not -1 * 2 + 3


def test_counts_grow_with_the_answer_and_forks_keep_their_own() -> None:
    first = state([1], [], frequency_penalty=1.0)
    for token in range(200):
        first.append(token % 50)
    second = first.fork(1)
    second.append(7)
    logits = torch.zeros(1, 60)
    assert edited(logits, [first])[0, :50].tolist() == [-4.0] * 50
    assert edited(logits, [second])[0, 7].item() == -5.0
    assert edited(logits, [first])[0, 7].item() == -4.0
    assert second.num_output == first.num_output + 1


@pytest.mark.parametrize("seed", range(4))
def test_penalties_do_not_depend_on_the_other_rows(seed: int) -> None:
    chance = random.Random(seed)
    logits = random_logits(5, VOCAB, seed=seed)
    made = [([chance.randrange(VOCAB) for _ in range(5)], penalties(chance)) for _ in range(5)]
    together = edited(logits, [state([1], output, **each) for output, each in made])
    for row, (output, each) in enumerate(made):
        assert torch.equal(together[row], edited(logits[row : row + 1], [state([1], output, **each)])[0])
