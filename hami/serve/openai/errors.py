"""Errors as OpenAI words them, so that its client raises BadRequestError, RateLimitError and so on.

The body is `{"error": {"message", "type", "param", "code"}}`. `code` is OpenAI's where it has one for the
case, else hami's own, which docs/errors.md explains.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from hami.backends.llm.sampling import SamplingError  # type: ignore[import-untyped]
from hami.errors import Closed, DeadlineExceeded, Error, QueueFull, RequestError

BAD_REQUEST = 400

_log = logging.getLogger("hami.serve")

_KINDS: dict[type[Error], str] = {
    QueueFull: "rate_limit_error",
    Closed: "service_unavailable_error",
    DeadlineExceeded: "timeout_error",
}
_NAMES = {"n": "n"}
_CODES = {
    "llm-prompt-too-long": "context_length_exceeded",
    "queue-full": "rate_limit_exceeded",
}
# What a refusal of the engine is about; a call knows the client's names of its prompt and its form.
_ABOUT = {
    "llm-chat": "prompt",
    "llm-prompt": "prompt",
    "llm-prompt-empty": "prompt",
    "llm-prompt-too-long": "prompt",
    "llm-prompt-pool": "prompt",
    "llm-token-id": "prompt",
    "llm-grammar": "form",
    "llm-grammar-missing": "form",
    "llm-width": "n",
}


class ApiError(Exception):
    """What a client is told; `status` is that of HTTP."""

    def __init__(
        self,
        message: str,
        *,
        status: int = BAD_REQUEST,
        kind: str = "invalid_request_error",
        param: str | None = None,
        code: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status
        self.kind = kind
        self.param = param
        self.code = code

    def body(self) -> dict[str, Any]:
        """Return what is sent."""
        error = {"message": self.message, "type": self.kind, "param": self.param, "code": self.code}
        return {"error": error}


def api_error(error: BaseException, names: Mapping[str, str] = _NAMES) -> ApiError:
    """Return what a client is told of `error`; `names` are its names of the parameters."""
    if isinstance(error, ApiError):
        return error
    if not isinstance(error, Error):
        _log.error("a request failed", exc_info=error)
        message = f"the pipeline failed: {type(error).__name__}"
        return ApiError(message, status=500, kind="server_error", code="internal_error")
    message = f"{error.message}: {error.help}" if error.help else error.message
    code = _CODES.get(error.code, error.code)
    if isinstance(error, SamplingError):
        return ApiError(message, param=names.get(error.param, error.param), code=code)
    if isinstance(error, RequestError):
        return ApiError(message, param=names.get(_ABOUT.get(error.code, "")), code=code)
    return ApiError(message, status=error.http_status, kind=_kind(error), code=code)


def _kind(error: Error) -> str:
    return next((kind for each, kind in _KINDS.items() if isinstance(error, each)), "server_error")
