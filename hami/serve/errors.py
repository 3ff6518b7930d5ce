"""What a client is told when something goes wrong: JSON with the status of the kind, and nothing private.

An error of hami says what is wrong with the request, and is shown. What a backend raises may hold paths,
queries or secrets, so a client gets an id under which the log has all of it.
"""

from __future__ import annotations

import logging
import secrets

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from ..errors import Error, QueueFull
from .json_values import json_response
from .refusal import ServeError
from .settings import Settings

_logger = logging.getLogger("hami.serve")


def error_response(error: BaseException, settings: Settings) -> Response:
    """Return the answer to a request that failed with `error`; what is not shown is logged."""
    if isinstance(error, ServeError) or (isinstance(error, Error) and error.http_status != 500):
        return json_response(_parts(error), error.http_status, _headers_of(error))
    id = secrets.token_hex(8)
    _logger.error("request failed, id %s", id, exc_info=error)
    if settings.show_errors:
        text = error.message if isinstance(error, Error) else f"{type(error).__name__}: {error}"
    else:
        text = f"the request failed inside the server, whose log has the reason under {id}"
    help = "tell whoever runs the server this id"
    return json_response({**_parts(ServeError(text, code="serve-internal", help=help)), "id": id}, 500)


def _parts(error: Error) -> dict[str, str]:
    return {"error": error.message, "code": error.code, "help": error.help, "where": error.where}


def add_handlers(app: FastAPI, settings: Settings) -> None:
    """Let the application answer what its routes raise."""

    async def answer(request: Request, error: Exception) -> Response:
        return error_response(error, settings)

    async def answer_unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return error_response(_refusal_of(error, request), settings)

    async def answer_invalid(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return error_response(_first_of(error), settings)

    app.add_exception_handler(Error, answer)
    app.add_exception_handler(RequestValidationError, answer_invalid)
    app.add_exception_handler(HTTPException, answer_unknown)


def _headers_of(error: Error) -> dict[str, str]:
    if isinstance(error, ServeError):
        return error.headers
    return {"Retry-After": "1"} if isinstance(error, QueueFull) else {}


def _first_of(error: RequestValidationError) -> ServeError:
    """Return the error for the first thing that a route does not take."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    message = f"`{place}`: {first['msg']}"
    help = "`GET /docs` describes the path"
    return ServeError(message, status=422, code="serve-bad-request", help=help)


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
    help = "check the form of the body"
    message = str(error.detail)
    return ServeError(message, status=error.status_code, code="serve-bad-request", help=help, headers=headers)
