"""Laws of what several workers say of themselves: figures and health are those of all, whoever is asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from probes import wait_until
from scrapes import Scrape
from serving import Answer, read_answer
from worker_servers import WorkerServer, request

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc, which is missing")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerServer]:
    """One server; its tests leave its workers there."""
    server = WorkerServer(tmp_path_factory.mktemp("figures"))
    yield server
    server.end()


def get_from(server: WorkerServer, pid: int, path: str, *headers: str) -> Answer:
    """Ask one worker."""
    lines = "".join(f"{header}\r\n" for header in headers)
    with server.connect_to(pid) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\n{lines}\r\n".encode())
        return read_answer(connection)


class ScrapedAnswer:
    """An answer as `Scrape` reads it."""

    def __init__(self, answer: Answer) -> None:
        self.status = answer.status
        self.text = answer.body.decode()


def scrape(server: WorkerServer, pid: int) -> Scrape:
    """Scrape one worker, again where the machine was too busy for the other one to answer in time."""

    def complete() -> Scrape | None:
        found = Scrape(ScrapedAnswer(get_from(server, pid, "/metrics")))  # type: ignore[arg-type]
        return found if all(found("hami_worker_up", worker=worker) for worker in ("0", "1")) else None

    return wait_until(complete)  # type: ignore[no-any-return]


def load(server: WorkerServer, pid: int, count: int) -> None:
    with server.connect_to(pid) as connection:
        for _ in range(count - 1):
            connection.sendall(request(b"x"))
            read_answer(connection)


def test_metrics_of_each_worker_are_there_whoever_is_asked(server: WorkerServer) -> None:
    first, second = server.workers
    before = scrape(server, first)
    load(server, first, 5)
    load(server, second, 8)
    by_first, by_second = scrape(server, first), scrape(server, second)
    for name, labels in (
        ("hami_node_items_total", {"node": "who"}),
        ("hami_http_requests_total", {"method": "POST", "route": "/v1/pipeline", "status": "200"}),
    ):
        # A connection to a certain worker begins with a request.
        for worker, count in (("0", 6), ("1", 8)):
            key = (name, frozenset({**labels, "worker": worker}.items()))
            assert by_first.samples[key] - before.samples.get(key, 0) == count
        assert by_second(name, **labels, worker="0") == by_first(name, **labels, worker="0")
    for worker in ("0", "1"):
        assert by_first("hami_worker_up", worker=worker) == 1
        assert by_first("hami_worker_starts_total", worker=worker) == 1


def test_every_sample_has_the_worker_and_no_family_comes_twice(server: WorkerServer) -> None:
    assert all(
        dict(labels).get("worker") in ("0", "1") for _, labels in scrape(server, server.workers[0]).samples
    )
    text = get_from(server, server.workers[0], "/metrics").body.decode()
    heads = [line for line in text.splitlines() if line.startswith("# TYPE")]
    assert len(heads) == len(set(heads))


def test_openmetrics_is_well_formed(server: WorkerServer) -> None:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families

    accept = "Accept: application/openmetrics-text; version=1.0.0"
    answer = get_from(server, server.workers[0], "/metrics", accept)
    assert "openmetrics" in answer.headers["content-type"]
    assert list(text_string_to_metric_families(answer.body.decode()))


def test_the_page_shows_the_sums(server: WorkerServer) -> None:
    def state(pid: int) -> dict[str, Any]:
        def complete() -> Any:
            found = get_from(server, pid, "/ui/state").json
            return None if found["problems"] else found

        return wait_until(complete)  # type: ignore[no-any-return]

    first, second = server.workers
    before = state(first)
    load(server, first, 5)
    load(server, second, 8)
    after = state(second)
    grown = {
        key: after["nodes"]["who"][key] - before["nodes"]["who"][key]
        for key in ("items", "instances", "errors")
    }
    assert grown == {"items": 14, "instances": 0, "errors": 0}
    times = after["nodes"]["who"]["wait_ms"]
    assert sum(count for _, count in times["buckets"]) == times["count"] == after["nodes"]["who"]["items"]
    assert times["buckets"] == sorted(times["buckets"])
    assert times["p50"] <= times["p99"] <= times["max"] * 1.07
    assert after["clock_s"] > before["clock_s"]


def test_errors_of_all_workers_are_on_the_page(server: WorkerServer) -> None:
    for pid in server.workers:
        with server.connect_to(pid) as connection:
            connection.sendall(request(b"fail"))
            assert read_answer(connection).status == 500
    told = get_from(server, server.workers[0], "/ui/state").json["errors"]
    assert [error["node"] for error in told].count("who") >= 2
    numbers = [error["number"] for error in told]
    assert len(numbers) == len(set(numbers))
    times = [error["time_s"] for error in told]
    assert times == sorted(times, reverse=True)


def test_a_worker_that_hangs_is_seen_and_does_not_hold_up_the_others(server: WorkerServer) -> None:
    hanging, other = server.workers
    with server.connect_to(other) as connection, server.standing_still(hanging):
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        health = read_answer(connection)
        assert (health.status, health.json) == (
            503,
            {"status": "failing", "problems": ["worker 0 does not answer"]},
        )
        # It takes no connections, and so no requests.
        connection.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(connection).status == 200
        connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        found = Scrape(ScrapedAnswer(read_answer(connection)))  # type: ignore[arg-type]
        assert found("hami_worker_up", worker="0") == 0
        assert found("hami_worker_up", worker="1") == 1
        connection.sendall(b"GET /ui/state HTTP/1.1\r\nHost: x\r\n\r\n")
        assert read_answer(connection).json["problems"] == ["worker 0 does not answer"]
    server.wait_until_ready()
    assert server.get("/health").json == {"status": "ok", "problems": []}


def test_after_a_restart_the_series_go_on_under_the_same_worker(server: WorkerServer) -> None:
    victim, other = server.workers
    server.kill_worker(victim)
    with server.connect_to(other) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        health = read_answer(connection)
        assert health.status == 200
        assert json.loads(health.body)["status"] in ("degraded", "ok")
    server.wait_until_ready()
    found = scrape(server, other)
    assert found("hami_worker_starts_total", worker="0") == 2
    assert found("hami_worker_starts_total", worker="1") == 1
    assert found("hami_worker_up", worker="0") == 1
