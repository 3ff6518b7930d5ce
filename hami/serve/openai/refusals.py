"""Routes whose errors have OpenAI's shape, those of the types of a body included."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from hami.errors import did_you_mean

from .calls import to_json
from .errors import ApiError, api_error
from .schema import ChatRequest, CompletionRequest

_KNOWN = sorted({*CompletionRequest.model_fields, *ChatRequest.model_fields})


class RefusingRoute(APIRoute):
    """Answers with the error instead of raising it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return what FastAPI calls for each request."""
        handle = super().get_route_handler()

        async def answer(request: Request) -> Response:
            try:
                return await handle(request)
            except RequestValidationError as error:
                return refusal(_bad_body(error.errors()))
            except HTTPException as error:  # a body that cannot be read
                message = "the body cannot be read: send JSON in UTF-8, nested no deeper than is needed"
                return refusal(ApiError(message, status=error.status_code, code="invalid_json"))
            except Exception as error:
                return refusal(api_error(error))

        return answer


def refusal(error: ApiError) -> Response:
    """Return the answer that tells of an error."""
    return Response(to_json(error.body()), error.status, media_type="application/json")


def _bad_body(errors: Sequence[Any]) -> ApiError:
    """Return what is wrong with the first parameter that is; a union has an error for each of its members."""
    first = errors[0]
    kind, place = first["type"], [str(step) for step in first["loc"][1:]]
    if kind == "json_invalid":
        reason = first.get("ctx", {}).get("error", "")
        return ApiError(f"the body is not valid JSON: {reason}", code="invalid_json")
    if not place:
        return ApiError("the body must be a JSON object, sent as `application/json`", code="invalid_json")
    param = place[0]
    if kind == "missing" and len(place) == 1:
        return ApiError(f"you must provide `{param}`", param=param, code="missing_required_parameter")
    path = ".".join(place)
    if kind == "extra_forbidden":
        help = did_you_mean(param, _KNOWN, otherwise="leave it out") if len(place) == 1 else "leave it out"
        return ApiError(f"there is no parameter `{path}`: {help}", param=path, code="unknown_parameter")
    reasons = dict.fromkeys(error["msg"] for error in errors if error["loc"][1:2] == first["loc"][1:2])
    message = f"`{param}` has the wrong form: {', or: '.join(list(reasons)[:4])}"
    return ApiError(message, param=param, code="invalid_value")
