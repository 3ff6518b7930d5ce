"""The figures of several workers as those of one server: each has its own series, by the label `worker`.

Sums would do harm: when a worker dies its counts are gone, and a counter that falls means to Prometheus that
all of it was counted anew. A series that starts again at 0 it understands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ..workers.peers import Peer, Peers


def of_all(own: Iterable[Metric], peers: Peers, others: Iterable[Peer]) -> Iterator[Metric]:
    """Yield the metrics of all workers, those of one name together."""
    parts = [(peers.number, peers.num_starts, list(own))]
    parts += [(peer.member.number, peer.member.num_starts, peer.said) for peer in others]
    up = GaugeMetricFamily(
        "hami_worker_up",
        "Whether the worker gave its figures; without them it has no others.",
        labels=["worker"],
    )
    starts = CounterMetricFamily(
        "hami_worker_starts", "Processes that were started as this worker.", labels=["worker"]
    )
    families: dict[str, Metric] = {}
    for number, num_starts, metrics in sorted(parts, key=lambda part: part[0]):
        worker = str(number)
        up.add_metric([worker], float(metrics is not None))
        starts.add_metric([worker], num_starts)
        for metric in metrics or ():
            family = families.get(metric.name)
            if family is None:
                family = Metric(metric.name, metric.documentation, metric.type, metric.unit)
                families[metric.name] = family
            family.samples += [
                sample._replace(labels={**sample.labels, "worker": worker}) for sample in metric.samples
            ]
    yield from (up, starts, *families.values())
