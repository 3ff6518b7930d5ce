"""Laws of what a client sends on its way to the pipeline: nothing is lost, and the node fills the gaps."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest
from openai_service import MODEL

from hami.backends.llm.sampling import SamplingParams
from hami.serve.openai.errors import ApiError
from hami.serve.openai.messages import chat_of
from hami.serve.openai.models import Model
from hami.serve.openai.parameters import (
    MAX_LOGPROBS,
    UNBOUNDED,
    chat_sampling,
    completion_sampling,
    items_of,
    names_of,
    prompts_of,
)
from hami.serve.openai.schema import REFUSED, ChatRequest, CompletionRequest

PLAIN = Model(MODEL, MODEL, None, {})
HELLO = [{"role": "user", "content": "Hello."}]


def chat_request(**keys: Any) -> ChatRequest:
    return ChatRequest(model=MODEL, messages=HELLO, **keys)


def completion_request(**keys: Any) -> CompletionRequest:
    return CompletionRequest(model=MODEL, prompt="a", **keys)


# Each field of SamplingParams with a value that is not its default, and how a client says it.
SAID: dict[str, tuple[Any, dict[str, Any]]] = {
    "n": (3, {"n": 3}),
    "temperature": (0.5, {"temperature": 0.5}),
    "top_p": (0.5, {"top_p": 0.5}),
    "top_k": (4, {"top_k": 4}),
    "min_p": (0.1, {"min_p": 0.1}),
    "max_tokens": (7, {"max_tokens": 7}),
    "min_tokens": (2, {"min_tokens": 2}),
    "stop": (("x",), {"stop": "x"}),
    "stop_token_ids": ((5,), {"stop_token_ids": [5]}),
    "ignore_eos": (True, {"ignore_eos": True}),
    "include_stop_str_in_output": (True, {"include_stop_str_in_output": True}),
    "skip_special_tokens": (False, {"skip_special_tokens": False}),
    "seed": (9, {"seed": 9}),
    "logprobs": (2, {"logprobs": 2}),
    "prompt_logprobs": (2, {"logprobs": 2, "echo": True}),
    "presence_penalty": (0.5, {"presence_penalty": 0.5}),
    "frequency_penalty": (0.5, {"frequency_penalty": 0.5}),
    "repetition_penalty": (1.5, {"repetition_penalty": 1.5}),
    "logit_bias": ({5: 1.0}, {"logit_bias": {"5": 1}}),
    "allowed_token_ids": ((5,), {"allowed_token_ids": [5]}),
    "beam_width": (2, {"beam_width": 2}),
    "length_penalty": (2.0, {"length_penalty": 2}),
    "early_stopping": (True, {"early_stopping": True}),
    "json_schema": ({"type": "object"}, {"response_format": {"type": "json_object"}}),
    "regex": ("a+", {"guided_regex": "a+"}),
}


@pytest.mark.parametrize("field", [each.name for each in fields(SamplingParams)])
def test_everything_that_an_engine_can_do_can_be_asked_for(field: str) -> None:
    wanted, keys = SAID[field]
    assert getattr(completion_sampling(completion_request(**keys), PLAIN), field) == wanted


def test_a_request_overrides_its_node_key_by_key() -> None:
    model = Model(MODEL, MODEL, None, {"temperature": 0.0, "max_tokens": 48, "json_schema": {}})
    params = completion_sampling(completion_request(max_tokens=3), model)
    assert (params.temperature, params.max_tokens, params.json_schema) == (0.0, 3, {})


def test_a_form_replaces_that_of_the_node() -> None:
    model = Model(MODEL, MODEL, None, {"json_schema": {"type": "object"}})
    assert chat_sampling(chat_request(response_format={"type": "text"}), model).json_schema is None
    params = chat_sampling(chat_request(guided_regex="a"), model)
    assert (params.json_schema, params.regex) == (None, "a")


def test_a_chat_may_take_the_whole_context_unless_somebody_says_less() -> None:
    assert chat_sampling(chat_request(), PLAIN).max_tokens == UNBOUNDED
    assert chat_sampling(chat_request(), Model(MODEL, MODEL, None, {"max_tokens": 9})).max_tokens == 9
    assert chat_sampling(chat_request(max_completion_tokens=3, max_tokens=5), PLAIN).max_tokens == 3


def test_a_completion_has_sixteen_tokens_unless_somebody_says_more() -> None:
    assert completion_sampling(completion_request(), PLAIN).max_tokens == 16


def test_a_schema_without_a_schema_is_any_json() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "x"}}
    assert chat_sampling(chat_request(response_format=form), PLAIN).json_schema == {}


def test_top_logprobs_are_counted_only_if_logprobs_are_wanted() -> None:
    assert chat_sampling(chat_request(), PLAIN).logprobs is None
    assert chat_sampling(chat_request(logprobs=True), PLAIN).logprobs == 0
    assert (
        chat_sampling(chat_request(logprobs=True, top_logprobs=MAX_LOGPROBS), PLAIN).logprobs == MAX_LOGPROBS
    )


def test_an_item_says_what_the_client_said_and_nothing_else() -> None:
    params = SamplingParams()
    (bare,) = items_of(completion_request(), PLAIN, ["a"], params)
    assert bare == {"data": "a", "sampling": params, "stream": "full"}
    body = completion_request(user="me", priority=0, deadline_ms=5, cache_salt="s")
    for item in items_of(body, Model(MODEL, MODEL, "first", {}), ["a", "b"], params, echo=True):
        assert (item["user"], item["priority"], item["deadline_ms"], item["salt"]) == ("me", 0, 5, "s")
        assert (item["node_name"], item["echo"]) == ("first", True)


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ("a", ["a"]),
        (["a", "b"], ["a", "b"]),
        ([1, 2], [[1, 2]]),
        ([[1], [2, 3]], [[1], [2, 3]]),
        ("", [""]),
    ],
)
def test_a_prompt_is_one_or_many(prompt: Any, wanted: list[Any]) -> None:
    assert prompts_of(prompt) == wanted


def test_errors_are_told_by_the_client_s_names() -> None:
    assert names_of(completion_request())["prompt"] == "prompt"
    assert names_of(chat_request())["prompt"] == "messages"
    assert names_of(chat_request(guided_regex="a"))["regex"] == "guided_regex"
    assert names_of(chat_request(max_completion_tokens=3))["max_tokens"] == "max_completion_tokens"
    assert "max_tokens" not in names_of(chat_request(max_tokens=3))


def test_what_is_refused_is_declared() -> None:
    assert set(REFUSED) <= {*ChatRequest.model_fields, *CompletionRequest.model_fields}


def test_messages_keep_what_templates_may_read() -> None:
    message = {"role": "user", "name": "Ann", "content": [{"type": "text", "text": "a"}]}
    assert chat_of([message]) == [{"role": "user", "name": "Ann", "content": "a"}]


def test_a_refusal_is_a_part_that_an_assistant_said() -> None:
    message = {"role": "assistant", "content": [{"type": "refusal", "refusal": "No."}]}
    assert chat_of([message])[0]["content"] == "No."


@pytest.mark.parametrize("content", [3, {"type": "text"}, [3], [{"type": "text", "text": 3}], None])
def test_a_content_that_is_no_text_is_refused_where_it_is(content: Any) -> None:
    with pytest.raises(ApiError) as caught:
        chat_of([HELLO[0], {"role": "user", "content": content}])
    assert str(caught.value.param).startswith("messages[1].content")
