"""Two measurements beside each other: what has changed for each setting and load, and if that is shown."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .estimate import t_point
from .report import Round
from .results import CaseResult, Results

IMPROVED, REGRESSED, NO_DIFFERENCE = "improved", "regressed", "no difference shown"


@dataclass(frozen=True)
class Ratio:
    """New over old, with its 95 % confidence interval; no interval where one side has a single round."""

    mean: float
    low: float | None
    high: float | None

    @property
    def is_shown(self) -> bool:
        """Whether the interval leaves 1 out: the two differ by more than their rounds do."""
        return self.low is not None and self.high is not None and not self.low <= 1.0 <= self.high


def ratio_of(old: Sequence[float], new: Sequence[float]) -> Ratio | None:
    """Return the ratio of the geometric means; None where a side has no value, or one that is not above 0.

    The interval is that of Welch ("The generalization of Student's problem when several different population
    variances are involved", Biometrika 34, 1947) for the difference of the logarithms. Its degrees of freedom
    are rounded down, which makes it wider.
    """
    if not old or not new or min(*old, *new, math.inf) <= 0:
        return None
    logs = [[math.log(value) for value in side] for side in (old, new)]
    difference = statistics.fmean(logs[1]) - statistics.fmean(logs[0])
    if len(old) < 2 or len(new) < 2:
        return Ratio(math.exp(difference), None, None)
    errors = [statistics.variance(side) / len(side) for side in logs]
    total = sum(errors)
    if total < 1e-18:
        return Ratio(math.exp(difference), math.exp(difference), math.exp(difference))
    degrees = total**2 / sum(e**2 / (len(side) - 1) for e, side in zip(errors, logs, strict=True))
    half = t_point(max(1, math.floor(degrees))) * math.sqrt(total)
    return Ratio(math.exp(difference), math.exp(difference - half), math.exp(difference + half))


@dataclass(frozen=True)
class Figure:
    """One thing that is compared; `value` takes it out of a round, None where the round has none."""

    name: str
    is_higher_better: bool
    value: Callable[[Round], float | None]


FIGURES = (
    Figure("requests/s", True, lambda each: each.throughput_per_s),
    Figure("p50", False, lambda each: each.latency_ms.get("p50")),
    Figure("p99", False, lambda each: each.latency_ms.get("p99")),
)


@dataclass(frozen=True)
class Difference:
    """One figure of one case, old and new; `ratio` is None where there is nothing to compare."""

    setting: str
    load: str
    figure: Figure
    ratio: Ratio | None

    @property
    def verdict(self) -> str:
        """One of `improved`, `regressed` and `no difference shown`."""
        if self.ratio is None or not self.ratio.is_shown:
            return NO_DIFFERENCE
        return IMPROVED if (self.ratio.mean > 1) == self.figure.is_higher_better else REGRESSED

    @property
    def loss(self) -> float:
        """How much worse it is, as a part of the old figure, if that is shown; else 0."""
        if self.ratio is None or self.verdict != REGRESSED:
            return 0.0
        return 1 - self.ratio.mean if self.figure.is_higher_better else self.ratio.mean - 1


@dataclass(frozen=True)
class Comparison:
    """All that two measurements have in common, and the cases that only one of them has."""

    differences: tuple[Difference, ...]
    only_old: tuple[tuple[str, str], ...]
    only_new: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]

    def worse_than(self, limit: float) -> list[Difference]:
        """Return what has shown itself worse by more than `limit`, a part of the old figure."""
        return [difference for difference in self.differences if difference.loss > limit]


def compare(old: Results, new: Results) -> Comparison:
    """Match the cases of two measurements by setting and load, and compare requests/s, p50 and p99."""
    before = {case.key: case for case in old.cases}
    after = {case.key: case for case in new.cases}
    differences = tuple(
        Difference(*key, figure, ratio_of(_values(before[key], figure), _values(after[key], figure)))
        for key in after
        if key in before
        for figure in FIGURES
    )
    return Comparison(
        differences,
        tuple(key for key in before if key not in after),
        tuple(key for key in after if key not in before),
        tuple(_differences_of_making(old, new)),
    )


def _values(case: CaseResult, figure: Figure) -> list[float]:
    values = (figure.value(each) for each in case.report.rounds)
    return [value for value in values if value is not None]


def _differences_of_making(old: Results, new: Results) -> list[str]:
    """Return what else is different: another machine makes ratios mean little."""
    if not old.cases or not new.cases:
        return []
    was, now = old.cases[0].report.made_with, new.cases[0].report.made_with
    return [
        f"`{name}` was `{was[name]}`, and is `{now[name]}`"
        for name in was
        if name != "time" and name in now and was[name] != now[name]
    ]
