"""Laws of streams: their pieces are the whole answer, in OpenAI's shapes, for both kinds of clients."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from openai_service import MODEL, Served, events_of, read_all

pytestmark = pytest.mark.timeout(240)

QUESTION = [{"role": "user", "content": "Name three colours of the sky."}]
DRAWN = {"temperature": 1.0, "seed": 21}


def chat(served: Served, **keys: Any) -> Any:
    return served.client.chat.completions.create(model=MODEL, messages=QUESTION, **keys)


def complete(served: Served, prompt: Any = "Once upon a time", **keys: Any) -> Any:
    return served.client.completions.create(model=MODEL, prompt=prompt, **keys)


def contents(chunks: Any) -> dict[int, str]:
    """Return the text of each choice of a streamed chat."""
    texts: dict[int, str] = {}
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + (choice.delta.content or "")
    return texts


def texts_of(chunks: Any) -> dict[int, str]:
    """Return the text of each choice of a streamed completion."""
    texts: dict[int, str] = {}
    for chunk in chunks:
        for choice in chunk.choices:
            texts[choice.index] = texts.get(choice.index, "") + choice.text
    return texts


# --- chat ---


@pytest.mark.parametrize(
    "keys",
    [{}, DRAWN, {**DRAWN, "n": 3}, {"stop": ["blue", " the"]}, {"max_tokens": 1}],
    ids=["greedy", "drawn", "n", "stop", "one"],
)
def test_pieces_of_a_chat_are_the_whole(smollm2: Served, keys: dict[str, Any]) -> None:
    whole = chat(smollm2, **keys)
    assert contents(chat(smollm2, **keys, stream=True)) == {
        choice.index: choice.message.content for choice in whole.choices
    }


def test_the_role_comes_first_and_the_reason_last(smollm2: Served) -> None:
    chunks = list(chat(smollm2, stream=True))
    first, last = chunks[0].choices[0], chunks[-1].choices[0]
    assert (first.delta.role, first.delta.content, first.finish_reason) == ("assistant", "", None)
    assert (last.delta.role, last.delta.content, last.finish_reason) == (None, None, "length")
    between = [chunk.choices[0] for chunk in chunks[1:-1]]
    assert len(between) > 3
    assert all(choice.delta.content and choice.finish_reason is None for choice in between)


def test_chunks_of_a_call_share_id_and_time(smollm2: Served) -> None:
    chunks = list(chat(smollm2, stream=True))
    assert len({(chunk.id, chunk.created, chunk.model, chunk.object) for chunk in chunks}) == 1
    assert chunks[0].object == "chat.completion.chunk"
    assert chunks[0].id.startswith("chatcmpl-")


def test_each_of_n_answers_has_a_role_and_a_reason(smollm2: Served) -> None:
    choices = [chunk.choices[0] for chunk in chat(smollm2, **DRAWN, n=3, stream=True)]
    assert sorted(choice.index for choice in choices if choice.delta.role) == [0, 1, 2]
    assert sorted(choice.index for choice in choices if choice.finish_reason) == [0, 1, 2]


def test_logprobs_of_a_stream_are_those_of_the_whole(smollm2: Served) -> None:
    keys = {"logprobs": True, "top_logprobs": 1, "max_tokens": 6}
    chunks = list(chat(smollm2, **keys, stream=True))
    streamed = [token for chunk in chunks for token in (chunk.choices[0].logprobs or Nothing).content]
    whole = chat(smollm2, **keys).choices[0].logprobs.content
    assert [token.token for token in streamed] == [token.token for token in whole]
    assert [token.logprob for token in streamed] == pytest.approx(
        [token.logprob for token in whole], abs=1e-4
    )


class Nothing:
    """Log-probabilities that are not there."""

    content: tuple[Any, ...] = ()


def test_usage_is_the_last_chunk_if_it_is_wanted(smollm2: Served) -> None:
    whole = chat(smollm2)
    *chunks, last = chat(smollm2, stream=True, stream_options={"include_usage": True})
    assert all(chunk.usage is None and "usage" in chunk.model_fields_set for chunk in chunks)
    assert (last.choices, last.usage.completion_tokens) == ([], whole.usage.completion_tokens)
    assert last.usage.total_tokens == whole.usage.total_tokens


def test_usage_is_not_there_unless_it_is_wanted(smollm2: Served) -> None:
    assert all("usage" not in chunk.model_fields_set for chunk in chat(smollm2, stream=True))


def test_the_events_are_those_of_openai(smollm2: Served) -> None:
    body = {"model": MODEL, "messages": QUESTION, "stream": True, "max_tokens": 3}
    with smollm2.post("chat/completions", body) as connection:
        raw = read_all(connection)
    head = raw.partition(b"\r\n\r\n")[0].lower()
    assert b"200 ok" in head
    assert b"content-type: text/event-stream" in head
    assert b"cache-control: no-cache" in head
    *events, done = events_of(raw)
    assert done == "[DONE]"
    assert [set(event) for event in events] == [{"id", "object", "created", "model", "choices"}] * len(events)
    assert [set(event["choices"][0]) for event in events] == [
        {"index", "delta", "logprobs", "finish_reason"}
    ] * len(events)
    assert events[-1]["choices"][0]["delta"] == {}


def test_the_client_s_own_streaming_helper_reads_it(smollm2: Served) -> None:
    messages = [{"role": "user", "content": "What is the capital of France?"}]
    keys = {"model": MODEL, "messages": messages, "max_tokens": 64}
    with smollm2.client.chat.completions.stream(**keys) as stream:
        final = stream.get_final_completion().choices[0]
    whole = smollm2.client.chat.completions.create(**keys).choices[0]
    assert (final.message.content, final.finish_reason) == (whole.message.content, "stop")


# --- completions ---


@pytest.mark.parametrize(
    "keys",
    [{}, DRAWN, {**DRAWN, "n": 3}, {"stop": [" a", "was"]}, {"echo": True}, {"echo": True, "n": 2, **DRAWN}],
    ids=["greedy", "drawn", "n", "stop", "echo", "echoes"],
)
def test_pieces_of_a_completion_are_the_whole(smollm2: Served, keys: dict[str, Any]) -> None:
    whole = complete(smollm2, **keys)
    assert texts_of(complete(smollm2, **keys, stream=True)) == {
        choice.index: choice.text for choice in whole.choices
    }


def test_pieces_of_several_prompts_are_told_apart(smollm2: Served) -> None:
    prompts = ["Once upon a time", "1, 2, 3,", "The sky is"]
    whole = complete(smollm2, prompts)
    streamed = texts_of(complete(smollm2, prompts, stream=True))
    assert streamed == {choice.index: choice.text for choice in whole.choices}


def test_echoed_ids_with_logprobs_are_the_same_in_pieces(smollm2: Served) -> None:
    keys = {"prompt": [504, 3575, 282], "echo": True, "logprobs": 1, "max_tokens": 4}
    whole = complete(smollm2, **keys).choices[0]
    chunks = [chunk.choices[0] for chunk in complete(smollm2, **keys, stream=True)]
    assert "".join(chunk.text for chunk in chunks) == whole.text
    for name in ("tokens", "text_offset"):
        pieces = [each for chunk in chunks for each in getattr(chunk.logprobs, name)]
        assert pieces == getattr(whole.logprobs, name)


def test_no_tokens_and_echo_only_streams_the_prompt(smollm2: Served) -> None:
    (chunk,) = complete(smollm2, "1, 2", echo=True, max_tokens=0, stream=True)
    assert (chunk.choices[0].text, chunk.choices[0].finish_reason) == ("1, 2", "length")


def test_only_the_last_chunk_of_a_choice_has_a_reason(smollm2: Served) -> None:
    reasons = [chunk.choices[0].finish_reason for chunk in complete(smollm2, stream=True)]
    assert reasons[-1] == "length"
    assert set(reasons[:-1]) == {None}


def test_usage_of_several_prompts_is_one(smollm2: Served) -> None:
    options = {"stream": True, "stream_options": {"include_usage": True}}
    *_, last = complete(smollm2, ["Once", "Twice"], max_tokens=3, **options)
    assert (last.choices, last.usage.completion_tokens) == ([], 6)


# --- asyncio ---


def test_a_client_for_asyncio_gets_the_same(smollm2: Served) -> None:
    async def ask() -> tuple[str, dict[int, str]]:
        async with smollm2.connect() as client:
            whole = await client.chat.completions.create(model=MODEL, messages=QUESTION)
            stream = await client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True)
            return whole.choices[0].message.content, contents([chunk async for chunk in stream])

    whole, streamed = asyncio.run(ask())
    assert streamed == {0: whole}
    assert whole == chat(smollm2).choices[0].message.content


def test_many_clients_at_once_get_their_own_answers(smollm2: Served) -> None:
    prompts = [f"{number}, {number + 1}, {number + 2}," for number in range(12)]
    alone = [complete(smollm2, prompt, max_tokens=6).choices[0].text for prompt in prompts]

    async def ask(client: Any, prompt: str, is_streamed: bool) -> str:
        keys = {"model": MODEL, "prompt": prompt, "max_tokens": 6}
        if not is_streamed:
            return str((await client.completions.create(**keys)).choices[0].text)
        stream = await client.completions.create(**keys, stream=True)
        return "".join([chunk.choices[0].text async for chunk in stream])

    async def ask_all() -> list[str]:
        async with smollm2.connect() as client:
            return await asyncio.gather(
                *(ask(client, prompt, bool(number % 2)) for number, prompt in enumerate(prompts))
            )

    assert asyncio.run(ask_all()) == alone
