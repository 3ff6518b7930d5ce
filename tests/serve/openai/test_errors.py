"""Laws of errors: OpenAI's shape and status, and the parameter that is wrong, by the client's name for it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from openai_service import (
    MODEL,
    ByteTokenizer,
    Gate,
    Hooked,
    Served,
    fake_engine,
    fake_node,
    openai,
    read_all,
    served,
)

import hami
from hami.serve.openai.errors import api_error

CHAT = {"messages": [{"role": "user", "content": "Hello."}]}


@pytest.fixture(scope="module")
def fake() -> Iterator[Served]:
    """A model of bytes with 512 tokens of context."""
    with served(fake_node(), fake_engine(tokenizer=ByteTokenizer())) as running:
        yield running


def chat(running: Served, **keys: Any) -> Any:
    return running.client.chat.completions.create(model=MODEL, **{**CHAT, **keys})


def complete(running: Served, **keys: Any) -> Any:
    return running.client.completions.create(model=MODEL, **{"prompt": "abcd", **keys})


BAD_CHATS = {
    "temperature": ({"temperature": -1}, "temperature"),
    "temperature as text": ({"temperature": "hot"}, "temperature"),
    "top_p": ({"top_p": 2}, "top_p"),
    "n": ({"n": 0}, "n"),
    "n of greedy": ({"n": 2, "temperature": 0}, "n"),
    "n as half": ({"n": 1.5}, "n"),
    "too many": ({"n": 1000}, "n"),
    "seed": ({"seed": 1 << 70}, "seed"),
    "stop": ({"stop": [""]}, "stop"),
    "stop as number": ({"stop": 3}, "stop"),
    "max_tokens": ({"max_tokens": 0}, "max_tokens"),
    "max_completion_tokens": ({"max_completion_tokens": -1}, "max_completion_tokens"),
    "presence_penalty": ({"presence_penalty": 3}, "presence_penalty"),
    "frequency_penalty": ({"frequency_penalty": -3}, "frequency_penalty"),
    "logit_bias": ({"logit_bias": {"5": 101}}, "logit_bias"),
    "logit_bias of no token": ({"logit_bias": {"x": 1}}, "logit_bias"),
    "logit_bias beyond": ({"logit_bias": {"4000": 1}}, "logit_bias"),
    "top_logprobs": ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    "top_logprobs alone": ({"top_logprobs": 2}, "top_logprobs"),
    "stream_options": ({"stream_options": {"include_usage": True}}, "stream_options"),
    "unknown option": ({"stream": True, "stream_options": {"usage": True}}, "stream_options.usage"),
    "no messages": ({"messages": []}, "messages"),
    "a message without a role": ({"messages": [{"content": "a"}]}, "messages[0].role"),
    "a message without content": ({"messages": [{"role": "user"}]}, "messages[0].content"),
    "a picture": (
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]},
        "messages[0].content[0].type",
    ),
    "a part without text": (
        {"messages": [*CHAT["messages"], {"role": "user", "content": [{"type": "text"}]}]},
        "messages[1].content[0].text",
    ),
    "a message that is a text": ({"messages": ["Hello."]}, "messages"),
    "tools": ({"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    "functions": ({"functions": [{"name": "f"}]}, "functions"),
    "audio": ({"audio": {"voice": "x", "format": "wav"}}, "audio"),
    "modalities": ({"modalities": ["text", "audio"]}, "modalities"),
    "reasoning_effort": ({"reasoning_effort": "low"}, "reasoning_effort"),
    "top_k": ({"extra_body": {"top_k": -2}}, "top_k"),
    "min_tokens": ({"max_tokens": 3, "extra_body": {"min_tokens": 4}}, "min_tokens"),
    "repetition_penalty": ({"extra_body": {"repetition_penalty": 0}}, "repetition_penalty"),
    "stop_token_ids": ({"extra_body": {"stop_token_ids": [300]}}, "stop_token_ids"),
    "ignore_eos": ({"extra_body": {"ignore_eos": 1}}, "ignore_eos"),
    "deadline_ms": ({"extra_body": {"deadline_ms": -1}}, "deadline_ms"),
    "priority": ({"extra_body": {"priority": 1 << 70}}, "priority"),
    "unknown": ({"extra_body": {"temprature": 1}}, "temprature"),
}
BAD_COMPLETIONS = {
    "best_of": ({"best_of": 3}, "best_of"),
    "suffix": ({"suffix": "the end"}, "suffix"),
    "logprobs": ({"logprobs": 21}, "logprobs"),
    "no tokens": ({"max_tokens": 0}, "max_tokens"),
    "no prompts": ({"prompt": []}, "prompt"),
    "an empty prompt": ({"prompt": ""}, "prompt"),
    "ids and texts": ({"prompt": [1, "a"]}, "prompt"),
    "ids beyond": ({"prompt": [1, 256]}, "prompt"),
    "a long prompt": ({"prompt": "a" * 600}, "prompt"),
    "messages": ({"extra_body": CHAT}, "messages"),
}


@pytest.mark.parametrize(("keys", "param"), BAD_CHATS.values(), ids=BAD_CHATS)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "stream"])
def test_a_bad_chat_is_refused_and_names_the_parameter(
    fake: Served, keys: dict[str, Any], param: str, is_streamed: bool
) -> None:
    if is_streamed and "stream_options" in keys:
        keys = {"stream_options": 3}
        param = "stream_options"
    with pytest.raises(openai.BadRequestError) as caught:
        chat(fake, **{"stream": is_streamed, **keys})
    assert (caught.value.type, caught.value.param) == ("invalid_request_error", param)
    assert f"`{param.partition('[')[0]}" in caught.value.message or caught.value.code


@pytest.mark.parametrize(("keys", "param"), BAD_COMPLETIONS.values(), ids=BAD_COMPLETIONS)
@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "stream"])
def test_a_bad_completion_is_refused_and_names_the_parameter(
    fake: Served, keys: dict[str, Any], param: str, is_streamed: bool
) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        complete(fake, stream=is_streamed, **keys)
    assert (caught.value.type, caught.value.param) == ("invalid_request_error", param)


def test_a_bad_prompt_among_others_is_refused_and_the_others_are_aborted(fake: Served) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        complete(fake, prompt=["abcd", "a" * 600], max_tokens=400)
    assert caught.value.param == "prompt"
    assert fake.wait_until_idle()["pages_referenced"] == 0


def test_a_bad_prompt_among_others_ends_their_stream(fake: Served) -> None:
    """The first ones may have begun when it is found: then its error is the last event."""
    with pytest.raises(openai.APIError) as caught:
        list(complete(fake, prompt=["abcd", "a" * 600], max_tokens=400, stream=True))
    assert (caught.value.param, caught.value.code) == ("prompt", "context_length_exceeded")
    assert fake.wait_until_idle()["pages_referenced"] == 0


def test_a_prompt_that_is_too_long_has_openai_s_code(fake: Served) -> None:
    with pytest.raises(openai.BadRequestError, match="512") as caught:
        complete(fake, prompt="a" * 600)
    assert caught.value.code == "context_length_exceeded"


def test_a_misspelt_parameter_is_told_the_right_one(fake: Served) -> None:
    with pytest.raises(openai.BadRequestError, match="`temperature`") as caught:
        chat(fake, extra_body={"temprature": 1})
    assert caught.value.code == "unknown_parameter"


def test_a_missing_parameter_is_named(fake: Served) -> None:
    with fake.post("completions", {"model": MODEL}) as connection:
        answer = read_all(connection)
    assert b" 400 " in answer
    error = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert (error["param"], error["code"]) == ("prompt", "missing_required_parameter")


@pytest.mark.parametrize("body", [b"{", b"", b"[1]", b'"a"', b"\xff\xfe"])
def test_a_body_that_is_no_object_of_json_is_refused(fake: Served, body: bytes) -> None:
    with fake.post("completions", body) as connection:
        answer = read_all(connection)
    assert b" 400 " in answer
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["error"]["type"] == "invalid_request_error"


def test_a_best_of_that_picks_nothing_is_accepted(fake: Served) -> None:
    assert complete(fake, best_of=1, max_tokens=1).usage.completion_tokens == 1


# --- the state of the pipeline ---


def test_a_full_queue_is_too_many_requests() -> None:
    gate = Gate()
    engine = fake_engine(tokenizer=ByteTokenizer(), wrap=lambda inner: Hooked(inner, gate))
    with served(fake_node(queue_capacity=1), engine) as running:
        first = running.pipe.submit({"data": "abcd"})
        for is_streamed in (False, True):
            with pytest.raises(openai.RateLimitError) as caught:
                chat(running, stream=is_streamed)
            assert (caught.value.code, caught.value.type) == ("rate_limit_exceeded", "rate_limit_error")
        gate.is_open.set()
        assert first.result(20)["usage"]["completion_tokens"] > 0


def test_a_closed_pipeline_is_unavailable() -> None:
    with served(fake_node(), fake_engine(tokenizer=ByteTokenizer())) as running:
        running.pipe.close()
        with pytest.raises(openai.InternalServerError) as caught:
            chat(running)
    assert (caught.value.status_code, caught.value.type) == (503, "service_unavailable_error")


def test_a_deadline_that_passes_is_a_timeout() -> None:
    gate = Gate()
    engine = fake_engine(tokenizer=ByteTokenizer(), wrap=lambda inner: Hooked(inner, gate))
    with served(fake_node(), engine) as running:
        with pytest.raises(openai.InternalServerError) as caught:
            chat(running, extra_body={"deadline_ms": 5})
        gate.is_open.set()
    assert (caught.value.status_code, caught.value.type) == (504, "timeout_error")


def test_a_model_that_fails_is_an_error_of_the_server() -> None:
    def fail(plan: Any, logits: Any) -> Any:
        raise RuntimeError("secret of the machine")

    engine = fake_engine(tokenizer=ByteTokenizer(), wrap=lambda inner: Hooked(inner, fail))
    with served(fake_node(), engine) as running:
        for is_streamed in (False, True):
            with pytest.raises(openai.InternalServerError) as caught:
                chat(running, stream=is_streamed)
            assert (caught.value.status_code, caught.value.type) == (500, "server_error")
            assert "secret" not in caught.value.message


def test_an_error_of_hami_keeps_its_words_and_its_code() -> None:
    error = api_error(hami.WorkerError("a worker died", code="worker-died", help="look at the log"))
    assert error.body() == {
        "error": {
            "message": "a worker died: look at the log",
            "type": "server_error",
            "param": None,
            "code": "worker-died",
        }
    }
    assert error.status == 500
