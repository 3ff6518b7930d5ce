"""What clients may send, as models that check types and make the OpenAPI page; SamplingParams check ranges.

A parameter that is null is one that was left out. One that is not declared here is refused. Those of OpenAI
that change nothing here are declared and ignored; those that would change the answer, and cannot be had, are
in REFUSED.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

WORD = 1 << 63  # numbers that the pipeline reads have 64 bits

Ignored = Annotated[Any, Field(description="accepted and ignored")]
Refused = Annotated[Any, Field(description="not supported: refused unless null")]


class StreamOptions(BaseModel):
    """What a stream has besides the answer."""

    model_config = ConfigDict(strict=True, extra="forbid")

    include_usage: bool | None = Field(None, description="a last chunk with the usage of the whole")
    include_obfuscation: Ignored = None


class JsonSchema(BaseModel):
    """The schema of an answer; `strict` or not, the answer follows it."""

    model_config = ConfigDict(strict=True, extra="forbid")

    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | None = Field(None, alias="schema")
    strict: bool | None = None


class ResponseFormat(BaseModel):
    """The form of an answer: any text, any JSON object, or JSON of a schema."""

    model_config = ConfigDict(strict=True, extra="forbid")

    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


class GenerationRequest(BaseModel):
    """What completions and chat completions have in common."""

    model_config = ConfigDict(strict=True, extra="forbid")

    model: str = Field(description="the name of a node, or of the pipeline if it has one language model")
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    n: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    response_format: ResponseFormat | None = None
    user: str | None = Field(None, description='whose request it is, for `policy = "fair"`')

    # the engine's own, under the names of vLLM; with the client of OpenAI in `extra_body`
    top_k: int | None = None
    min_p: float | None = None
    min_tokens: int | None = None
    repetition_penalty: float | None = None
    stop_token_ids: list[int] | None = None
    ignore_eos: bool | None = None
    include_stop_str_in_output: bool | None = None
    skip_special_tokens: bool | None = None
    allowed_token_ids: list[int] | None = None
    beam_width: int | None = Field(None, description="search for the answers instead of drawing them")
    length_penalty: float | None = None
    early_stopping: bool | None = None
    guided_json: dict[str, Any] | str | None = Field(None, description="a JSON schema of the answer")
    guided_regex: str | None = Field(None, description="an expression that all of the answer matches")

    # of the pipeline
    priority: int | None = Field(
        None, ge=-WORD, lt=WORD, description='higher first, with `policy = "priority"`'
    )
    deadline_ms: float | None = Field(None, ge=0, description="the answer must be there by then")
    cache_salt: str | None = Field(None, description="only requests of one salt share prefixes")


class CompletionRequest(GenerationRequest):
    """The body of `POST /v1/completions`."""

    prompt: str | list[str] | list[int] | list[list[int]]
    echo: bool | None = None
    logprobs: int | None = None
    best_of: Refused = None
    suffix: Refused = None


class ChatRequest(GenerationRequest):
    """The body of `POST /v1/chat/completions`."""

    messages: list[dict[str, Any]]
    max_completion_tokens: int | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    modalities: list[str] | None = None

    tools: Refused = None
    functions: Refused = None
    function_call: Refused = None
    audio: Refused = None
    web_search_options: Refused = None
    moderation: Refused = None
    reasoning_effort: Refused = None
    verbosity: Refused = None

    metadata: Ignored = None
    store: Ignored = None
    service_tier: Ignored = None
    prediction: Ignored = None
    tool_choice: Ignored = None
    parallel_tool_calls: Ignored = None
    safety_identifier: Ignored = None
    prompt_cache_key: Ignored = None
    prompt_cache_options: Ignored = None
    prompt_cache_retention: Ignored = None


REFUSED = {
    "best_of": "all `n` answers are given, and none is picked among more",
    "suffix": "the models continue texts, and insert nothing",
    "tools": "the models call no tools: see `response_format`",
    "functions": "the models call no functions: see `response_format`",
    "function_call": "the models call no functions: see `response_format`",
    "audio": "the models write text only",
    "web_search_options": "the models search nothing",
    "moderation": "nothing is moderated",
    "reasoning_effort": "say it in a message",
    "verbosity": "say it in a message",
}
