"""One answer of `/metrics`, read as Prometheus reads it."""

from __future__ import annotations

from monitored import Answer
from prometheus_client.parser import text_string_to_metric_families as read_text

Labels = frozenset[tuple[str, str]]


class Scrape:
    """The samples of one answer of `/metrics`, by name and labels."""

    def __init__(self, answer: Answer) -> None:
        assert answer.status == 200
        self.families = {family.name: family for family in read_text(answer.text)}
        self.samples: dict[tuple[str, Labels], float] = {}
        for family in self.families.values():
            for sample in family.samples:
                key = (sample.name, frozenset(sample.labels.items()))
                assert key not in self.samples, f"{key} is there twice"
                self.samples[key] = sample.value

    def __call__(self, name: str, **labels: str) -> float:
        return self.samples[name, frozenset(labels.items())]

    def buckets(self, name: str, **labels: str) -> list[tuple[float, float]]:
        """Return the bounds of a histogram with their counts, in the order of the bounds."""
        wanted = set(labels.items())
        found = [
            (float(dict(key)["le"]), value)
            for (sample, key), value in self.samples.items()
            if sample == f"{name}_bucket" and wanted <= key
        ]
        return sorted(found)
