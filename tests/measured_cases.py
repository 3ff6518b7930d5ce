"""Measurements that were never made: reports with known figures, and a pipeline of one simulated node."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hami.bench.load import Load
from hami.bench.node_figures import NodeFigures
from hami.bench.report import LoadReport, Round
from hami.bench.results import Case, CaseResult, Results
from hami.bench.sweep import Change, Changes, changes_text

MADE_WITH = {"hami": "0.1.0", "machine": "a machine", "time": "2026-01-01T00:00:00"}


def one_round(
    per_s: float, p50_ms: float = 1.0, p99_ms: float = 2.0, num_errors: int = 0, **more: Any
) -> Round:
    """Return a round of one second, in which `per_s` requests were answered and `num_errors` failed."""
    answered = round(per_s)
    latency = {"p50": p50_ms, "p90": p50_ms, "p99": p99_ms, "p99.9": p99_ms, "mean": p50_ms, "max": p99_ms}
    first_error = "ValueError: no" if num_errors else None
    return Round(1.0, answered + num_errors, num_errors, first_error, latency if answered else {}, **more)


def result(
    rounds: Iterable[Round],
    changes: Changes = (),
    nodes: Iterable[NodeFigures] = (),
    other_cores: Sequence[float] = (),
    **load: Any,
) -> CaseResult:
    """Return the result of one case; the load is one caller unless it is said otherwise."""
    rounds = tuple(rounds)
    load = {"num_callers": 1, **load} if "rate_per_s" not in load else load
    report = LoadReport(Load(repeats=len(rounds), **load), rounds, MADE_WITH)
    figures = tuple(nodes)
    return CaseResult(changes, report, (figures,) * len(rounds) if figures else (), tuple(other_cores))


def results(*cases: CaseResult, **more: Any) -> Results:
    """Return the results of a file `pipeline.toml`."""
    return Results("pipeline.toml", cases, **more)


def change(name: str, value: Any) -> Change:
    """Return the change of `node.key`, or of a key alone."""
    node, _, key = name.rpartition(".")
    return Change(node or None, key, value)


@dataclass
class SimulatedNode:
    """Measures a pipeline of one node `model` whose figures follow from a few constants, without noise but a
    known jitter.

    A run of n rows takes `fixed_ms + row_ms * n`, longer where the instances do not find a core each. Callers
    in a loop fill batches as far as `max` allows. The p99 is 1.2 times the mean.
    """

    fixed_ms: float
    row_ms: float
    cores: int = 2
    largest_max: int = 64
    timeout_share: float = 0.0
    timeout_costs_ms: float = 0.0
    written: Mapping[str, Any] = field(default_factory=lambda: {"max": 1, "instance_num": 1})
    jitter: Sequence[float] = (0.99, 1.0, 1.01)
    interrupt_after: int | None = None
    fails: bool = False
    asked: list[Case] = field(default_factory=list)

    def settings(self, changes: Changes) -> dict[str, Any]:
        """Return the node's settings with these changes."""
        return {**self.written, **{one.key: one.value for one in changes}}

    def latency_and_rate(self, settings: Mapping[str, Any], load: Load) -> tuple[float, float, float]:
        """Return mean latency in ms, requests a second, rows of a batch."""
        instances = settings["instance_num"]
        slowdown = max(1.0, instances / self.cores)
        wait_ms = self.timeout_costs_ms * settings.get("batching_timeout", 4.0)
        if load.num_callers is not None:
            rows = max(1.0, min(settings["max"], load.num_callers / instances))
            run_ms = (self.fixed_ms + self.row_ms * rows) * slowdown + wait_ms
            per_s = min(instances, load.num_callers) * rows / run_ms * 1e3
            return load.num_callers / per_s * 1e3, per_s, rows
        rate = load.rate_per_s
        assert rate is not None
        rows = settings["max"]
        full_ms = (self.fixed_ms + self.row_ms * rows) * slowdown + wait_ms
        capacity = instances * rows / full_ms * 1e3
        if capacity < rate:
            return 10_000.0, capacity, rows
        return full_ms / (1 - rate / capacity), rate, rows

    def __call__(self, cases: Sequence[Case], repeats: int) -> Results:
        """Answer as `Campaign.run` does."""
        found, unbuilt = [], {}
        for case in cases:
            self.asked.append(case)
            if self.interrupt_after is not None and len(self.asked) > self.interrupt_after:
                return Results("", tuple(found), unbuilt, is_complete=False)
            settings = self.settings(case.changes)
            if settings["max"] > self.largest_max:
                unbuilt[changes_text(case.changes)] = (
                    "build-batch-range: `max` is above what the backend can run"
                )
                continue
            found.append(self._measured(case, settings, repeats))
        return Results("", tuple(found), unbuilt)

    def _measured(self, case: Case, settings: Mapping[str, Any], repeats: int) -> CaseResult:
        latency_ms, per_s, rows = self.latency_and_rate(settings, case.load)
        runs = per_s / rows
        slowdown = max(1.0, settings["instance_num"] / self.cores)
        run_ms = (self.fixed_ms + self.row_ms * rows) * slowdown
        low = int(rows)
        num_large = round(runs * (rows - low))
        histogram = {low: max(1, round(runs) - num_large), **({low + 1: num_large} if num_large else {})}
        figures = NodeFigures(
            "model",
            1.0,
            settings["instance_num"],
            items=round(per_s),
            run_s=run_ms / 1e3 * sum(histogram.values()),
            wait_s=per_s * max(0.0, latency_ms - run_ms) / 1e3,
            rows=histogram,
            releases={
                "timeout": round(1000 * self.timeout_share),
                "full": round(1000 * (1 - self.timeout_share)),
            },
        )
        used = min(float(self.cores), runs * run_ms / slowdown / 1e3)
        rounds = []
        for factor in itertools.islice(itertools.cycle(self.jitter), repeats):
            if self.fails:
                rounds.append(one_round(0, num_errors=10))
                continue
            each = one_round(
                per_s * factor * 100, latency_ms / factor, 1.2 * latency_ms / factor, cpu_cores=used
            )
            rounds.append(replace(each, seconds=100.0))
        report = LoadReport(replace(case.load, repeats=repeats), tuple(rounds), MADE_WITH)
        return CaseResult(case.changes, report, ((figures,),) * repeats)
