"""Laws of completions, asked with OpenAI's client of a real model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from openai_service import MODEL, Served, read_all

import hami

pytestmark = pytest.mark.timeout(240)

REFERENCE = json.loads((Path(__file__).parents[2] / "llm" / "smollm2_greedy.json").read_text())
FRANCE = REFERENCE["raw:The capital of France is"]
PROMPT = "The capital of France is"
ALPHABET = "a b c d e f g h i j k l m n o p q r s t u v w x y z, and once more: a b c d e"


def complete(served: Served, prompt: Any = PROMPT, **keys: Any) -> Any:
    return served.client.completions.create(model=MODEL, prompt=prompt, **keys)


def text_of(served: Served, prompt: Any = PROMPT, **keys: Any) -> str:
    return str(complete(served, prompt, **keys).choices[0].text)


def offline(served: Served, prompt: Any = PROMPT, **keys: Any) -> hami.backends.llm.outputs.Generation:
    params = {"temperature": 0.0, "max_tokens": 24, **keys}
    (generation,) = served.llm.generate([prompt], hami.SamplingParams(**params))
    return generation


def test_an_answer_has_the_shape_of_a_text_completion(smollm2: Served) -> None:
    answer = complete(smollm2, max_tokens=4)
    assert answer.object == "text_completion"
    assert answer.id.startswith("cmpl-")
    assert answer.model == MODEL
    assert answer.created > 1_700_000_000
    (choice,) = answer.choices
    assert (choice.index, choice.logprobs, choice.finish_reason) == (0, None, "length")


def test_ids_of_answers_differ(smollm2: Served) -> None:
    assert len({complete(smollm2, max_tokens=1).id for _ in range(3)}) == 3


def test_the_text_is_that_of_hami_llm(smollm2: Served) -> None:
    assert text_of(smollm2) == offline(smollm2).text


def test_the_node_s_own_sampling_holds_where_a_request_says_nothing(smollm2: Served) -> None:
    answer = complete(smollm2)
    assert answer.usage.completion_tokens == 24
    assert answer.choices[0].text == text_of(smollm2, temperature=0, max_tokens=24)


def test_ids_are_a_prompt(smollm2: Served) -> None:
    assert text_of(smollm2, FRANCE["prompt_ids"]) == text_of(smollm2)


def test_several_texts_are_choices_in_their_order(smollm2: Served) -> None:
    prompts = [PROMPT, "1, 2, 3,", "Once upon a time"]
    answer = complete(smollm2, prompts, max_tokens=6)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert [choice.text for choice in answer.choices] == [
        text_of(smollm2, prompt, max_tokens=6) for prompt in prompts
    ]
    assert answer.usage.completion_tokens == 18


def test_several_lists_of_ids_are_choices_in_their_order(smollm2: Served) -> None:
    ids = [FRANCE["prompt_ids"], FRANCE["prompt_ids"][:3]]
    answer = complete(smollm2, ids, max_tokens=3)
    assert [choice.text for choice in answer.choices] == [text_of(smollm2, one, max_tokens=3) for one in ids]


def test_n_choices_of_each_prompt_are_numbered_through(smollm2: Served) -> None:
    answer = complete(smollm2, ["Once", "Twice"], n=3, temperature=1.0, seed=4, max_tokens=5)
    assert [choice.index for choice in answer.choices] == list(range(6))
    alone = complete(smollm2, "Twice", n=3, temperature=1.0, seed=4, max_tokens=5)
    assert [choice.text for choice in answer.choices[3:]] == [choice.text for choice in alone.choices]


def test_n_choices_are_those_of_hami_llm(smollm2: Served) -> None:
    answer = complete(smollm2, n=3, temperature=1.0, seed=7)
    wanted = offline(smollm2, n=3, temperature=1.0, seed=7)
    assert [choice.text for choice in answer.choices] == [output.text for output in wanted.outputs]
    assert len({choice.text for choice in answer.choices}) > 1


def test_the_same_seed_gives_the_same_text(smollm2: Served) -> None:
    texts = [text_of(smollm2, "Once", temperature=1.0, seed=seed) for seed in (3, 3, 4)]
    assert texts[0] == texts[1] != texts[2]


def test_a_stop_text_ends_the_answer_and_is_not_in_it(smollm2: Served) -> None:
    whole = text_of(smollm2)
    stop = whole[6:9]
    answer = complete(smollm2, stop=stop).choices[0]
    assert (answer.text, answer.finish_reason) == (whole[: whole.index(stop)], "stop")
    assert text_of(smollm2, stop=["never there", stop]) == answer.text


def test_a_stop_text_can_be_left_in_the_answer(smollm2: Served) -> None:
    stop = text_of(smollm2)[6:9]
    extra = {"include_stop_str_in_output": True}
    assert text_of(smollm2, stop=stop, extra_body=extra).endswith(stop)


def test_usage_counts_prompt_and_answer(smollm2: Served) -> None:
    usage = complete(smollm2, max_tokens=5).usage
    assert usage.prompt_tokens == len(FRANCE["prompt_ids"])
    assert usage.completion_tokens == 5
    assert usage.total_tokens == usage.prompt_tokens + 5


def test_usage_tells_which_tokens_were_not_computed_again(smollm2: Served) -> None:
    salt = {"cache_salt": "test_usage_tells"}
    cached = [
        complete(smollm2, ALPHABET, max_tokens=2, extra_body=salt).usage.prompt_tokens_details.cached_tokens
        for _ in range(2)
    ]
    assert cached == [0, 32]


def test_prompts_of_another_salt_are_computed_again(smollm2: Served) -> None:
    for salt in ("one", "two"):
        usage = complete(smollm2, ALPHABET, max_tokens=1, extra_body={"cache_salt": salt}).usage
        assert usage.prompt_tokens_details.cached_tokens == 0


def test_the_engine_s_own_parameters_are_heard(smollm2: Served) -> None:
    def tokens(**extra: Any) -> int:
        return int(complete(smollm2, max_tokens=8, extra_body=extra).usage.completion_tokens)

    assert tokens(stop_token_ids=[FRANCE["gen_ids"][2]]) == 3
    assert tokens(stop_token_ids=[FRANCE["gen_ids"][2]], min_tokens=5) == 8
    drawn = {"temperature": 2.0, "seed": 5}
    assert text_of(smollm2, **drawn, extra_body={"top_k": 1}) == text_of(smollm2)
    assert text_of(smollm2, **drawn, extra_body={"min_p": 1.0}) == text_of(smollm2)
    allowed = {"allowed_token_ids": [FRANCE["gen_ids"][0]], "ignore_eos": True}
    assert text_of(smollm2, max_tokens=3, extra_body=allowed) == " Paris" * 3


def test_logit_bias_has_ids_as_keys_as_json_wants_them(smollm2: Served) -> None:
    paris = str(FRANCE["gen_ids"][0])
    assert not text_of(smollm2, logit_bias={paris: -100}).startswith(" Paris")


def test_penalties_are_heard(smollm2: Served) -> None:
    keys = {"max_tokens": 40, "prompt": "1 1 1 1 1 1 1 1"}
    plain = text_of(smollm2, **keys)
    assert text_of(smollm2, **keys, frequency_penalty=2.0) != plain
    assert text_of(smollm2, **keys, presence_penalty=2.0) != plain
    assert text_of(smollm2, **keys, extra_body={"repetition_penalty": 1.5}) != plain


def test_an_answer_can_be_searched_for(smollm2: Served) -> None:
    extra = {"beam_width": 2}
    answer = complete(smollm2, n=2, max_tokens=4, temperature=0, extra_body=extra)
    wanted = offline(smollm2, n=2, max_tokens=4, beam_width=2)
    assert [choice.text for choice in answer.choices] == [output.text for output in wanted.outputs]
    chunks = complete(smollm2, n=2, max_tokens=4, temperature=0, stream=True, extra_body=extra)
    assert [chunk.choices[0].text for chunk in chunks] == [output.text for output in wanted.outputs]


# --- logprobs and echo ---


def test_logprobs_are_those_of_hami_llm_and_name_their_tokens(smollm2: Served) -> None:
    logprobs = complete(smollm2, logprobs=3, max_tokens=5).choices[0].logprobs
    wanted = offline(smollm2, logprobs=3, max_tokens=5).logprobs
    assert logprobs.token_logprobs == pytest.approx([place.logprob for place in wanted], abs=1e-4)
    assert "".join(logprobs.tokens) == text_of(smollm2, max_tokens=5)
    assert logprobs.tokens[0] == " Paris"
    for place, top in zip(wanted, logprobs.top_logprobs, strict=True):
        assert list(top.values()) == pytest.approx([logprob for _, logprob in place.top], abs=1e-4)
        assert len(top) == 3


def test_offsets_of_tokens_count_characters_of_the_text(smollm2: Served) -> None:
    choice = complete(smollm2, logprobs=0).choices[0]
    assert [choice.text[offset:].startswith(token) for offset, token in offsets(choice)] == [True] * 24
    assert choice.logprobs.text_offset[0] == 0
    assert choice.logprobs.top_logprobs is None


def offsets(choice: Any) -> list[tuple[int, str]]:
    return list(zip(choice.logprobs.text_offset, choice.logprobs.tokens, strict=True))


def test_a_token_that_was_drawn_is_among_the_top_ones(smollm2: Served) -> None:
    logprobs = (
        complete(smollm2, "Once", logprobs=1, temperature=2.0, seed=1, max_tokens=12).choices[0].logprobs
    )
    assert all(token in top for token, top in zip(logprobs.tokens, logprobs.top_logprobs, strict=True))
    assert {len(top) for top in logprobs.top_logprobs} == {1, 2}


def test_the_end_of_an_answer_is_no_token_of_its_text(smollm2: Served) -> None:
    extra = {"allowed_token_ids": [2, FRANCE["gen_ids"][0]]}
    answer = complete(smollm2, logprobs=0, logit_bias={"2": 100}, max_tokens=3, extra_body=extra)
    assert answer.choices[0].finish_reason == "stop"
    assert (answer.choices[0].text, answer.choices[0].logprobs.tokens) == ("", [])
    assert answer.usage.completion_tokens == 1


@pytest.mark.parametrize("prompt", [PROMPT, FRANCE["prompt_ids"]], ids=["text", "ids"])
def test_echo_puts_the_prompt_before_the_answer(smollm2: Served, prompt: Any) -> None:
    assert text_of(smollm2, prompt, echo=True) == PROMPT + text_of(smollm2)


def test_echo_with_logprobs_scores_the_prompt(smollm2: Served) -> None:
    choice = complete(smollm2, echo=True, logprobs=2, max_tokens=3).choices[0]
    logprobs = choice.logprobs
    wanted = offline(smollm2, max_tokens=3, logprobs=2, prompt_logprobs=2)
    assert "".join(logprobs.tokens) == choice.text
    assert [choice.text[offset:].startswith(token) for offset, token in offsets(choice)] == [True] * 8
    assert (logprobs.token_logprobs[0], logprobs.top_logprobs[0]) == (None, None)
    prompt, answer = wanted.prompt_logprobs, wanted.logprobs
    expected = [place.logprob for place in [*prompt[1:], *answer]]
    assert logprobs.token_logprobs[1:] == pytest.approx(expected, abs=1e-3)


def test_no_tokens_and_echo_only_scores_the_prompt(smollm2: Served) -> None:
    answer = complete(smollm2, echo=True, logprobs=0, max_tokens=0)
    choice = answer.choices[0]
    assert (choice.text, choice.finish_reason) == (PROMPT, "length")
    assert len(choice.logprobs.tokens) == len(FRANCE["prompt_ids"]) == answer.usage.total_tokens
    assert answer.usage.completion_tokens == 0


def test_echo_is_before_each_of_n_choices(smollm2: Served) -> None:
    keys = {"echo": True, "n": 2, "temperature": 1.0, "seed": 2, "max_tokens": 4}
    answer = complete(smollm2, ["Once", "Twice"], **keys)
    starts = [choice.text.split()[0] for choice in answer.choices]
    assert [start[:4] for start in starts] == ["Once", "Once", "Twic", "Twic"]


def test_a_prompt_that_no_encoding_has_is_refused(smollm2: Served) -> None:
    body = b'{"model": "answer", "prompt": "\\ud800"}'
    with smollm2.post("completions", body) as connection:
        assert b" 400 " in read_all(connection)
