"""What the nodes of a pipeline did, as metrics: made from `pipe.stats()` at the moment of a scrape."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ..watched import Watched
from .language_models import LanguageModelMetrics

SECONDS = tuple(float(f"{step}e{power}") for power in range(-5, 2) for step in ("1", "2.5", "5"))
"""Upper bounds of latencies: 10 microseconds to 50 seconds."""

ROWS = tuple(2**power for power in range(11))
"""Upper bounds of the rows of a batch: 1 to 1024."""

_GAUGES = {
    "waiting": (
        "hami_node_queue_length",
        "Requests that wait at the node, or are inside a node of its own kind.",
    ),
    "instances": ("hami_node_instances", "Instances of the node."),
    "busy": ("hami_node_busy_instances", "Instances that run a batch now."),
    "hung": ("hami_node_hung_instances", "Instances that do not come back from their backend."),
}
_COUNTERS = {
    "items": ("hami_node_items", "Requests that the node ran, failed ones included."),
    "errors": ("hami_node_errors", "Requests that failed in the node."),
    "dropped": ("hami_node_dropped", "Requests that were answered before the node could start them."),
}


def label(text: str) -> str:
    """Return a text that can be written as UTF-8: half a surrogate pair cannot."""
    return text.encode("utf-8", "replace").decode()


def cumulative(
    bounds: Iterable[float], counts: Iterable[tuple[float, int]]
) -> tuple[list[tuple[str, float]], int]:
    """Return the buckets of a histogram and the number of values, from counts by their upper bounds.

    A value counts below a bound only if it surely is: a goal never looks better reached than it was.
    """
    ends = list(bounds)
    inside = [0] * (len(ends) + 1)
    for upper, count in counts:
        inside[bisect_left(ends, upper)] += count
    sums = list(accumulate(inside))
    names = [*(str(float(end)) for end in ends), "+Inf"]
    return list(zip(names, map(float, sums), strict=True)), sums[-1]


def _latency(family: HistogramMetricFamily, node: str, times: Mapping[str, Any]) -> None:
    counts = ((below_ms / 1000, count) for below_ms, count in times["buckets"].items())
    family.add_metric([node], cumulative(SECONDS, counts)[0], times["sum"] / 1000)


def _batches(family: HistogramMetricFamily, node: str, batch_rows: Mapping[int, int]) -> None:
    rows = sum(rows * count for rows, count in batch_rows.items())
    family.add_metric([node], cumulative(ROWS, batch_rows.items())[0], float(rows))


class PipelineMetrics(Collector):
    """Collects the figures of a service's pipeline; any thread, and nothing happens between two calls."""

    def __init__(self, service: Watched) -> None:
        self._service = service

    def collect(self) -> Iterator[Metric]:
        """Yield every metric, in the same order each time."""
        pipe = self._service.pipe
        info = InfoMetricFamily("hami_pipeline", "The pipeline that is served.")
        info.add_metric([], {"pipeline": label(self._service.name)})
        yield info
        yield GaugeMetricFamily(
            "hami_pipeline_problems", "What is wrong now; 0 is healthy.", value=len(pipe.problems())
        )
        rows = pipe.stats(buckets=True)
        for key, (name, text) in _GAUGES.items():
            gauge = GaugeMetricFamily(name, text, labels=["node"])
            for row in rows:
                gauge.add_metric([label(row["node"])], row[key])
            yield gauge
        for key, (name, text) in _COUNTERS.items():
            counter = CounterMetricFamily(name, text, labels=["node"])
            for row in rows:
                counter.add_metric([label(row["node"])], row[key])
            yield counter
        yield from _distributions(rows)
        yield from _backends(rows)


def _distributions(rows: list[dict[str, Any]]) -> Iterator[Metric]:
    batches = HistogramMetricFamily("hami_node_batch_rows", "Rows of the batches that ran.", labels=["node"])
    wait = HistogramMetricFamily("hami_node_wait_seconds", "How long items waited.", labels=["node"])
    run = HistogramMetricFamily(
        "hami_node_run_seconds",
        "How long batches ran; of those that ran on the caller's thread, one in 16.",
        labels=["node"],
    )
    releases = CounterMetricFamily("hami_node_releases", "Why batches ran.", labels=["node", "reason"])
    for row in rows:
        node = label(row["node"])
        _batches(batches, node, row["batch_rows"])
        _latency(wait, node, row["wait_ms"])
        _latency(run, node, row["run_ms"])
        for reason, count in sorted(row["releases"].items()):
            releases.add_metric([node, reason], count)
    yield from (batches, wait, run, releases)


def _backends(rows: list[dict[str, Any]]) -> Iterator[Metric]:
    """Yield what backends tell of themselves: language models by name, all else as it is."""
    models = LanguageModelMetrics()
    figures = GaugeMetricFamily(
        "hami_node_backend_figure", "What the backend's own `stats()` tells.", labels=["node", "figure"]
    )
    for row in rows:
        node = label(row["node"])
        for name, value in models.take(node, row["backend"]).items():
            figures.add_metric([node, label(name)], value)
    yield from models.families()
    yield figures
