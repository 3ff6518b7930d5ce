"""Laws of the counts of HTTP requests: by declared routes and status, and nothing that a caller invents."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs fastapi: pip install hami-core[serve]")
pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install hami-core[serve]")

from fastapi import FastAPI
from monitored import Answer, Served, add_pipeline_routes, ask, opened_pipes, serving
from scrapes import Scrape

import hami
from hami.serve.metrics import HttpMetrics, router


def fail_below_zero(batch: list[dict[str, Any]]) -> list[Any]:
    for item in batch:
        if item["data"] < 0:
            raise ValueError("negative")
    return [item["data"] for item in batch]


@pytest.fixture
def pipe() -> Iterator[hami.Pipeline]:
    with opened_pipes() as open_one:
        hami.register("Fails", fail_below_zero)
        yield open_one("Fails")


@pytest.fixture
def counted(pipe: hami.Pipeline) -> Iterator[str]:
    """Serve a pipeline whose requests over HTTP are counted; yield the address."""
    service = Served(pipe)
    app = FastAPI()
    app.add_middleware(HttpMetrics)
    app.include_router(router(service))
    add_pipeline_routes(app, service)

    @app.get("/raises")
    def raises() -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        raise RuntimeError("a fault of the server")

    with serving(app) as address:
        yield address


def post(address: str, path: str, data: Any) -> Answer:
    return ask(address, path, method="POST", body=json.dumps({"data": data}), content_type="application/json")


def http_count(scrape: Scrape, method: str, route: str, status: int) -> float:
    labels = {"method": method, "route": route, "status": str(status)}
    count = scrape("hami_http_requests_total", **labels)
    assert scrape("hami_http_request_seconds_count", **labels) == count
    buckets = [value for _, value in scrape.buckets("hami_http_request_seconds", **labels)]
    assert buckets == sorted(buckets) and buckets[-1] == count
    assert scrape("hami_http_request_seconds_sum", **labels) > 0
    return count


def test_requests_are_counted_by_route_and_status(counted: str) -> None:
    for value in (1, 2, 3):
        assert post(counted, "/v1/pipeline", value).status == 200
    assert post(counted, "/v1/pipeline", -1).status == 422
    for node in ("a", "b"):
        assert post(counted, f"/v1/nodes/{node}", 1).status == 200
    scrape = Scrape(ask(counted, "/metrics"))
    assert http_count(scrape, "POST", "/v1/pipeline", 200) == 3
    assert http_count(scrape, "POST", "/v1/pipeline", 422) == 1
    assert http_count(scrape, "POST", "/v1/nodes/{node}", 200) == 2
    assert scrape("hami_http_open_requests") == 1  # the scrape itself


def test_callers_cannot_invent_routes_or_methods(counted: str) -> None:
    for place in range(5):
        assert ask(counted, f"/nowhere/{place}").status == 404
        assert ask(counted, "/v1/pipeline", method="PROPFIND").status == 405
    scrape = Scrape(ask(counted, "/metrics"))
    assert http_count(scrape, "GET", "unmatched", 404) == 5
    methods = {dict(key)["method"] for name, key in scrape.samples if name == "hami_http_requests_total"}
    assert methods <= {"GET", "POST", "other"}


def test_a_route_that_raises_counts_as_500(counted: str) -> None:
    assert ask(counted, "/raises").status == 500
    assert http_count(Scrape(ask(counted, "/metrics")), "GET", "/raises", 500) == 1


def test_without_the_middleware_there_is_nothing_about_http(pipe: hami.Pipeline) -> None:
    app = FastAPI()
    app.include_router(router(Served(pipe)))
    with serving(app) as address:
        families = Scrape(ask(address, "/metrics")).families
    assert families and not any(name.startswith("hami_http") for name in families)
