"""`RawRoute`: a route between whose endpoint and the wire nothing stands.

FastAPI would look at the signature of the endpoint for every request, and put what comes and goes through
pydantic. Here the endpoint takes the request and returns the response; what FastAPI adds is the description.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.routing import APIRoute

_TEXT = {"type": "string"}
Endpoint = Callable[[Request], Awaitable[Response]]


class RawRoute(APIRoute):
    """A route whose endpoint is `async (request) -> response`."""

    def get_route_handler(self) -> Callable[[Request], Any]:
        """Return the endpoint itself."""
        endpoint: Endpoint = self.endpoint
        return endpoint


def raw_router(tag: str) -> APIRouter:
    """Return a router of such routes, which the page of the API shows under `tag`."""
    return APIRouter(route_class=RawRoute, tags=[tag])


def described(
    *,
    in_path: dict[str, str] | None = None,
    in_query: dict[str, str] | None = None,
    body: Any = None,
    result: Any = None,
    unready: Any = None,
) -> dict[str, Any]:
    """Return `openapi_extra` of a route.

    `in_path` and `in_query` are parameters with their descriptions; `body`, `result` and `unready`, which is
    the answer with status 503, map content types to JSON schemas.
    """
    parameters = [
        {"name": name, "in": place, "required": place == "path", "description": text, "schema": _TEXT}
        for place, names in (("path", in_path), ("query", in_query))
        for name, text in (names or {}).items()
    ]
    extra: dict[str, Any] = {"parameters": parameters} if parameters else {}
    if body is not None:
        extra["requestBody"] = {"required": True, "content": _content(body)}
    extra["responses"] = {
        "200": {"description": "The answer.", "content": _content(result or {})},
        "default": ERROR_RESPONSE,
    }
    if unready is not None:
        extra["responses"]["503"] = {"description": "It is not ready.", "content": _content(unready)}
    return extra


def _content(schemas: dict[str, Any]) -> dict[str, Any]:
    return {kind: {"schema": schema} for kind, schema in schemas.items()}


ERROR = {
    "type": "object",
    "required": ["error", "code"],
    "properties": {
        "error": {"type": "string", "description": "what is wrong"},
        "code": {"type": "string", "description": "its name in the documentation"},
        "help": {"type": "string", "description": "what to do"},
        "where": {"type": "string", "description": "the place, where there is one"},
        "id": {"type": "string", "description": "of an error inside the server: its name in the log"},
    },
}
ERROR_RESPONSE = {"description": "What went wrong.", "content": _content({"application/json": ERROR})}
