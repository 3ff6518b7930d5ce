"""Laws of the OpenAPI page: it has every endpoint, with every parameter and what becomes of it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai_service import ByteTokenizer, fake_engine, fake_node, served

from hami.serve.openai.schema import REFUSED, ChatRequest, CompletionRequest


@pytest.fixture(scope="module")
def page() -> Any:
    """What the server says of itself."""
    with served(fake_node(), fake_engine(tokenizer=ByteTokenizer())) as running:
        answer = running.client.with_options(base_url=running.url.removesuffix("/v1"))
        return json.loads(answer.get("/openapi.json", cast_to=str))


def test_every_endpoint_is_there(page: Any) -> None:
    assert list(page["paths"]) == ["/v1/models", "/v1/models/{id}", "/v1/completions", "/v1/chat/completions"]


@pytest.mark.parametrize("request_class", [ChatRequest, CompletionRequest])
def test_every_parameter_is_there(page: Any, request_class: Any) -> None:
    described = page["components"]["schemas"][request_class.__name__]
    assert set(described["properties"]) == set(request_class.model_fields)
    assert described["additionalProperties"] is False


def test_what_is_refused_is_said_to_be(page: Any) -> None:
    schemas = page["components"]["schemas"]
    properties = schemas["ChatRequest"]["properties"] | schemas["CompletionRequest"]["properties"]
    refused = {name for name, each in properties.items() if "refused" in each.get("description", "")}
    assert refused == set(REFUSED)
