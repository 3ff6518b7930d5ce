"""`GET /metrics` for Prometheus and `GET /health` for whoever restarts or routes.

Figures of nodes are read from `pipe.stats()` when they are asked for; a request of the pipeline costs nothing
more. `HttpMetrics` counts what passes through HTTP, once the app has added it as middleware.
"""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from ..watched import Watched
from .http import HttpCounts, HttpMetrics
from .nodes import PipelineMetrics

__all__ = ["HttpCounts", "HttpMetrics", "PipelineMetrics", "router"]


class _All(Collector):
    """Several collectors as one."""

    def __init__(self, collectors: Iterable[Collector]) -> None:
        self._collectors = tuple(collectors)

    def collect(self) -> Iterable[Metric]:
        for collector in self._collectors:
            yield from collector.collect()


def router(service: Watched) -> APIRouter:
    """Return the routes `/metrics` and `/health` of a service."""
    routes = APIRouter(tags=["monitoring"])
    nodes = PipelineMetrics(service)

    @routes.get("/metrics", response_class=Response)
    def metrics(request: Request) -> Response:
        """Return all figures in Prometheus' text format, or as OpenMetrics if that is asked for."""
        encode, content_type = choose_encoder(request.headers.get("accept", ""))
        registry = CollectorRegistry(auto_describe=False)
        http = HttpMetrics.of(request.scope)
        registry.register(_All([nodes] if http is None else [nodes, http]))
        return Response(encode(registry), headers={"content-type": content_type})

    @routes.get("/health")
    def health() -> JSONResponse:
        """Return `status`, `ok` or `failing`, and `problems` in words; with problems the status is 503."""
        problems = service.pipe.problems()
        status = "failing" if problems else "ok"
        return JSONResponse({"status": status, "problems": problems}, status_code=503 if problems else 200)

    return routes
