"""Counts of HTTP requests by route and status, as a middleware that any ASGI app may add."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ... import _core

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the time from a request to the end of its answer."""

_KEY = "hami.http_counts"
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class HttpCounts(Collector):
    """The counts themselves; any thread.

    A request counts when its answer has ended, a stream with its last piece. Routes appear as they are
    declared (`/v1/nodes/{node}`), so that no caller can invent names; what no route matches is `unmatched`.
    `num_elsewhere` tells how many are open that do not `begin` and `end` here.
    """

    def __init__(self, num_elsewhere: Callable[[], int] = lambda: 0) -> None:
        self._lock = threading.Lock()
        self._lines: dict[tuple[str, str, str], _core.BoundedTally] = {}
        self._num_open = 0
        self._num_elsewhere = num_elsewhere

    def begin(self) -> None:
        """Count a request as open."""
        with self._lock:
            self._num_open += 1

    def end(self, method: str, route: str, status: str, seconds: float) -> None:
        """Count a request as ended."""
        with self._lock:
            self._num_open -= 1
        self.tally(method, route, status).add(seconds)

    def tally(self, method: str, route: str, status: str) -> _core.BoundedTally:
        """Return where the seconds of requests of one kind are counted, for whoever counts them himself."""
        key = (method, route, status)
        with self._lock:
            found = self._lines.get(key)
            if found is None:
                found = self._lines[key] = _core.BoundedTally(SECONDS)
            return found

    def collect(self) -> Iterator[Metric]:
        """Yield what was counted so far."""
        labels = ["method", "route", "status"]
        requests = CounterMetricFamily(
            "hami_http_requests", "HTTP requests that were answered.", labels=labels
        )
        seconds = HistogramMetricFamily(
            "hami_http_request_seconds", "From a request to the end of its answer.", labels=labels
        )
        names = [*map(str, SECONDS), "+Inf"]
        with self._lock:
            lines = sorted(self._lines.items())
            num_open = self._num_open + self._num_elsewhere()
        for key, line in lines:
            counts, total_s = line.read()
            requests.add_metric(key, sum(counts))
            buckets = list(zip(names, map(float, accumulate(counts)), strict=True))
            seconds.add_metric(key, buckets, total_s)
        yield GaugeMetricFamily("hami_http_open_requests", "HTTP requests without an answer.", value=num_open)
        yield requests
        yield seconds


class HttpMetrics:
    """Counts what passes: `app.add_middleware(HttpMetrics)`; the route `/metrics` finds the counts."""

    def __init__(self, app: ASGIApp, counts: HttpCounts | None = None) -> None:
        self._app = app
        self._counts = HttpCounts() if counts is None else counts

    @staticmethod
    def of(scope: Scope) -> HttpCounts | None:
        """Return the counts of a request that was passed on."""
        found: HttpCounts | None = scope.get(_KEY)
        return found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[_KEY] = self._counts
        status = ""

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        self._counts.begin()
        started = time.perf_counter()
        try:
            await self._app(scope, receive, note)
        except asyncio.CancelledError:
            status = status or "499"
            raise
        except BaseException:
            status = status or "500"
            raise
        finally:
            method = scope["method"] if scope["method"] in _METHODS else "other"
            self._counts.end(method, _route_of(scope), status or "499", time.perf_counter() - started)


def _route_of(scope: Scope) -> str:
    route: Any = scope.get("route")
    path = getattr(route, "path", None)
    if isinstance(path, str):
        return path
    return "other" if "endpoint" in scope else "unmatched"
