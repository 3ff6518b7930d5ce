"""`GET /metrics` for Prometheus and `GET /health` for whoever restarts or routes.

Figures of nodes are read from `pipe.stats()` when they are asked for; a request of the pipeline costs nothing
more. `HttpMetrics` counts what passes through HTTP, once the app has added it as middleware.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fastapi import APIRouter, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse, Response
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from ..health import TOPIC as HEALTH
from ..health import health_of
from ..raw_route import ERROR_RESPONSE
from ..watched import Watched
from .http import HttpCounts, HttpMetrics
from .nodes import PipelineMetrics
from .workers import of_all

__all__ = ["HttpCounts", "HttpMetrics", "PipelineMetrics", "router"]

_TOPIC = "metrics"

_TEXT = {"schema": {"type": "string"}}
_METRICS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The figures.",
        "content": {"text/plain": _TEXT, "application/openmetrics-text": _TEXT},
    },
    "default": ERROR_RESPONSE,
}
_STATUS = {
    "type": "object",
    "required": ["status", "problems"],
    "properties": {
        "status": {"type": "string", "enum": ["ok", "degraded", "failing"]},
        "problems": {"type": "array", "items": {"type": "string"}},
    },
}
_HEALTH: dict[int | str, dict[str, Any]] = {
    200: {"description": "It answers.", "content": {"application/json": {"schema": _STATUS}}},
    503: {"description": "It has problems.", "content": {"application/json": {"schema": _STATUS}}},
    "default": ERROR_RESPONSE,
}


class _Found(Collector):
    """Metrics that were collected before."""

    def __init__(self, metrics: Iterable[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[Metric]:
        return self._metrics


def router(service: Watched) -> APIRouter:
    """Return the routes `/metrics` and `/health` of a service."""
    routes = APIRouter(tags=["monitoring"])
    nodes = PipelineMetrics(service)

    def own(http: HttpCounts | None) -> list[Metric]:
        return [*nodes.collect(), *(() if http is None else http.collect())]

    if service.peers is not None:
        service.peers.tell(_TOPIC, lambda: own(service.http_counts))
        service.peers.tell(HEALTH, lambda: service.pipe.problems())

    @routes.get("/metrics", response_class=Response, responses=_METRICS)
    async def metrics(request: Request) -> Response:
        """Return all figures in Prometheus' text format, or as OpenMetrics if that is asked for."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        peers = service.peers
        others = [] if peers is None else await peers.ask(_TOPIC)

        def text() -> bytes:
            found: Iterable[Metric] = own(HttpMetrics.of(request.scope))
            registry = CollectorRegistry(auto_describe=False)
            registry.register(_Found(found if peers is None else of_all(found, peers, others)))
            return encode(registry)

        content = await run_in_threadpool(text)
        return Response(content, headers={"content-type": content_type})

    @routes.get("/health", responses=_HEALTH)
    async def health() -> JSONResponse:
        """Return `status` and `problems` in words.

        `ok`; `degraded` while workers are missing and the others answer; `failing`, with status 503.
        """
        found = await health_of(service)
        is_failing = bool(found.problems or found.silent)
        status = "failing" if is_failing else "degraded" if found.missing else "ok"
        return JSONResponse({"status": status, "problems": found.all}, status_code=503 if is_failing else 200)

    return routes
