"""`Answer`: what a request ends with, before it takes the form of a response."""

from __future__ import annotations

from typing import NamedTuple

from fastapi import Response

JSON = "application/json"
BYTES = "application/octet-stream"


class Answer(NamedTuple):
    """A body with its content type, and further headers."""

    body: bytes
    content_type: str
    headers: tuple[tuple[str, str], ...] = ()

    def response(self) -> Response:
        """Return it for ASGI."""
        return Response(self.body, headers=dict(self.headers), media_type=self.content_type)
