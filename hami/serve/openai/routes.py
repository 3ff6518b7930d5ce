"""The endpoints of the API."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from . import description
from .calls import Call
from .messages import chat_of
from .models import Model, Models, Service
from .parameters import chat_sampling, completion_sampling, items_of, names_of, prompts_of, refuse_unsupported
from .refusals import RefusingRoute
from .schema import ChatRequest, CompletionRequest, GenerationRequest
from .shapes import ChatShape, CompletionShape


def router(service: Service) -> APIRouter:
    """Return the API for the language models of a service; to be included without a prefix."""
    models = Models(service)
    routes = APIRouter(
        prefix="/v1", tags=["openai"], route_class=RefusingRoute, responses={"default": description.FAILURE}
    )

    @routes.get("/models", responses={200: description.MODELS})
    async def list_models() -> dict[str, Any]:
        """List the models."""
        return models.listed()

    @routes.get("/models/{id:path}", responses={200: description.MODEL})
    async def describe_model(id: str) -> dict[str, Any]:
        """Tell of one model."""
        return models.described(id)

    @routes.post("/completions", response_model=None, responses={200: description.COMPLETION})
    async def complete(body: CompletionRequest, request: Request) -> Response:
        """Continue texts."""
        return await completion_call(body, _model_for(body, models)).respond(service.pipe, request)

    @routes.post("/chat/completions", response_model=None, responses={200: description.CHAT_COMPLETION})
    async def chat(body: ChatRequest, request: Request) -> Response:
        """Answer the last message of a chat."""
        return await chat_call(body, _model_for(body, models)).respond(service.pipe, request)

    return routes


def _model_for(body: GenerationRequest, models: Models) -> Model:
    """Return whom a request is for, if it asks for nothing that is not supported. Raises ApiError."""
    model = models.find(body.model)
    refuse_unsupported(body)
    return model


def completion_call(body: CompletionRequest, model: Model) -> Call:
    """Return what a completion asks for. Raises ApiError."""
    params = completion_sampling(body, model)
    echo, only_scores = bool(body.echo), body.max_tokens == 0
    return Call(
        body.model,
        items_of(body, model, prompts_of(body.prompt), params, echo=echo),
        CompletionShape(params.n, num_top=body.logprobs, echo=echo, only_scores=only_scores),
        names=names_of(body),
        is_streamed=bool(body.stream),
        has_usage=_wants_usage(body),
        only_scores=only_scores,
    )


def chat_call(body: ChatRequest, model: Model) -> Call:
    """Return what a chat completion asks for. Raises ApiError."""
    params = chat_sampling(body, model)
    return Call(
        body.model,
        items_of(body, model, [chat_of(body.messages)], params),
        ChatShape(),
        names=names_of(body),
        is_streamed=bool(body.stream),
        has_usage=_wants_usage(body),
    )


def _wants_usage(body: GenerationRequest) -> bool:
    return body.stream_options is not None and bool(body.stream_options.include_usage)
