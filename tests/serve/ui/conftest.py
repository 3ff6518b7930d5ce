"""A browser that looks at the page, and what every test of the page checks: it stays quiet, and at home."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

import hami

if TYPE_CHECKING:
    from monitored import FakeChat, Served

CHROMIUM = Path("/usr/bin/chromium")
WAIT_MS = 20_000
"""How long a test waits for what must be on the page; only a failing test takes this long."""


@pytest.fixture
def open_pipe() -> Iterator[Callable[[Any], hami.Pipeline]]:
    """Return `hami.pipe`; its pipelines are closed after the test."""
    from monitored import opened_pipes

    with opened_pipes() as open_one:
        yield open_one


@pytest.fixture
def backends(open_pipe: Any) -> None:
    """Register `Double`, `Size` (of bytes), `Fails`, and `Echo`."""
    hami.register("Double", lambda batch: [item["data"] * 2 for item in batch])
    hami.register(
        "Size",
        lambda batch: [{"bytes": len(item["data"]), "png": item["data"][1:4] == b"PNG"} for item in batch],
    )
    hami.register("Echo", lambda batch: [item["data"] for item in batch])

    def fail(batch: list[dict[str, Any]]) -> list[Any]:
        raise ValueError(f"cannot read {batch[0]['data']}")

    hami.register("Fails", fail)


@dataclass
class Site:
    """A served pipeline: its address, its service and the fake of the chat."""

    address: str
    service: Served
    chat: FakeChat
    asked: list[str] = field(default_factory=list)

    @property
    def pipe(self) -> hami.Pipeline:
        """The pipeline that is served now."""
        return self.service.pipe


class Noted:
    """A middleware that notes which paths were asked for."""

    def __init__(self, app: Any, asked: list[str]) -> None:
        self._app, self._asked = app, asked

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._asked.append(scope["path"])
        await self._app(scope, receive, send)


@pytest.fixture
def serve(open_pipe: Any) -> Iterator[Callable[..., Site]]:
    """Return a function that serves the pipeline of a source with its page."""
    from fastapi import FastAPI
    from monitored import FakeChat, Served, add_pipeline_routes, serving

    from hami.serve.metrics import router as metrics_router
    from hami.serve.ui import router as ui_router

    contexts = []

    def start(source: Any, **more: Any) -> Site:
        service = Served(open_pipe(source), **more)
        app = FastAPI()
        app.include_router(ui_router(service))
        app.include_router(metrics_router(service))
        add_pipeline_routes(app, service)
        site = Site("", service, FakeChat(app))

        app.add_middleware(Noted, asked=site.asked)
        context = serving(app)
        site.address = context.__enter__()
        contexts.append(context)
        return site

    yield start
    for context in contexts:
        context.__exit__(None, None, None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Start Chromium for the tests of one file: while it runs, `asyncio.run` cannot be used beside it."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
    if not CHROMIUM.exists():
        pytest.skip(f"needs {CHROMIUM}: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield started
        started.close()


@dataclass
class Visit:
    """One open page, with what it said and asked for."""

    page: Any
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    """Texts that the console may hold: faults that a test makes."""


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Return a function that opens the page of a site; afterwards no visit may have complained or strayed."""
    visits: list[tuple[Visit, Any, str]] = []

    def start(
        site: Site,
        *,
        width: int = 1400,
        height: int = 1000,
        prepare: Callable[[Any], None] = lambda page: None,
        **context: Any,
    ) -> Visit:
        made = browser.new_context(viewport={"width": width, "height": height}, **context)
        page = made.new_page()
        page.set_default_timeout(WAIT_MS)
        opened = Visit(page)
        page.on("console", lambda message: opened.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: opened.said.append(f"error: {error}"))
        page.on("request", lambda request: opened.asked.append(request.url))
        prepare(page)
        page.goto(f"{site.address}/ui")
        page.wait_for_selector("[data-node]")
        visits.append((opened, made, site.address))
        return opened

    yield start
    for opened, made, address in visits:
        made.close()
        said = [text for text in opened.said if not any(part in text for part in opened.allowed)]
        assert said == [], "the page complained"
        strayed = [url for url in opened.asked if not at_home(url, address)]
        assert strayed == [], "the page asked somebody else"


def at_home(url: str, address: str) -> bool:
    """Say whether a request stays with the server; blob and data URLs never leave the browser."""
    return url.startswith(f"{address}/") or urlsplit(url).scheme in ("blob", "data")
