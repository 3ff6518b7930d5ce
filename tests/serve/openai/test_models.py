"""Laws of the list of models: the language models of a pipeline, by names that requests may use."""

from __future__ import annotations

from typing import Any

import pytest
from openai_service import (
    MODEL,
    ByteTokenizer,
    Script,
    Served,
    Service,
    fake_engine,
    fake_node,
    openai,
    served,
)

import hami
from hami.backends.llm import nodes
from hami.serve.openai.errors import ApiError
from hami.serve.openai.models import Models


def models_of(source: Any, name: str = "demo") -> Models:
    """Return the models of a pipeline that nobody serves."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nodes, "load_engine", lambda *_: fake_engine(tokenizer=ByteTokenizer()))
        with hami.pipe(source) as pipe:
            return Models(Service(pipe, name))


def ids_of(models: Models) -> list[str]:
    return [model["id"] for model in models.listed()["data"]]


LLM = {"backend": "LLM", "model": "fake"}
TWO = {
    "small": {**LLM, "sampling": {"max_tokens": 3}, "next": "out"},
    "large": {**LLM, "next": "out"},
    "out": {"backend": "Identity", "map": "small[result:data],large[result:other]"},
}


def test_the_client_lists_the_node_and_the_name_of_the_pipeline(smollm2: Served) -> None:
    models = smollm2.client.models.list().data
    assert [model.id for model in models] == [MODEL, "demo"]
    assert all(model.object == "model" and model.created > 1_700_000_000 for model in models)


def test_the_client_asks_for_one_model(smollm2: Served) -> None:
    model = smollm2.client.models.retrieve("demo")
    assert (model.id, model.owned_by, model.root) == ("demo", "hami", MODEL)


def test_an_unknown_model_is_not_found_and_the_nearest_is_named(smollm2: Served) -> None:
    with pytest.raises(openai.NotFoundError, match="`answer`") as caught:
        smollm2.client.models.retrieve("answr")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")
    assert caught.value.type == "invalid_request_error"


@pytest.mark.parametrize("kind", ["chat", "completion"])
def test_asking_an_unknown_model_is_not_found(smollm2: Served, kind: str) -> None:
    with pytest.raises(openai.NotFoundError, match="nobody"):
        if kind == "chat":
            smollm2.client.chat.completions.create(
                model="nobody", messages=[{"role": "user", "content": "a"}]
            )
        else:
            smollm2.client.completions.create(model="nobody", prompt="a")


def test_both_names_give_the_same_answer(smollm2: Served) -> None:
    answers = [smollm2.client.completions.create(model=name, prompt="1, 2,") for name in (MODEL, "demo")]
    assert answers[0].choices == answers[1].choices
    assert [answer.model for answer in answers] == [MODEL, "demo"]


def test_nodes_of_other_backends_are_no_models() -> None:
    models = models_of({"ready": {"backend": "Identity", "next": "answer"}, "answer": LLM})
    assert ids_of(models) == ["answer", "demo"]
    assert ids_of(models_of({"a": {"backend": "Pow"}})) == []


def test_a_pipeline_that_is_called_like_its_node_is_listed_once() -> None:
    assert ids_of(models_of({"answer": LLM}, name="answer")) == ["answer"]


def test_a_model_inside_an_expression_goes_by_the_name_of_its_node() -> None:
    models = models_of({"whole": {"backend": "S[Identity, LLM]", "model": "fake"}})
    assert ids_of(models) == ["whole", "demo"]


def test_of_several_models_each_has_its_node_s_name_only() -> None:
    models = models_of(TWO)
    assert ids_of(models) == ["small", "large"]
    with pytest.raises(ApiError, match="demo"):
        models.find("demo")


def test_a_request_enters_where_its_model_is() -> None:
    models = models_of(TWO)
    assert [models.find(id).entry for id in ("small", "large")] == ["small", "large"]
    assert models_of({"answer": LLM}).find("answer").entry is None


def test_a_request_enters_where_its_model_can_be_reached_from() -> None:
    before = {"ready": {"backend": "Identity", "next": "small"}, **TWO}
    assert models_of(before).find("small").entry == "ready"


def test_the_node_s_sampling_is_known() -> None:
    models = models_of(TWO)
    assert models.find("small").sampling == {"max_tokens": 3}
    assert models.find("large").sampling == {}


def test_a_node_s_sampling_may_be_an_object() -> None:
    models = models_of({"answer": {**LLM, "sampling": hami.SamplingParams(max_tokens=5)}})
    assert models.find("answer").sampling["max_tokens"] == 5


def test_a_model_behind_another_node_answers() -> None:
    engine = fake_engine(tokenizer=ByteTokenizer(), wrap=lambda inner: Script(inner, b"hello"))
    source = {"ready": {"backend": "Identity", "next": MODEL}, **fake_node()}
    with served(source, engine) as running:
        answer = running.client.completions.create(model=MODEL, prompt="abcd", temperature=0)
        assert answer.choices[0].text == "hello"
        stream = running.client.completions.create(model=MODEL, prompt="abcd", temperature=0, stream=True)
        texts = [chunk.choices[0].text for chunk in stream]
    assert "".join(texts) == "hello"
    assert len(texts) > 1


def test_a_model_before_other_nodes_answers_if_they_hand_on_what_it_wrote() -> None:
    engine = fake_engine(tokenizer=ByteTokenizer(), wrap=lambda inner: Script(inner, b"hello"))
    keys = {"model": MODEL, "prompt": "abcd", "temperature": 0}
    with served({**fake_node(next="out"), "out": {"backend": "Identity"}}, engine) as running:
        assert running.client.completions.create(**keys).choices[0].text == "hello"
        (chunk,) = running.client.completions.create(**keys, stream=True)
    assert (chunk.choices[0].text, chunk.choices[0].finish_reason) == ("hello", "stop")


def test_each_of_several_models_answers_for_itself() -> None:
    @hami.register
    class EitherOfTwo(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> None:
            for item in batch:
                item["result"] = item["small"] if "small" in item else item["large"]

    out = {"backend": "EitherOfTwo", "map": "small[result:small],large[result:large]"}
    engine = fake_engine(tokenizer=ByteTokenizer(), wrap=lambda inner: Script(inner, b"hello"))
    with served({**TWO, "out": out}, engine) as running:
        for name, text in (("small", "hel"), ("large", "hello")):
            answer = running.client.completions.create(model=name, prompt="abcd", temperature=0)
            assert (answer.model, answer.choices[0].text) == (name, text)
        items = {node["node"]: node["items"] for node in running.pipe.stats()}
    assert (items["small"], items["large"]) == (1, 1)
