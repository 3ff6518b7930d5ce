"""The outermost layers: a name for each request, a line in the log, and who may come in."""

from __future__ import annotations

import hmac
import random
import re
import time

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import error_response
from .log_lines import log_request
from .refusal import ServeError
from .service import Service

# Whoever watches over the server asks these, and has no token.
HEALTH_PATHS = frozenset({"/v2/health/live", "/v2/health/ready", "/health"})
# A browser loads the page before it can send a token.
_PAGE, _FILES_OF_PAGE = "/ui", "/ui/static/"

_GOOD_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")


def header_of(scope: Scope, name: bytes) -> bytes | None:
    """Return the first header of that name, which is in lower case, or None."""
    for key, value in scope["headers"]:
        if key == name:
            return bytes(value)
    return None


def given_id(header: bytes | None) -> bytes | None:
    """Return the id that a client gave its request, None unless that is a plain word."""
    word = (header or b"").strip(b" \t")  # the parser leaves what stands behind it
    return word if _GOOD_ID.fullmatch(word) else None


def new_id() -> bytes:
    """Return an id for a request without one: a name, not a secret."""
    return b"%016x" % random.getrandbits(64)


class AccessLog:
    """Gives every request an id and a line in the log `hami.access`, as JSON.

    The id is the client's `X-Request-Id` where that is a plain word, else a new one; it goes back in the
    answer, and is `request.state.request_id`. Status 499 means that the client went away.
    """

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        start = time.perf_counter()
        id = given_id(header_of(scope, b"x-request-id")) or new_id()
        scope.setdefault("state", {})["request_id"] = id.decode()
        status, num_bytes = 499, 0

        async def send_counted(message: Message) -> None:
            nonlocal status, num_bytes
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", id)]
            else:
                num_bytes += len(message.get("body", b""))
            await send(message)

        try:
            await self.app(scope, receive, send_counted)
        finally:
            seconds = time.perf_counter() - start
            log_request(scope["method"], scope["path"], status, num_bytes, seconds, id)


def path_of(scope: Scope) -> str:
    """Return the path as the application knows it, without the place where a proxy has put it."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path[len(root) :] if root and path.startswith(f"{root}/") else path


def _needs_no_token(path: str) -> bool:
    return path in HEALTH_PATHS or path == _PAGE or path.startswith(_FILES_OF_PAGE)


class Admission:
    """Who may come in: whoever brings the token, or everybody where there is none."""

    def __init__(self, token: str | None) -> None:
        self.expected = None if token is None else b"Bearer " + token.encode()

    def admits(self, authorization: bytes | None) -> bool:
        """Tell whether a request with this header may come in."""
        if self.expected is None:
            return True
        scheme, _, token = (authorization or b"").partition(b" ")
        # In a time that does not depend on how much of it is right.
        return hmac.compare_digest(scheme.capitalize() + b" " + token.strip(), self.expected)


class Bearer:
    """Refuses requests without the token; health and the files of the page are free."""

    def __init__(self, app: ASGIApp, service: Service, token: str) -> None:
        self.app = app
        self.settings = service.settings
        self.admission = Admission(token)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _needs_no_token(path_of(scope)):
            return await self.app(scope, receive, send)
        if self.admission.admits(header_of(scope, b"authorization")):
            return await self.app(scope, receive, send)
        refusal = ServeError(
            "this server wants a token",
            status=401,
            code="serve-token",
            help="send `Authorization: Bearer TOKEN`",
            headers={"WWW-Authenticate": "Bearer"},
        )
        await error_response(refusal, self.settings)(scope, receive, send)
