"""Laws of chat completions, asked with OpenAI's client of a real model."""

from __future__ import annotations

from typing import Any

import pytest
from openai_service import MODEL, Served

import hami

pytestmark = pytest.mark.timeout(240)

QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def ask(served: Served, messages: Any = QUESTION, **keys: Any) -> Any:
    return served.client.chat.completions.create(model=MODEL, messages=messages, **keys)


def text_of(served: Served, messages: Any = QUESTION, **keys: Any) -> str:
    return str(ask(served, messages, **keys).choices[0].message.content)


def offline(served: Served, messages: Any = QUESTION, **keys: Any) -> Any:
    params = {"temperature": 0.0, "max_tokens": 24, **keys}
    (generation,) = served.llm.generate([messages], hami.SamplingParams(**params))
    return generation


def test_an_answer_has_the_shape_of_a_chat_completion(smollm2: Served) -> None:
    answer = ask(smollm2)
    assert answer.object == "chat.completion"
    assert answer.id.startswith("chatcmpl-")
    assert answer.model == MODEL
    (choice,) = answer.choices
    assert (choice.index, choice.logprobs) == (0, None)
    assert (choice.message.role, choice.message.refusal, choice.message.tool_calls) == (
        "assistant",
        None,
        None,
    )
    assert choice.finish_reason in {"stop", "length"}


def test_the_text_is_that_of_hami_llm(smollm2: Served) -> None:
    generation = offline(smollm2)
    answer = ask(smollm2)
    assert answer.choices[0].message.content == generation.text
    assert answer.choices[0].finish_reason == generation.finish_reason
    assert answer.usage.prompt_tokens == generation.usage.prompt_tokens
    assert answer.usage.completion_tokens == generation.usage.completion_tokens


def test_parts_of_type_text_are_joined(smollm2: Served) -> None:
    parts = [{"type": "text", "text": "What is the capital "}, {"type": "text", "text": "of France?"}]
    assert text_of(smollm2, [{"role": "user", "content": parts}]) == text_of(smollm2)


def test_the_developer_speaks_as_the_system(smollm2: Served) -> None:
    def scores(role: str) -> list[float]:
        chat = [{"role": role, "content": "Speak like a pirate."}, *QUESTION]
        content = ask(smollm2, chat, logprobs=True, max_tokens=2).choices[0].logprobs.content
        return [round(token.logprob, 3) for token in content]

    assert scores("developer") == scores("system") != scores("user")


def test_earlier_answers_are_read(smollm2: Served) -> None:
    earlier = [
        *QUESTION,
        {"role": "assistant", "content": "Paris."},
        {"role": "user", "content": "And of Italy?"},
    ]
    assert text_of(smollm2, earlier) == offline(smollm2, earlier).text


def test_an_assistant_may_have_said_nothing(smollm2: Served) -> None:
    silent = [QUESTION[0], {"role": "assistant", "content": None}, QUESTION[0]]
    said = [QUESTION[0], {"role": "assistant", "content": ""}, QUESTION[0]]
    assert text_of(smollm2, silent) == text_of(smollm2, said)


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
def test_an_answer_is_cut_off(smollm2: Served, name: str) -> None:
    answer = ask(smollm2, **{name: 3})
    assert answer.usage.completion_tokens == 3
    assert answer.choices[0].finish_reason == "length"


def test_max_completion_tokens_wins(smollm2: Served) -> None:
    assert ask(smollm2, max_tokens=9, max_completion_tokens=2).usage.completion_tokens == 2


def test_n_answers_are_those_of_hami_llm(smollm2: Served) -> None:
    answer = ask(smollm2, n=3, temperature=1.0, seed=11)
    wanted = offline(smollm2, n=3, temperature=1.0, seed=11)
    assert [choice.index for choice in answer.choices] == [0, 1, 2]
    assert [choice.message.content for choice in answer.choices] == [output.text for output in wanted.outputs]
    assert len({choice.message.content for choice in answer.choices}) > 1


