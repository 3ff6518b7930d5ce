"""Answers follow their grammar whatever the model says, and end where it ends."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some
from llm_engines import EOS, ByteTokenizer, Script, fake_llm
from llm_grammars import PROMPT, SCHEMAS, drawn
from llm_samples import SMOLLM2, needs_smollm2

pytest.importorskip("llguidance", reason="needs llguidance, which is not installed")
jsonschema = pytest.importorskip("jsonschema", reason="needs jsonschema, which is not installed")

from hami.backends.llm.llm import LLM  # noqa: E402
from hami.backends.llm.sampling import SamplingParams  # noqa: E402

REGEXES = [
    "yes|no",
    r"[A-Z][a-z]{2,5} \d{2}/\d{2}",
    r"(\+|-)?(0|[1-9][0-9]{0,3})(\.[0-9]{1,2})?",
    "größer|ähnlich|🙂{2}",
    r'"[^"\n]{3}"#',
]


def scripted(text: bytes, **keywords: Any) -> LLM:
    """Return an LLM that would say `text` after a prompt of four tokens, and then end."""
    return fake_llm(tokenizer=ByteTokenizer(), wrap=lambda inner: Script(inner, text), **keywords)


def said(text: bytes, **keywords: Any) -> Any:
    """Return the answer of a model that would say `text`."""
    with scripted(text) as model:
        params = SamplingParams(**{"temperature": 0.0, "max_tokens": 40, **keywords})
        return model.generate([PROMPT], params)[0]


@pytest.fixture(scope="module")
def llm() -> Iterator[LLM]:
    with fake_llm(tokenizer=ByteTokenizer()) as model:
        yield model


# --- what is said ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCHEMAS)
def test_json_is_of_its_schema(llm: LLM, name: str) -> None:
    (answer,) = llm.generate([PROMPT], drawn(json_schema=SCHEMAS[name], n=4))
    for output in answer.outputs:
        assert output.finish_reason == "stop", output.text
        jsonschema.validate(json.loads(output.text), SCHEMAS[name])


def test_a_schema_may_be_given_as_text(llm: LLM) -> None:
    as_text, as_dict = llm.generate(
        [PROMPT] * 2,
        [drawn(json_schema=schema) for schema in (json.dumps(SCHEMAS["nested"]), SCHEMAS["nested"])],
    )
    assert as_text.token_ids == as_dict.token_ids


def test_json_is_written_as_by_json_dumps(llm: LLM) -> None:
    (answer,) = llm.generate([PROMPT], drawn(json_schema=SCHEMAS["nested"]))
    assert re.match(r'\{"name": ".*", "at": \{"x": -?\d+, "y": ', answer.text)
    compact = {**SCHEMAS["nested"], "x-guidance": {"item_separator": ",", "key_separator": ":"}}
    (answer,) = llm.generate([PROMPT], drawn(json_schema=compact))
    assert re.match(r'\{"name":".*","at":\{"x":-?\d+,"y":', answer.text)


@pytest.mark.parametrize("text", [b'{"a": [1, true, {"b": null}], "c": "\\n \xc3\xa9"}', b"{}"])
def test_any_object_is_the_schema_of_type_object_and_any_json_the_empty_one(text: bytes) -> None:
    for schema in ({"type": "object"}, {}):
        answer = said(text, json_schema=schema, max_tokens=60)
        assert (answer.text.encode(), answer.finish_reason) == (text, "stop")
    assert said(b"Sure! Here is", json_schema={"type": "object"}).text.startswith("{")


@pytest.mark.parametrize("regex", REGEXES)
def test_a_regex_matches_the_whole_answer(llm: LLM, regex: str) -> None:
    (answer,) = llm.generate([PROMPT], drawn(regex=regex, n=4))
    for output in answer.outputs:
        assert output.finish_reason == "stop" and re.fullmatch(regex, output.text), output.text


def test_greedy_takes_the_likeliest_token_that_is_allowed() -> None:
    assert said(b"maybe", regex="(yes|no|mango)!").text.startswith("ma")


_LEAVES: Any = some.one_of(
    some.just({"type": "boolean"}),
    some.just({"type": "null"}),
    some.just({"type": "number"}),
    some.tuples(some.integers(-999, 0), some.integers(0, 999)).map(
        lambda pair: {"type": "integer", "minimum": pair[0], "maximum": pair[1]}
    ),
    some.integers(0, 5).map(lambda length: {"type": "string", "maxLength": length}),
    some.lists(some.one_of(some.integers(), some.text(max_size=4)), min_size=1, max_size=3).map(
        lambda values: {"enum": values}
    ),
)


def _grown(inner: Any) -> Any:
    def of(properties: dict[str, Any], are_required: bool) -> dict[str, Any]:
        required = list(properties) if are_required else []
        return {
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": False,
        }

    return some.one_of(
        inner.map(lambda items: {"type": "array", "items": items, "maxItems": 2}),
        some.builds(of, some.dictionaries(some.text(max_size=4), inner, max_size=3), some.booleans()),
        some.lists(inner, min_size=1, max_size=3).map(lambda choices: {"anyOf": choices}),
    )


@settings(
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(schema=some.recursive(_LEAVES, _grown, max_leaves=5))
def test_json_is_of_any_schema(llm: LLM, schema: dict[str, Any]) -> None:
    (answer,) = llm.generate([PROMPT], drawn(json_schema=schema))
    assert answer.finish_reason == "stop"
    jsonschema.validate(json.loads(answer.text), schema)


# --- where it ends --------------------------------------------------------------------------------


def test_what_nothing_may_follow_ends_without_an_end_token() -> None:
    answer = said(b"yes, of course", regex="yes|no")
    assert (answer.text, answer.token_ids, answer.finish_reason) == ("yes", [*b"yes"], "stop")
    assert answer.outputs[0].stop_reason is None


def test_the_end_token_is_allowed_only_where_the_grammar_is_satisfied() -> None:
    answer = said(b"abb", regex="ab*")
    assert (answer.text, answer.token_ids, answer.finish_reason) == ("abb", [*b"abb", EOS], "stop")
    assert len(said(b"ab", regex="ab{4}").text) == 5
    assert said(b"", regex="()").token_ids == [EOS]


def test_an_ignored_end_token_never_comes_and_the_grammar_still_ends() -> None:
    answer = said(b"abb", regex="ab*", ignore_eos=True, max_tokens=9)
    assert (answer.text, answer.finish_reason) == ("a" + 8 * "b", "length")
    assert said(b"", regex="ab", ignore_eos=True).text == "ab"
    assert said(b"x", regex="()", ignore_eos=True).finish_reason == "stop"


def test_min_tokens_holds_back_the_end_unless_nothing_may_follow() -> None:
    assert len(said(b"a", regex="ab*", min_tokens=5).text) >= 5
    answer = said(b"a", regex="ab", min_tokens=5)
    assert (answer.text, answer.finish_reason) == ("ab", "stop")


def test_max_tokens_cuts_off_and_a_grammar_finished_by_the_last_token_is_no_cut() -> None:
    answer = said(b"abc", regex="abc", max_tokens=2)
    assert (answer.text, answer.finish_reason) == ("ab", "length")
    assert said(b"abc", regex="abc", max_tokens=3).finish_reason == "stop"


def test_a_stop_token_of_the_caller_ends_where_it_fits_or_where_the_grammar_is_satisfied() -> None:
    answer = said(b"ABXDE", regex="[A-Z]{5}", stop_token_ids=[ord("X")])
    assert (answer.text, answer.outputs[0].stop_reason) == ("AB", ord("X"))
    answer = said(b"abX", regex="[a-c]+", stop_token_ids=[ord("X")])
    assert (answer.text, answer.outputs[0].stop_reason) == ("ab", ord("X"))
    assert len(said(b"abX", regex="[a-c]{4}", stop_token_ids=[ord("X")]).text) == 4


def test_a_stop_text_cuts_off_as_ever() -> None:
    answer = said(b"abcabc", regex="[a-c]{6}", stop=["ca"])
    assert (answer.text, answer.outputs[0].stop_reason) == ("ab", "ca")


def test_allowed_token_ids_narrow_the_grammar(llm: LLM) -> None:
    (answer,) = llm.generate([PROMPT], drawn(regex="[a-z]{20}", allowed_token_ids=[*b"xyz"]))
    assert re.fullmatch("[xyz]{20}", answer.text)


# --- a real model ---------------------------------------------------------------------------------


@needs_smollm2
def test_a_real_model_answers_in_json_and_by_regex() -> None:
    schemas = [SCHEMAS["nested"], SCHEMAS["numbers"], SCHEMAS["enum"]]
    chat = [{"role": "user", "content": "Tell me of a place, as JSON. Be short."}]
    params = [SamplingParams(temperature=0, max_tokens=60, json_schema=schema) for schema in schemas]
    patterns = [r"The capital is [A-Z][a-z]{3,12}\.", r"(yes|no), because [a-z ]{5,20}\."]
    params += [drawn(40, regex=pattern, temperature=0.5) for pattern in patterns]
    free = SamplingParams(temperature=0, max_tokens=6)
    with LLM(SMOLLM2, dtype="float32", max_model_len=128, num_pages=80) as model:
        (alone,) = model.generate(["The capital of France is"], free)
        *bound, company = model.generate([*[chat] * len(params), "The capital of France is"], [*params, free])
    assert company.token_ids == alone.token_ids and "Paris" in company.text
    for answer, schema in zip(bound, schemas, strict=False):
        assert answer.finish_reason == "stop", answer.text
        jsonschema.validate(json.loads(answer.text), schema)
    for answer, pattern in zip(bound[len(schemas) :], patterns, strict=True):
        assert re.fullmatch(pattern, answer.text), answer.text
