"""Counts of HTTP requests by route and status, as a middleware that any ASGI app may add."""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..watched import Watched

SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Upper bounds of the time from a request to the end of its answer."""

_KEY = "hami.http_counts"
_METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


@dataclass
class _Line:
    counts: list[int] = field(default_factory=lambda: [0] * (len(SECONDS) + 1))
    total_s: float = 0.0


class HttpMetrics(Collector):
    """`app.add_middleware(HttpMetrics)`; the route `/metrics` finds it by itself.

    A request counts when its answer has ended, a stream with its last piece. Routes appear as they are
    declared (`/v1/nodes/{node}`), so that no caller can invent names; what no route matches is `unmatched`.
    """

    def __init__(self, app: ASGIApp, service: Watched | None = None) -> None:
        self._app = app
        if service is not None:
            service.http_counts = self
        self._lock = threading.Lock()
        self._lines: dict[tuple[str, str, str], _Line] = {}
        self._num_open = 0

    @staticmethod
    def of(scope: Scope) -> HttpMetrics | None:
        """Return the one that a request has passed."""
        found: HttpMetrics | None = scope.get(_KEY)
        return found

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and count it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[_KEY] = self
        status = ""

        async def note(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
            await send(message)

        with self._lock:
            self._num_open += 1
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
            self._add(scope, status or "499", time.perf_counter() - started)

    def _add(self, scope: Scope, status: str, seconds: float) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        key = (method, _route_of(scope), status)
        with self._lock:
            self._num_open -= 1
            line = self._lines.setdefault(key, _Line())
            line.counts[bisect_left(SECONDS, seconds)] += 1
            line.total_s += seconds

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
            lines = [(key, list(line.counts), line.total_s) for key, line in sorted(self._lines.items())]
            num_open = self._num_open
        for key, counts, total_s in lines:
            requests.add_metric(key, sum(counts))
            buckets = list(zip(names, map(float, accumulate(counts)), strict=True))
            seconds.add_metric(key, buckets, total_s)
        yield GaugeMetricFamily("hami_http_open_requests", "HTTP requests without an answer.", value=num_open)
        yield requests
        yield seconds


def _route_of(scope: Scope) -> str:
    route: Any = scope.get("route")
    path = getattr(route, "path", None)
    if isinstance(path, str):
        return path
    return "other" if "endpoint" in scope else "unmatched"
