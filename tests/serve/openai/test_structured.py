"""Laws of answers of a given form: JSON of a schema, as OpenAI's client asks for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai_service import MODEL, Served, openai
from pydantic import BaseModel

pytest.importorskip("llguidance", reason="needs llguidance, which is not installed")
pytestmark = pytest.mark.timeout(240)

ASK = [{"role": "user", "content": "Tell me of the town Oslo as JSON."}]
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["Oslo", "Bergen"]}, "people": {"type": "integer", "maximum": 99}},
    "required": ["name", "people"],
    "additionalProperties": False,
}


class Country(BaseModel):
    name: str


class Town(BaseModel):
    """What the client turns into a schema, with a reference in it."""

    country: Country
    is_large: bool


def ask(served: Served, **keys: Any) -> Any:
    return served.client.chat.completions.create(model=MODEL, messages=ASK, max_tokens=60, **keys)


def schema_format(schema: Any = SCHEMA) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": {"name": "town", "schema": schema, "strict": True}}


def test_an_answer_is_json_of_the_schema(smollm2: Served) -> None:
    answer = ask(smollm2, response_format=schema_format()).choices[0]
    town = json.loads(answer.message.content)
    assert list(town) == ["name", "people"]
    assert town["name"] in {"Oslo", "Bergen"}
    assert answer.finish_reason == "stop"


def test_a_stream_is_json_of_the_schema(smollm2: Served) -> None:
    chunks = ask(smollm2, response_format=schema_format(), stream=True)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert text == ask(smollm2, response_format=schema_format()).choices[0].message.content


def test_an_answer_is_any_json_object(smollm2: Served) -> None:
    answer = ask(smollm2, response_format={"type": "json_object"}, stop=["}"])
    assert answer.choices[0].message.content.startswith("{")


def test_an_answer_is_any_text(smollm2: Served) -> None:
    text = ask(smollm2, response_format={"type": "text"}).choices[0].message.content
    assert text == ask(smollm2).choices[0].message.content


def test_the_client_parses_an_answer_into_a_class(smollm2: Served) -> None:
    answer = smollm2.client.chat.completions.parse(
        model=MODEL, messages=ASK, response_format=Town, max_tokens=60, temperature=0
    )
    town = answer.choices[0].message.parsed
    assert isinstance(town, Town)
    assert isinstance(town.country, Country)


def test_guided_json_and_guided_regex_are_forms_too(smollm2: Served) -> None:
    guided = ask(smollm2, extra_body={"guided_json": SCHEMA}).choices[0].message.content
    assert guided == ask(smollm2, response_format=schema_format()).choices[0].message.content
    answer = ask(smollm2, extra_body={"guided_regex": "(yes|no), it is [a-z]{3}"}).choices[0].message.content
    assert answer[:3] in {"yes", "no,"}


def test_completions_have_forms_as_well(smollm2: Served) -> None:
    answer = smollm2.client.completions.create(
        model=MODEL, prompt="JSON: ", max_tokens=60, extra_body={"response_format": schema_format()}
    )
    assert list(json.loads(answer.choices[0].text)) == ["name", "people"]


@pytest.mark.parametrize(
    ("keys", "param", "needle"),
    [
        ({"response_format": {"type": "yaml"}}, "response_format", "json_schema"),
        ({"response_format": {"type": "json_schema"}}, "response_format", "json_schema"),
        ({"response_format": schema_format({"type": "nothing"})}, "response_format", "nothing"),
        ({"extra_body": {"guided_regex": "("}}, "guided_regex", "guided_regex|regex"),
        ({"extra_body": {"guided_json": "{"}}, "guided_json", "JSON"),
        ({"extra_body": {"guided_json": {}, "guided_regex": "a"}}, "guided_regex", "only one"),
    ],
)
def test_a_bad_form_is_refused(smollm2: Served, keys: dict[str, Any], param: str, needle: str) -> None:
    with pytest.raises(openai.BadRequestError, match=needle) as caught:
        ask(smollm2, **keys)
    assert caught.value.param == param


def test_a_bad_form_is_refused_before_a_stream_begins(smollm2: Served) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(smollm2, response_format=schema_format({"type": "nothing"}), stream=True)
    assert caught.value.code == "llm-grammar"
