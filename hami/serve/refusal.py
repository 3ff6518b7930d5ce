"""`ServeError`: what the server refuses by itself, before or behind the pipeline."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import Error


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
