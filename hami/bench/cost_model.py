"""What a node's settings should give, from what its runs have taken: it narrows what the tuner measures.

A run of n rows takes `fixed_ms + row_ms * n` milliseconds: a straight line through the measured runs.
Instances run side by side as long as there are cores for them. Nothing is proposed from these figures alone;
they only say which few settings are worth measuring.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from .node_figures import NodeFigures


@dataclass(frozen=True)
class RunTime:
    """The straight line: a run of n rows takes `fixed_ms + row_ms * n`, known up to `largest_rows`."""

    fixed_ms: float
    row_ms: float
    largest_rows: float

    def of(self, rows: float) -> float:
        """Return the milliseconds of a run with so many rows."""
        return self.fixed_ms + self.row_ms * rows


def fit_run_time(figures: Iterable[NodeFigures]) -> RunTime | None:
    """Fit the line to the mean run of each of the figures by weighted least squares; None where nothing ran.

    The mean of a straight line is the line at the mean, so that means are as good as single runs. The weight
    of a mean is the number of its runs. Neither part is below 0; with runs of one size only, all counts as
    time of the rows.
    """
    points = [(one.mean_batch, one.mean_run_ms, one.num_runs) for one in figures if one.num_runs]
    if not points:
        return None
    total = sum(weight for *_, weight in points)
    rows = sum(x * weight for x, _, weight in points) / total
    ms = sum(y * weight for _, y, weight in points) / total
    spread = sum(weight * (x - rows) ** 2 for x, _, weight in points) / total
    largest = max(x for x, *_ in points)
    if spread < 1e-6 * rows**2:
        return RunTime(0.0, ms / rows, largest)
    slope = sum(weight * (x - rows) * (y - ms) for x, y, weight in points) / total / spread
    slope = min(max(slope, 0.0), ms / rows)
    return RunTime(ms - slope * rows, slope, largest)


@dataclass(frozen=True)
class Sizes:
    """What the tuner chooses for a node."""

    max: int
    instances: int


@dataclass(frozen=True)
class Arrivals:
    """How requests come: so many callers in a loop, or (None) at a rate a second."""

    num_callers: int | None = None
    rate_per_s: float | None = None


@dataclass(frozen=True)
class Expected:
    """Requests a second and the mean latency in milliseconds, infinite where the node cannot keep up."""

    throughput_per_s: float
    latency_ms: float


@dataclass(frozen=True)
class NodeModel:
    """One node on a machine: `cores_per_run` is what a run keeps busy by itself, `rest_ms` what a request
    spends outside the node, `rest_per_s` what the rest of the pipeline can do at most."""

    run_time: RunTime
    cores: int
    cores_per_run: float
    rest_ms: float = 0.0
    rest_per_s: float = math.inf

    def slowdown(self, instances: int) -> float:
        """Return how much longer a run takes while all instances run, because the cores do not suffice."""
        return max(1.0, instances * self.cores_per_run / self.cores)

    def expected(self, sizes: Sizes, arrivals: Arrivals) -> Expected:
        """Return what these sizes should give.

        Callers in a loop get the smallest of three bounds, those of operational analysis (Denning and Buzen,
        1978): the node's capacity, that of the rest, and all callers over the time of one request when
        nobody waits. Their latency follows from Little's law.
        """
        slowdown = self.slowdown(sizes.instances)
        if arrivals.num_callers is not None:
            callers = arrivals.num_callers
            rows = max(1.0, min(float(sizes.max), callers / sizes.instances))
            run_s = max(self.run_time.of(rows) * slowdown / 1e3, 1e-9)
            capacity = min(sizes.instances, callers) * rows / run_s
            per_s = min(capacity, self.rest_per_s, callers / (run_s + self.rest_ms / 1e3))
            return Expected(per_s, callers / per_s * 1e3)
        assert arrivals.rate_per_s is not None
        return self._of_rate(sizes, arrivals.rate_per_s, slowdown)

    def _of_rate(self, sizes: Sizes, rate_per_s: float, slowdown: float) -> Expected:
        """A batch holds what arrives during a run; when that is more than `max`, the queue grows for ever."""
        fixed_s = self.run_time.fixed_ms * slowdown / 1e3
        row_s = self.run_time.row_ms * slowdown / 1e3
        capacity = sizes.instances * sizes.max / max(fixed_s + row_s * sizes.max, 1e-9)
        if capacity <= rate_per_s or self.rest_per_s <= rate_per_s:
            return Expected(min(capacity, self.rest_per_s), math.inf)
        spare = sizes.instances - rate_per_s * row_s
        rows = (
            max(1.0, min(float(sizes.max), rate_per_s * fixed_s / spare)) if spare > 0 else float(sizes.max)
        )
        run_ms = (fixed_s + row_s * rows) * 1e3
        used = rate_per_s / capacity
        waiting_ms = run_ms / 2 / sizes.instances / (1 - used)
        return Expected(rate_per_s, self.rest_ms + run_ms + waiting_ms)


def doublings(largest: int) -> list[int]:
    """Return 1, 2, 4, ... up to `largest`, which is the last."""
    powers = [2**exponent for exponent in range(max(1, largest).bit_length())]
    return sorted({*powers, max(1, largest)})
