"""`GET /ui`: a page that shows a pipeline at work, and sends requests to it.

The page is plain HTML, CSS and ES modules from `static/`; once a second it asks `GET /ui/state`, which reads
`pipe.stats()`. It loads nothing from elsewhere, and its headers forbid it to.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from ..health import describe
from ..watched import Watched
from .errors import RecentErrors
from .pages import HEADERS, PAGE, Page, load_pages
from .state import State

__all__ = ["RecentErrors", "router"]

_TOPIC = "ui"


def router(service: Watched) -> APIRouter:
    """Return the routes `/ui`, `/ui/static/...` and `/ui/state` of a service."""
    routes = APIRouter(include_in_schema=False)
    pages = load_pages()
    state = State(service, RecentErrors())
    if service.peers is not None:
        service.peers.tell(_TOPIC, state.figures)

    @routes.get("/ui")
    async def page(request: Request) -> Response:
        return _answer(pages[PAGE], request)

    @routes.get("/ui/static/{name}")
    async def static(name: str, request: Request) -> Response:
        found = pages.get(name)
        return Response(status_code=404, headers=HEADERS) if found is None else _answer(found, request)

    @routes.get("/ui/state")
    async def current_state() -> Response:
        peers = [] if service.peers is None else await service.peers.ask(_TOPIC)
        others = [peer.said for peer in peers if peer.said is not None]
        missing = [describe(peer.member) for peer in peers if peer.said is None]
        content = await run_in_threadpool(state.to_json, others, missing)
        headers = {**HEADERS, "cache-control": "no-store"}
        return Response(content, media_type="application/json", headers=headers)

    return routes


def _answer(page: Page, request: Request) -> Response:
    headers = {**HEADERS, "etag": page.etag, "cache-control": "no-cache"}
    if request.headers.get("if-none-match") == page.etag:
        return Response(status_code=304, headers=headers)
    return Response(page.content, media_type=page.media_type, headers=headers)
