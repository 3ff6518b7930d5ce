"""The figures of a pipeline, handed to Ray's metrics: the same names as on `/metrics`, behind Ray's `ray_`.

Ray keeps counters itself, so it gets what came since the last time; what it cannot keep, histograms that were
counted already, goes as counters of their buckets.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client.core import Metric
from ray.serve import metrics

from ..serve.metrics import PipelineMetrics
from ..serve.watched import Watched

_Labels = tuple[tuple[str, str], ...]


class RayMetrics:
    """Reports one pipeline; not from two threads at a time."""

    def __init__(self, service: Watched) -> None:
        self._figures = PipelineMetrics(service)
        self._made: dict[str, Any] = {}
        self._told: dict[tuple[str, _Labels], float] = {}

    def report(self) -> None:
        """Tell Ray how things are now."""
        for family in self._figures.collect():
            for sample in family.samples:
                if _is_gauge(family):
                    self._metric(metrics.Gauge, sample.name, family, sample.labels).set(
                        sample.value, tags=sample.labels
                    )
                else:
                    self._count(family, sample.name, sample.labels, sample.value)

    def _count(self, family: Metric, name: str, labels: Mapping[str, str], value: float) -> None:
        key = (name, tuple(sorted(labels.items())))
        added = value - self._told.get(key, 0.0)
        counter = self._metric(metrics.Counter, name.removesuffix("_total"), family, labels)
        if added > 0:
            self._told[key] = value
            counter.inc(added, tags=dict(labels))

    def _metric(self, kind: Any, name: str, family: Metric, labels: Mapping[str, str]) -> Any:
        if name not in self._made:
            self._made[name] = kind(name, family.documentation, tag_keys=tuple(labels) or None)
        return self._made[name]


def _is_gauge(family: Metric) -> bool:
    return family.type in ("gauge", "info", "unknown")
