"""Language models as nodes of a pipeline: one real model, called the ways that users call it."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llm_samples import SMOLLM2, needs_smollm2

import hami

pytestmark = [needs_smollm2, pytest.mark.timeout(240)]

REFERENCE = json.loads((Path(__file__).parent / "smollm2_greedy.json").read_text())
FRANCE = REFERENCE["raw:The capital of France is"]
GREEDY = {"temperature": 0.0, "max_tokens": 24}
SETTINGS = {"model": str(SMOLLM2), "dtype": "float32", "max_model_len": 512, "num_pages": 256}


@pytest.fixture(scope="module")
def pipe() -> Iterator[Any]:
    with hami.pipe({"answer": {"backend": "LLM", **SETTINGS, "sampling": GREEDY}}) as opened:
        yield opened


def ids(count: int = 24) -> list[int]:
    return FRANCE["gen_ids"][:count]


def test_a_text_goes_in_and_a_text_comes_out(pipe: Any) -> None:
    answer = pipe({"data": "The capital of France is"})
    assert answer["result"].startswith(" Paris.")
    assert answer["token_ids"] == ids()
    assert answer["finish_reason"] == "length"
    assert answer["usage"]["prompt_tokens"] == len(FRANCE["prompt_ids"])
    assert answer["usage"]["completion_tokens"] == 24
    assert 0 < answer["timing"]["first_token_ms"] <= answer["timing"]["total_ms"]
    assert answer["data"] == "The capital of France is"


def test_ids_and_chats_are_prompts_too(pipe: Any) -> None:
    assert pipe({"data": FRANCE["prompt_ids"]})["token_ids"] == ids()
    chat = [{"role": "user", "content": "Say hello."}]
    assert pipe({"data": chat})["usage"]["prompt_tokens"] > 10


def test_a_request_overrides_the_sampling_of_the_node_key_by_key(pipe: Any) -> None:
    short = pipe({"data": FRANCE["prompt_ids"], "sampling": {"max_tokens": 3}})
    assert short["token_ids"] == ids(3)
    whole = pipe({"data": FRANCE["prompt_ids"], "sampling": hami.SamplingParams(temperature=0, max_tokens=2)})
    assert whole["token_ids"] == ids(2)


def test_a_node_s_sampling_may_be_an_object_that_requests_override() -> None:
    sampling = hami.SamplingParams(temperature=0, max_tokens=5)
    with hami.pipe({"answer": {"backend": "LLM", **SETTINGS, "sampling": sampling}}) as pipe:
        assert pipe({"data": FRANCE["prompt_ids"]})["token_ids"] == ids(5)
        assert pipe({"data": FRANCE["prompt_ids"], "sampling": {"max_tokens": 2}})["token_ids"] == ids(2)


def test_several_answers_are_lists(pipe: Any) -> None:
    answer = pipe({"data": "Once", "sampling": {"n": 3, "temperature": 1.0, "seed": 4, "max_tokens": 5}})
    assert len(answer["result"]) == len(answer["token_ids"]) == len(answer["finish_reason"]) == 3


def test_logprobs_are_plain_data(pipe: Any) -> None:
    answer = pipe({"data": FRANCE["prompt_ids"], "sampling": {"max_tokens": 2, "logprobs": 2}})
    assert [place["token"] for place in answer["logprobs"]] == ids(2)
    assert all(len(place["top"]) == 2 and place["rank"] == 1 for place in answer["logprobs"])
    json.dumps(answer["logprobs"])


def test_logprobs_name_their_tokens(pipe: Any) -> None:
    answer = pipe({"data": FRANCE["prompt_ids"], "sampling": {"max_tokens": 4, "logprobs": 2}})
    assert "".join(place["text"] for place in answer["logprobs"]) == answer["result"]
    assert b"".join(bytes(place["bytes"]) for place in answer["logprobs"]).decode() == answer["result"]
    assert all(place["top_texts"][0] == place["text"] for place in answer["logprobs"])
    assert all(place["top_bytes"][0] == place["bytes"] for place in answer["logprobs"])


def test_a_token_that_shows_no_text_has_a_name_and_no_bytes(pipe: Any) -> None:
    end = {"logit_bias": {2: 100}, "allowed_token_ids": [2, 5], "logprobs": 0}
    (place,) = pipe({"data": "Once", "sampling": end})["logprobs"]
    assert (place["text"], place["bytes"]) == ("<|im_end|>", None)
    (place,) = pipe({"data": "Once", "sampling": {**end, "skip_special_tokens": False}})["logprobs"]
    assert bytes(place["bytes"]) == b"<|im_end|>"


def test_a_prompt_is_echoed_with_its_text_ids_and_logprobs(pipe: Any) -> None:
    for data in ("The capital of France is", FRANCE["prompt_ids"]):
        request = {"data": data, "echo": True, "sampling": {"max_tokens": 2, "prompt_logprobs": 1}}
        prompt = pipe(request)["prompt"]
        assert (prompt["text"], prompt["token_ids"]) == ("The capital of France is", FRANCE["prompt_ids"])
        assert "".join(place["text"] for place in prompt["logprobs"]) == prompt["text"]
        assert [place["token"] for place in prompt["logprobs"]] == FRANCE["prompt_ids"]
        assert prompt["logprobs"][0]["logprob"] is None
        json.dumps(prompt)


def test_only_the_first_update_echoes_the_prompt(pipe: Any) -> None:
    request: dict[str, Any] = {"data": "The capital of France is", "echo": True, "stream": "full"}
    first, *others = pipe.stream(request)
    assert first["prompt"] == request["prompt"]
    assert all("prompt" not in update for update in others)
    assert first["prompt"]["logprobs"] is None
    assert "prompt" not in pipe({"data": "The capital of France is"})


def test_updates_are_plain_data(pipe: Any) -> None:
    sampling = {"max_tokens": 3, "logprobs": 1}
    updates = list(pipe.stream({"data": FRANCE["prompt_ids"], "stream": "full", "sampling": sampling}))
    whole = pipe({"data": FRANCE["prompt_ids"], "sampling": sampling})
    places = [place for update in updates for place in update["logprobs"] or ()]
    assert [place["text"] for place in places] == [place["text"] for place in whole["logprobs"]]
    json.dumps(updates)


def test_pieces_of_a_stream_are_the_text(pipe: Any) -> None:
    request: dict[str, Any] = {"data": "The capital of France is"}
    pieces = list(pipe.stream(request))
    assert len(pieces) > 3
    assert "".join(pieces) == request["result"]


def test_a_stream_of_ids_and_a_full_one(pipe: Any) -> None:
    parts = list(pipe.stream({"data": FRANCE["prompt_ids"], "stream": "token_ids"}))
    assert [token for part in parts for token in part] == ids()
    updates = list(pipe.stream({"data": FRANCE["prompt_ids"], "stream": "full"}))
    assert [token for update in updates for token in update["token_ids"]] == ids()
    assert updates[-1]["finish_reason"] == "length"


def test_a_consumer_who_does_not_look_loses_nothing_and_holds_up_nobody(pipe: Any) -> None:
    slow: dict[str, Any] = {"data": FRANCE["prompt_ids"], "sampling": {"max_tokens": 200, "ignore_eos": True}}
    stream = pipe.stream(slow)
    first = next(stream)
    others = [pipe.submit({"data": FRANCE["prompt_ids"]}) for _ in range(3)]
    assert all(other.result(100)["token_ids"] == ids() for other in others)
    pieces = [first, *stream]
    assert "".join(pieces) == slow["result"]
    assert len(slow["token_ids"]) == 200


def test_a_stream_that_is_left_is_aborted(pipe: Any) -> None:
    stream = pipe.stream({"data": "Once", "sampling": {"max_tokens": 400, "ignore_eos": True}})
    next(stream)
    stream.close()
    (node,) = pipe.stats()
    while node["waiting"]:
        (node,) = pipe.stats()
    assert pipe({"data": FRANCE["prompt_ids"]})["token_ids"] == ids()


def test_the_engine_tells_its_figures_at_once(pipe: Any) -> None:
    before = pipe.stats()[0]["backend"]
    pipe({"data": FRANCE["prompt_ids"]})
    stream = pipe.stream({"data": "Once", "sampling": {"max_tokens": 400, "ignore_eos": True}})
    next(stream)
    inside = pipe.stats()[0]["backend"]
    assert inside["running"] == 1 and inside["pages_referenced"] > 0
    stream.close()
    while pipe.stats()[0]["waiting"]:
        pass
    after = pipe.stats()[0]["backend"]
    assert after["num_sampled"] - before["num_sampled"] >= 25
    assert after["num_steps"] > before["num_steps"]
    assert after["pages_total"] == SETTINGS["num_pages"] - 1


def test_a_deadline_aborts(pipe: Any) -> None:
    with pytest.raises(hami.DeadlineExceeded):
        pipe({"data": "Once", "deadline_ms": 30, "sampling": {"max_tokens": 450, "ignore_eos": True}})
    assert pipe({"data": FRANCE["prompt_ids"]})["token_ids"] == ids()


def test_async_callers_stream(pipe: Any) -> None:
    async def consume() -> str:
        return "".join([piece async for piece in pipe.astream({"data": "The capital of France is"})])

    assert asyncio.run(consume()).startswith(" Paris.")


def test_many_callers_share_the_batches_and_get_their_own_answers(pipe: Any) -> None:
    alone = {name: pipe({"data": case["prompt_ids"]})["token_ids"] for name, case in REFERENCE.items()}
    wrong: list[str] = []

    def call(name: str) -> None:
        if pipe({"data": REFERENCE[name]["prompt_ids"]})["token_ids"] != alone[name]:
            wrong.append(name)

    callers = [threading.Thread(target=call, args=(name,)) for name in [*REFERENCE] * 4]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


@pytest.mark.parametrize(
    ("request_keys", "needle"),
    [
        ({"data": ""}, "empty"),
        ({"data": 7}, "int"),
        ({"data": "a", "sampling": {"temprature": 1}}, "temperature"),
        ({"data": "a", "sampling": 3}, "sampling"),
        ({"data": "a", "stream": "words"}, "words"),
        ({"data": [1] * 600}, "512"),
        ({"data": [49152]}, "49152"),
        ({"data": [{"role": "user"}]}, "content"),
    ],
)
def test_bad_requests_are_refused_by_name(pipe: Any, request_keys: dict[str, Any], needle: str) -> None:
    with pytest.raises(hami.RequestError, match=needle):
        pipe(request_keys)


def test_bad_settings_are_refused_when_the_pipeline_is_made() -> None:
    for keys, needle in (
        ({"model": "nowhere.gguf"}, "nowhere"),
        ({"model": str(SMOLLM2), "page_size": 0}, "page_size"),
        ({"model": str(SMOLLM2), "max_model_len": 1 << 20}, "max_model_len"),
        ({"model": str(SMOLLM2), "attension": "sdpa"}, "attention"),
    ):
        with pytest.raises(hami.Error, match=needle):
            hami.pipe({"backend": "LLM", **keys})


def test_the_parts_as_nodes_give_what_the_whole_gives(pipe: Any) -> None:
    model = {"model": str(SMOLLM2)}
    parts = {
        "tokenize": {"backend": "Tokenize", **model, "next": "generate"},
        "generate": {
            "backend": "ContinuousBatching",
            **SETTINGS,
            "sampling": GREEDY,
            "next": "detokenize",
        },
        "detokenize": {"backend": "Detokenize", **model},
    }
    prompts = ["The capital of France is", "1, 2, 3, 4,"]
    whole = [answer["result"] for answer in pipe([{"data": prompt} for prompt in prompts])]
    with hami.pipe(parts) as opened:
        assert [answer["result"] for answer in opened([{"data": prompt} for prompt in prompts])] == whole


def test_torch_on_the_cpu_gives_the_same_tokens() -> None:
    with hami.pipe({"backend": "LLM", **SETTINGS, "attention": "sdpa", "sampling": GREEDY}) as opened:
        assert opened({"data": FRANCE["prompt_ids"]})["token_ids"] == ids()
