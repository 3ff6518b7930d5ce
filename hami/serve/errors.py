"""What a client is told when something goes wrong: JSON with the status of the error's kind, and nothing private.

An error of hami says what is wrong with the request, and is shown. What a backend raises may hold paths,
queries or secrets, so a client gets an id under which the log has all of it.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from ..errors import Error, QueueFull
from .settings import Settings

_logger = logging.getLogger("hami.serve")


class ServeError(Error):
    """A request that the server refuses by itself, with an HTTP status of its own."""

    default_code = "serve-bad-request"

    def __init__(
        self,
        message: str = "",
        *,
        status: int = 400,
        code: str = "",
        help: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, code=code, help=help)
        self.http_status = status
        self.headers = dict(headers or {})


def error_response(error: BaseException, settings: Settings) -> Response:
    """Return the answer to a request that failed with `error`; what is not shown is logged."""
    if isinstance(error, Error) and error.http_status != 500:
        body = {"error": error.message, "code": error.code, "help": error.help, "where": error.where}
        return json_response(body, error.http_status, _headers_of(error))
    id = secrets.token_hex(8)
    _logger.error("request failed, id %s", id, exc_info=error)
    if settings.show_errors:
        text = error.message if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    else:
        text = f"the request failed inside the server; its log says more about {id}"
    help = "ask whoever runs the server, and name the id"
    body = {"error": text, "code": "serve-internal", "help": help, "where": "", "id": id}
    return json_response(body, 500)


def json_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return `body` as JSON, arrays of numpy among it as lists."""
    content = orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(content, status, dict(headers or {}), "application/json")


def add_handlers(app: FastAPI, settings: Settings) -> None:
    """Let the application answer what its routes raise."""

    async def answer(request: Request, error: Exception) -> Response:
        return error_response(error, settings)

    async def answer_unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return error_response(_refusal_of(error, request), settings)

    app.add_exception_handler(Error, answer)
    app.add_exception_handler(HTTPException, answer_unknown)


def _headers_of(error: Error) -> dict[str, str]:
    if isinstance(error, ServeError):
        return error.headers
    return {"Retry-After": "1"} if isinstance(error, QueueFull) else {}


def _refusal_of(error: HTTPException, request: Request) -> ServeError:
    """Return the error for what no route answers."""
    headers = dict(error.headers or {})
    if error.status_code == 405:
        message = f"`{request.method}` is not what this path takes"
        help = f"use {headers.get('Allow', 'another method')}"
        return ServeError(message, status=405, code="serve-method", help=help, headers=headers)
    if error.status_code == 404:
        help = "`GET /docs` lists the paths"
        return ServeError("there is nothing at this path", status=404, code="serve-path", help=help)
    return ServeError(str(error.detail), status=error.status_code, headers=headers)