def test_the_same_seed_gives_the_same_text(smollm2: Served) -> None:
    texts = [text_of(smollm2, temperature=1.0, seed=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_a_stop_text_ends_the_answer(smollm2: Served) -> None:
    whole = text_of(smollm2)
    choice = ask(smollm2, stop=whole[5:8]).choices[0]
    assert choice.finish_reason == "stop"
    assert choice.message.content == whole[: whole.index(whole[5:8])]


def test_logprobs_are_those_of_hami_llm_with_texts_and_bytes(smollm2: Served) -> None:
    choice = ask(smollm2, logprobs=True, top_logprobs=2, max_tokens=5).choices[0]
    wanted = offline(smollm2, logprobs=2, max_tokens=5).logprobs
    content = choice.logprobs.content
    assert "".join(token.token for token in content) == choice.message.content
    assert b"".join(bytes(token.bytes) for token in content).decode() == choice.message.content
    assert [token.logprob for token in content] == pytest.approx(
        [place.logprob for place in wanted], abs=1e-4
    )
    for token, place in zip(content, wanted, strict=True):
        tops = [top.logprob for top in token.top_logprobs]
        assert tops == pytest.approx([logprob for _, logprob in place.top], abs=1e-4)
        assert token.top_logprobs[0].token == token.token  # greedy


def test_logprobs_without_top_ones(smollm2: Served) -> None:
    content = ask(smollm2, logprobs=True, max_tokens=2).choices[0].logprobs.content
    assert [token.top_logprobs for token in content] == [[], []]


def test_logprobs_that_are_not_wanted_are_null(smollm2: Served) -> None:
    assert ask(smollm2, logprobs=False, max_tokens=1).choices[0].logprobs is None


def test_both_shapes_tell_the_same_logprobs(smollm2: Served) -> None:
    prompt = offline(smollm2, max_tokens=1).prompt_token_ids
    chat = ask(smollm2, logprobs=True, top_logprobs=2, max_tokens=6).choices[0].logprobs.content
    plain = smollm2.client.completions.create(model=MODEL, prompt=prompt, logprobs=2, max_tokens=6)
    shape = plain.choices[0].logprobs
    assert [token.token for token in chat] == shape.tokens
    assert [token.logprob for token in chat] == pytest.approx(shape.token_logprobs, abs=1e-3)
    assert [[top.token for top in token.top_logprobs] for token in chat] == [
        list(top) for top in shape.top_logprobs
    ]


def test_half_characters_are_written_as_their_bytes(smollm2: Served) -> None:
    """A grammar forces a character that no token has whole."""
    extra = {"guided_regex": "🦜🦜"}
    choice = ask(smollm2, logprobs=True, max_tokens=12, extra_body=extra).choices[0]
    content = choice.logprobs.content
    assert choice.message.content == "🦜🦜"
    assert b"".join(bytes(token.bytes) for token in content).decode() == "🦜🦜"
    assert any(token.token.startswith("bytes:\\x") for token in content)


def test_what_openai_ignores_is_ignored(smollm2: Served) -> None:
    answer = text_of(
        smollm2,
        user="somebody",
        metadata={"a": "b"},
        store=False,
        service_tier="auto",
        parallel_tool_calls=True,
        safety_identifier="x",
        prompt_cache_key="y",
        modalities=["text"],
        extra_body={"priority": 3, "tools": None},
    )
    assert answer == text_of(smollm2)


def test_null_is_as_good_as_nothing(smollm2: Served) -> None:
    nothing = dict.fromkeys(
        ("temperature", "top_p", "n", "stop", "seed", "logit_bias", "max_tokens", "stream")
    )
    assert text_of(smollm2, **nothing) == text_of(smollm2)


def test_the_raw_response_is_at_hand(smollm2: Served) -> None:
    raw = smollm2.client.chat.completions.with_raw_response.create(model=MODEL, messages=QUESTION)
    assert raw.status_code == 200
    assert raw.headers["content-type"] == "application/json"
    assert raw.parse().choices[0].message.content == text_of(smollm2)
