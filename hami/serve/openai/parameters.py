"""From what a client sends to what the pipeline gets: sampling parameters, prompts, dicts.

Everything wrong is an ApiError that names the client's parameter, before the pipeline is asked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from hami.backends.llm.sampling import (  # type: ignore[import-untyped]
    SamplingError,
    SamplingParams,
)
from hami.errors import quoted

from .errors import ApiError, api_error
from .models import Model
from .schema import REFUSED, ChatRequest, CompletionRequest, GenerationRequest, ResponseFormat

MAX_LOGPROBS = 20
UNBOUNDED = 1 << 31  # more tokens than any context has: the engine cuts it to what is left

_FORMS = ("response_format", "guided_json", "guided_regex")
_SAMPLED = tuple(
    each.name
    for each in fields(SamplingParams)
    if each.name in GenerationRequest.model_fields and each.name != "max_tokens"  # it has several names
)


def refuse_unsupported(body: GenerationRequest) -> None:
    """Raise ApiError for what OpenAI's models do and these do not."""
    for name, reason in REFUSED.items():
        value = getattr(body, name, None)
        if value and not (name == "best_of" and value == (body.n or 1)):
            raise ApiError(f"`{name}` is not supported: {reason}", param=name, code="unsupported_parameter")
    if isinstance(body, ChatRequest) and body.modalities not in (None, ["text"]):
        raise ApiError("the models write text only", param="modalities", code="unsupported_parameter")
    if body.stream_options is not None and not body.stream:
        message = "`stream_options` is only allowed with `stream`"
        raise ApiError(message, param="stream_options", code="invalid_value")


def completion_sampling(body: CompletionRequest, model: Model) -> SamplingParams:
    """Return the parameters of a completion; what it leaves out is as the node says. Raises ApiError.

    `max_tokens` 0 only scores the prompt that `echo` gives back; the engine must be asked for a token.
    """
    logprobs = _checked_logprobs("logprobs", body.logprobs)
    if body.max_tokens == 0 and not body.echo:
        raise ApiError("`max_tokens` is `0`: give at least 1, or `echo` the prompt", param="max_tokens")
    apart = {
        "max_tokens": 1 if body.max_tokens == 0 else body.max_tokens,
        "logprobs": logprobs,
        "prompt_logprobs": logprobs if body.echo else None,
    }
    return _sampling(body, model, apart)


def chat_sampling(body: ChatRequest, model: Model) -> SamplingParams:
    """Return the parameters of a chat, which may take all the context that is left. Raises ApiError."""
    top = _checked_logprobs("top_logprobs", body.top_logprobs)
    if top is not None and not body.logprobs:
        raise ApiError("`top_logprobs` needs `logprobs` to be true", param="top_logprobs")
    most = body.max_completion_tokens if body.max_completion_tokens is not None else body.max_tokens
    if most is None and "max_tokens" not in model.sampling:
        most = UNBOUNDED
    return _sampling(body, model, {"max_tokens": most, "logprobs": (top or 0) if body.logprobs else None})


def names_of(body: GenerationRequest) -> dict[str, str]:
    """Return the client's names of what the engine calls otherwise, for errors."""
    form = next((name for name in _FORMS if getattr(body, name) is not None), "response_format")
    names = {"n": "n", "form": form, "json_schema": form, "regex": form, "prompt": "prompt"}
    if isinstance(body, ChatRequest):
        names |= {"prompt": "messages", "logprobs": "top_logprobs"}
        if body.max_completion_tokens is not None:
            names["max_tokens"] = "max_completion_tokens"
    return names


def items_of(
    body: GenerationRequest,
    model: Model,
    prompts: Iterable[Any],
    params: SamplingParams,
    *,
    echo: bool = False,
) -> list[dict[str, Any]]:
    """Return a request of the pipeline for each prompt."""
    keys = {
        "sampling": params,
        "stream": "full",
        "node_name": model.entry,
        "priority": body.priority,
        "deadline_ms": body.deadline_ms,
        "user": body.user,
        "salt": body.cache_salt,
        "echo": echo or None,
    }
    given = {key: value for key, value in keys.items() if value is not None}
    return [{"data": prompt, **given} for prompt in prompts]


def prompts_of(prompt: Any) -> list[Any]:
    """Return the prompts of a completion: one, or each of a list of texts or of lists of ids."""
    if isinstance(prompt, str) or (prompt and isinstance(prompt[0], int)):
        return [prompt]
    if not prompt:
        raise ApiError("`prompt` is empty: give at least one", param="prompt")
    return list(prompt)


def _sampling(body: GenerationRequest, model: Model, apart: dict[str, Any]) -> SamplingParams:
    given = {name: value for name in _SAMPLED if (value := getattr(body, name)) is not None}
    given |= {name: value for name, value in apart.items() if value is not None}
    try:
        return SamplingParams.of({**model.sampling, **given, **_form(body)})
    except SamplingError as error:
        raise api_error(error, names_of(body)) from error


def _form(body: GenerationRequest) -> dict[str, Any]:
    """Return which grammar the answer must follow, in the engine's words; nothing if none is asked for."""
    given = [name for name in _FORMS if getattr(body, name) is not None]
    if not given:
        return {}
    if len(given) > 1:
        raise ApiError(f"give only one of {quoted(given)}", param=given[1])
    form: dict[str, dict[str, Any]] = {
        "guided_json": {"json_schema": body.guided_json},
        "guided_regex": {"regex": body.guided_regex},
        "response_format": {"json_schema": _schema_of(body.response_format)},
    }
    return {"json_schema": None, "regex": None, **form[given[0]]}


def _schema_of(wanted: ResponseFormat | None) -> dict[str, Any] | None:
    if wanted is None or wanted.type == "text":
        return None
    if wanted.type == "json_object":
        return {"type": "object"}
    if wanted.json_schema is None:
        raise ApiError("`response_format` has no `json_schema`", param="response_format")
    return wanted.json_schema.schema_ or {}


def _checked_logprobs(name: str, count: int | None) -> int | None:
    if count is not None and not 0 <= count <= MAX_LOGPROBS:
        raise ApiError(f"`{name}` is `{count}`: give a number from 0 to {MAX_LOGPROBS}", param=name)
    return count
