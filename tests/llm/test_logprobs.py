"""Log-probabilities are the model's own, and beams go on by their sums."""

from __future__ import annotations

from functools import partial

from llm_sampling import random_logits, state, torch

from hami.backends.llm.logprobs import token_logprobs
from hami.backends.llm.sampler import beam_candidates, sample

close = partial(torch.testing.assert_close, rtol=1e-5, atol=1e-5)


def test_logprobs_are_of_the_models_own_distribution() -> None:
    logits = random_logits(2, 30)
    own = logits.log_softmax(-1)
    params = {"temperature": 0.3, "top_k": 4, "logit_bias": {2: 50}, "seed": 1}
    result = sample(logits, [state(logprobs=5, **params), state(**params)])
    assert result.logprobs[1] is None
    entry = result.logprobs[0]
    assert entry is not None and entry.token == result.tokens[0] == 2
    close(entry.logprob, own[0, 2].item())
    assert entry.rank == 1 + int((logits[0] > logits[0, 2]).sum())
    values, ids = own[0].topk(5)
    assert [token for token, _ in entry.top] == ids.tolist()
    close([value for _, value in entry.top], values.tolist())


def test_zero_logprobs_give_the_chosen_token_alone() -> None:
    entry = sample(random_logits(1, 30), [state(logprobs=0, temperature=0)]).logprobs[0]
    assert entry is not None and entry.top == [] and entry.rank == 1


def test_more_logprobs_than_tokens_are_all_tokens() -> None:
    entry = sample(random_logits(1, 30), [state(logprobs=99)]).logprobs[0]
    assert entry is not None and len(entry.top) == 30


def test_each_row_has_as_many_as_it_asked_for() -> None:
    states = [state(logprobs=count, temperature=0) for count in (3, 0, 7)]
    entries = sample(random_logits(3, 30), states).logprobs
    assert [len(entry.top) for entry in entries if entry is not None] == [3, 0, 7]


def test_a_long_prompt_is_done_in_parts_with_the_same_result() -> None:
    logits = random_logits(200, 20)
    tokens = [row % 20 for row in range(200)]
    entries = token_logprobs(logits, tokens, [2] * 200)
    own = logits.log_softmax(-1)
    close([entry.logprob for entry in entries], own[range(200), tokens].tolist())
    assert token_logprobs(logits[:0], [], []) == []


def test_beams_go_on_with_the_best_sums_of_all() -> None:
    logits = random_logits(3, 25, seed=4)
    scores = [-1.0, -0.5, -7.0]
    states = [state(beam_width=3) for _ in range(3)]
    found = beam_candidates(logits, states, scores, 6)
    sums = [
        (score + value, parent, token)
        for parent, score in enumerate(scores)
        for token, value in enumerate(logits[parent].double().log_softmax(-1).tolist())
    ]
    wanted = sorted(sums, reverse=True)[:6]
    assert [(each.parent, each.token) for each in found] == [(parent, token) for _, parent, token in wanted]
    close([each.score for each in found], [score for score, _, _ in wanted])


def test_beams_keep_what_their_request_says() -> None:
    states = [state(beam_width=2, allowed_token_ids=[1, 4])]
    found = beam_candidates(random_logits(1, 25), states, [0.0], 4)
    assert sorted(each.token for each in found) == [1, 4]


def test_a_beam_that_is_not_finite_does_not_hide_the_others() -> None:
    logits = random_logits(2, 25)
    logits[0] = torch.nan
    found = beam_candidates(logits, [state(beam_width=2) for _ in range(2)], [0.0, -1.0], 4)
    assert {each.parent for each in found} == {1} and len(found) == 4
