"""The figures of language models under names of their own: pages, prefix hits, sequences, tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

_SIGNS = {"pages_total", "num_sampled"}
"""Who tells these is a language model."""


@dataclass(frozen=True)
class _Meaning:
    """Where a figure belongs: a metric, and maybe a label of it. `scale` brings it to the base unit."""

    metric: str
    label: tuple[str, str] | None = None
    scale: float = 1.0


_GAUGES = {
    "hami_llm_kv_pages": "Pages of keys and values.",
    "hami_llm_kv_pages_used": "Pages that sequences hold.",
    "hami_llm_kv_pages_cached": "Pages that nobody holds, kept for their content.",
    "hami_llm_sequences": "Sequences, by what they do now.",
    "hami_llm_last_step_seconds": "How long the last step took.",
}
_COUNTERS = {
    "hami_llm_steps": "Steps of the engine.",
    "hami_llm_generated_tokens": "Tokens that were sampled.",
    "hami_llm_computed_tokens": "Tokens that went through the model, prompts included.",
    "hami_llm_prefix_cache_hit_tokens": "Tokens of prompts whose keys and values were there already.",
    "hami_llm_prefix_cache_query_tokens": "Tokens of prompts that were looked up.",
    "hami_llm_prefix_cache_evictions": "Cached pages that were given to others.",
    "hami_llm_preemptions": "Sequences that made room for others, by what became of their pages.",
    "hami_llm_aborts": "Sequences that were ended early.",
}
_MEANINGS = {
    "pages_total": _Meaning("hami_llm_kv_pages"),
    "pages_referenced": _Meaning("hami_llm_kv_pages_used"),
    "pages_cached": _Meaning("hami_llm_kv_pages_cached"),
    "running": _Meaning("hami_llm_sequences", ("state", "running")),
    "waiting": _Meaning("hami_llm_sequences", ("state", "waiting")),
    "swapped": _Meaning("hami_llm_sequences", ("state", "swapped")),
    "step_ms": _Meaning("hami_llm_last_step_seconds", scale=0.001),
    "num_steps": _Meaning("hami_llm_steps"),
    "num_sampled": _Meaning("hami_llm_generated_tokens"),
    "num_tokens": _Meaning("hami_llm_computed_tokens"),
    "prefix_hit_tokens": _Meaning("hami_llm_prefix_cache_hit_tokens"),
    "prefix_query_tokens": _Meaning("hami_llm_prefix_cache_query_tokens"),
    "num_evictions": _Meaning("hami_llm_prefix_cache_evictions"),
    "num_preempted_recompute": _Meaning("hami_llm_preemptions", ("kind", "recompute")),
    "num_preempted_swap": _Meaning("hami_llm_preemptions", ("kind", "swap")),
    "num_aborted": _Meaning("hami_llm_aborts"),
}


@dataclass
class LanguageModelMetrics:
    """Sorts the figures of one scrape into metrics."""

    _samples: dict[str, list[tuple[list[str], float]]] = field(default_factory=dict)

    def take(self, node: str, figures: Mapping[str, float]) -> dict[str, float]:
        """Take what is known of a language model, and return the rest; of any other backend all."""
        if not figures.keys() >= _SIGNS:
            return dict(figures)
        rest = {}
        for name, value in figures.items():
            meaning = _MEANINGS.get(name)
            if meaning is None:
                rest[name] = value
                continue
            labels = [node] if meaning.label is None else [node, meaning.label[1]]
            self._samples.setdefault(meaning.metric, []).append((labels, value * meaning.scale))
        return rest

    def families(self) -> Iterator[Metric]:
        """Yield a metric for everything that was taken."""
        names = {meaning.metric: meaning.label for meaning in _MEANINGS.values()}
        for metric, text in (_GAUGES | _COUNTERS).items():
            samples = self._samples.get(metric)
            if not samples:
                continue
            extra = names[metric]
            labels = ["node"] if extra is None else ["node", extra[0]]
            kind = GaugeMetricFamily if metric in _GAUGES else CounterMetricFamily
            family = kind(metric, text, labels=labels)
            for values, number in samples:
                family.add_metric(values, number)
            yield family
