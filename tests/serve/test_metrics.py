"""Laws of `/metrics` and `/health`: what Prometheus reads is what happened, under names that stay."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import pytest

pytest.importorskip("fastapi", reason="needs fastapi: pip install hami-core[serve]")
pytest.importorskip("prometheus_client", reason="needs prometheus-client: pip install hami-core[serve]")

from fastapi import FastAPI
from monitored import Served, ask, eventually, opened_pipes, serving
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from scrapes import Scrape

import hami
from hami.serve.metrics import router
from hami.serve.metrics.nodes import SECONDS, cumulative


@pytest.fixture
def open_pipe() -> Iterator[Callable[[Any], hami.Pipeline]]:
    """Return `hami.pipe`; its pipelines are closed after the test."""
    with opened_pipes() as open_one:
        yield open_one


@pytest.fixture
def scrapes() -> Iterator[Callable[..., Callable[[], Scrape]]]:
    """Return a function that serves a pipeline and returns one that scrapes it."""
    stacks = []

    def start(pipe: hami.Pipeline, **more: Any) -> Callable[[], Scrape]:
        app = FastAPI()
        app.include_router(router(Served(pipe, **more)))
        context = serving(app)
        address = context.__enter__()
        stacks.append(context)
        return lambda: Scrape(ask(address, "/metrics"))

    yield start
    for context in stacks:
        context.__exit__(None, None, None)


def fail_below_zero(batch: list[dict[str, Any]]) -> list[Any]:
    for item in batch:
        if item["data"] < 0:
            raise ValueError("negative")
    return [item["data"] for item in batch]


# --- nodes ---


def test_known_traffic_is_counted(open_pipe: Any, scrapes: Any) -> None:
    hami.register("Fails", fail_below_zero)
    pipe = open_pipe({"first": {"backend": "Identity", "next": "mine"}, "mine": {"backend": "Fails"}})
    for value in range(7):
        pipe({"data": value})
    for _ in range(2):
        with pytest.raises(ValueError, match="negative"):
            pipe({"data": -1})
    scrape = scrapes(pipe)()
    assert scrape("hami_node_items_total", node="first") == 9
    assert scrape("hami_node_items_total", node="mine") == 9
    assert scrape("hami_node_errors_total", node="mine") == 2
    assert scrape("hami_node_errors_total", node="first") == 0
    assert scrape("hami_node_dropped_total", node="mine") == 0
    assert scrape("hami_node_instances", node="mine") == 1
    assert scrape("hami_pipeline_info", pipeline="demo") == 1
    assert scrape("hami_pipeline_problems") == 0


def test_counters_only_grow(open_pipe: Any, scrapes: Any) -> None:
    pipe = open_pipe({"backend": "Identities", "max": 4})
    scrape = scrapes(pipe)
    before = scrape()
    pipe([{"data": i} for i in range(30)])
    after = scrape()
    counters = [key for key in before.samples if key[0].endswith(("_total", "_bucket", "_count", "_sum"))]
    assert counters
    assert all(after.samples[key] >= before.samples[key] for key in counters)
    assert after("hami_node_items_total", node="node") - before("hami_node_items_total", node="node") == 30


def test_a_queue_and_busy_instances_are_seen_while_they_last(open_pipe: Any, scrapes: Any) -> None:
    gate, inside = threading.Event(), threading.Event()

    def hold(batch: list[dict[str, Any]]) -> list[Any]:
        inside.set()
        assert gate.wait(20)
        return [item["data"] for item in batch]

    hami.register("Hold", hold)
    pipe = open_pipe({"backend": "Hold", "instance_num": 2, "max": 1})
    scrape = scrapes(pipe)
    futures = [pipe.submit({"data": i}) for i in range(5)]
    assert inside.wait(20)
    eventually(lambda: scrape()("hami_node_busy_instances", node="node") == 2)
    assert scrape()("hami_node_queue_length", node="node") == 3
    gate.set()
    for future in futures:
        future.result(20)
    eventually(lambda: scrape()("hami_node_busy_instances", node="node") == 0)
    assert scrape()("hami_node_queue_length", node="node") == 0


def test_batches_are_a_histogram_of_rows(open_pipe: Any, scrapes: Any) -> None:
    pipe = open_pipe({"backend": "Identities", "max": 4})
    for _ in range(3):
        pipe([{"data": i} for i in range(10)])
    scrape = scrapes(pipe)()
    (row,) = pipe.stats()
    buckets = scrape.buckets("hami_node_batch_rows", node="node")
    for bound, count in buckets:
        assert count == sum(runs for rows, runs in row["batch_rows"].items() if rows <= bound)
    assert buckets[-1][0] == math.inf
    assert scrape("hami_node_batch_rows_count", node="node") == sum(row["batch_rows"].values())
    assert scrape("hami_node_batch_rows_sum", node="node") == 30


@pytest.mark.parametrize("name", ["wait", "run"])
def test_latencies_are_histograms_that_agree_with_stats(open_pipe: Any, scrapes: Any, name: str) -> None:
    pipe = open_pipe({"backend": "Identities", "max": 4})
    pipe([{"data": i} for i in range(200)])
    scrape = scrapes(pipe)()
    (row,) = pipe.stats()
    figures = row[f"{name}_ms"]
    buckets = scrape.buckets(f"hami_node_{name}_seconds", node="node")
    counts = [count for _, count in buckets]
    assert [bound for bound, _ in buckets] == [*SECONDS, math.inf]
    assert counts == sorted(counts)
    assert counts[-1] == scrape(f"hami_node_{name}_seconds_count", node="node") == figures["count"]
    below = next(bound for bound, count in buckets if count >= figures["count"] / 2)
    assert below >= figures["p50"] / 1000 * 0.9
    assert 0 < scrape(f"hami_node_{name}_seconds_sum", node="node") <= figures["max"] * figures["count"] / 900


def test_reasons_of_batches_are_labels(open_pipe: Any, scrapes: Any) -> None:
    pipe = open_pipe("Identity")
    for i in range(5):
        pipe({"data": i})
    assert scrapes(pipe)()("hami_node_releases_total", node="node", reason="in_place") == 5


@pytest.mark.parametrize("node", ['a "quoted" \\ name', "line\nbreak", "名前", "half \ud800 pair"])
def test_any_text_is_a_label(open_pipe: Any, scrapes: Any, node: str) -> None:
    pipe = open_pipe("Identity")
    scrape = scrapes(pipe, name=node)()
    name = node.encode("utf-8", "replace").decode()
    assert scrape("hami_pipeline_info", pipeline=name) == 1


def test_a_value_counts_only_below_bounds_that_it_surely_keeps() -> None:
    buckets, total = cumulative((1.0, 2.0, 4.0), [(1.0, 1), (1.5, 10), (2.0, 100), (4.1, 1000)])
    assert buckets == [("1.0", 1.0), ("2.0", 111.0), ("4.0", 111.0), ("+Inf", 1111.0)]
    assert total == 1111
    assert cumulative((1.0,), [])[0] == [("1.0", 0.0), ("+Inf", 0.0)]


def test_bounds_are_round_numbers() -> None:
    assert SECONDS[:4] == (1e-05, 2.5e-05, 5e-05, 0.0001) and SECONDS[-1] == 50.0
    assert all(float(f"{bound:.3g}") == bound for bound in SECONDS)
    assert list(SECONDS) == sorted(SECONDS)


def test_every_metric_has_help_and_a_type(open_pipe: Any, scrapes: Any) -> None:
    families = scrapes(open_pipe("Identity"))().families
    assert families
    for name, family in families.items():
        assert name.startswith("hami_")
        assert family.documentation.endswith("."), name
        assert family.type in ("counter", "gauge", "histogram"), name


def test_openmetrics_is_spoken_to_whoever_asks(open_pipe: Any) -> None:
    app = FastAPI()
    pipe = open_pipe("Identity")
    pipe({"data": 1})
    app.include_router(router(Served(pipe)))
    with serving(app) as address:
        answer = ask(address, "/metrics", accept="application/openmetrics-text; version=1.0.0")
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    families = {family.name: family for family in read_openmetrics(answer.text)}
    assert families["hami_node_items"].samples[0].value == 1


def test_the_pipeline_that_is_served_now_is_the_one_that_is_read(open_pipe: Any) -> None:
    service = Served(open_pipe({"old": {"backend": "Identity"}}))
    app = FastAPI()
    app.include_router(router(service))
    with serving(app) as address:
        Scrape(ask(address, "/metrics"))("hami_node_items_total", node="old")
        service.pipe = open_pipe({"new": {"backend": "Identity"}})
        scrape = Scrape(ask(address, "/metrics"))
        assert scrape("hami_node_items_total", node="new") == 0
        assert ("hami_node_items_total", frozenset({("node", "old")})) not in scrape.samples


# --- what backends tell ---


class Model(hami.Backend):
    """Tells what the engine of a language model tells."""

    told: ClassVar[dict[str, Any]] = {}

    def start(self, item: dict[str, Any], reply: Any) -> None:
        item["result"] = item["data"]
        reply.finish()

    def stats(self) -> dict[str, Any]:
        return self.told


MODEL = {
    "num_steps": 40,
    "num_tokens": 900,
    "num_sampled": 300,
    "num_preempted_recompute": 2,
    "num_preempted_swap": 1,
    "num_aborted": 5,
    "num_evictions": 6,
    "prefix_hit_tokens": 128,
    "prefix_query_tokens": 512,
    "pages_total": 100,
    "pages_referenced": 30,
    "pages_cached": 20,
    "pages_free": 50,
    "running": 3,
    "waiting": 4,
    "swapped": 0,
    "step_ms": 12.5,
}


def test_a_language_model_has_metrics_of_its_own(open_pipe: Any, scrapes: Any) -> None:
    hami.register("Model", type("Model", (Model,), {"told": MODEL}))
    scrape = scrapes(open_pipe({"answer": {"backend": "Model"}}))()
    wanted = {
        ("hami_llm_kv_pages",): 100,
        ("hami_llm_kv_pages_used",): 30,
        ("hami_llm_kv_pages_cached",): 20,
        ("hami_llm_generated_tokens_total",): 300,
        ("hami_llm_computed_tokens_total",): 900,
        ("hami_llm_prefix_cache_hit_tokens_total",): 128,
        ("hami_llm_prefix_cache_query_tokens_total",): 512,
        ("hami_llm_prefix_cache_evictions_total",): 6,
        ("hami_llm_aborts_total",): 5,
        ("hami_llm_steps_total",): 40,
        ("hami_llm_last_step_seconds",): 0.0125,
        ("hami_llm_sequences", "state", "running"): 3,
        ("hami_llm_sequences", "state", "waiting"): 4,
        ("hami_llm_preemptions_total", "kind", "recompute"): 2,
        ("hami_llm_preemptions_total", "kind", "swap"): 1,
    }
    for (name, *label), value in wanted.items():
        labels = {label[0]: label[1]} if label else {}
        assert scrape(name, node="answer", **labels) == pytest.approx(value), name
    # what has no name of its own is there all the same
    assert scrape("hami_node_backend_figure", node="answer", figure="pages_free") == 50


def test_two_language_models_share_metrics(open_pipe: Any, scrapes: Any) -> None:
    hami.register("Model", type("Model", (Model,), {"told": MODEL}))
    graph = {"one": {"backend": "Model", "next": "two"}, "two": {"backend": "Model"}}
    scrape = scrapes(open_pipe(graph))()
    for node in graph:
        assert scrape("hami_llm_kv_pages", node=node) == 100


def test_figures_of_any_other_backend_are_gauges(open_pipe: Any, scrapes: Any) -> None:
    told = {"depth": 3, "share": 0.5, "lost": math.nan}
    hami.register("Other", type("Other", (Model,), {"told": told}))
    scrape = scrapes(open_pipe("Other"))()
    assert scrape("hami_node_backend_figure", node="node", figure="depth") == 3
    assert scrape("hami_node_backend_figure", node="node", figure="share") == 0.5
    assert math.isnan(scrape("hami_node_backend_figure", node="node", figure="lost"))
    assert not any(name.startswith("hami_llm") for name in scrape.families)


def test_the_real_engine_tells_what_is_read_here() -> None:
    pytest.importorskip("torch", reason="needs torch: pip install hami-core[llm]")
    from llm_engines import fake_engine

    engine = fake_engine()
    try:
        assert set(MODEL) <= set(engine.figures())
        assert engine.figures()["pages_total"] == 399
        assert engine.stats().keys() == engine.figures().keys()
    finally:
        engine.close()


# --- health ---


def test_health_tells_what_is_wrong(open_pipe: Any) -> None:
    pipe = open_pipe("Identity")
    app = FastAPI()
    app.include_router(router(Served(pipe)))
    with serving(app) as address:
        answer = ask(address, "/health")
        assert (answer.status, answer.json) == (200, {"status": "ok", "problems": []})
        pipe.close()
        answer = ask(address, "/health")
        assert answer.status == 503
        assert answer.json == {"status": "failing", "problems": ["the pipeline is closed"]}
        assert Scrape(ask(address, "/metrics"))("hami_pipeline_problems") == 1
