"""Which `max`, `instance_num` and `batching_timeout` answer the most requests within a latency: by measuring.

The nodes are tuned one after another, the one that computes most first. A cost model of what has been
measured says which few sizes are worth measuring (hami.bench.cost_model); what is proposed was measured
itself, under the load that was asked for, in turn with what the file says now. A change is proposed only
where the rounds show that it helps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from .compare import ratio_of
from .cost_model import Arrivals, NodeModel, RunTime, Sizes, doublings, fit_run_time
from .load import Load
from .results import Case, CaseResult, Results
from .sweep import Change, Changes

MeasureCases = Callable[[Sequence[Case], int], Results]
"""Measures cases so many times each: `Campaign.run`."""

WHERE = "--tune"

_NUM_MEASURED = 5
_MOST_ROWS = 64
_SLACK = 1.25
_KEPT_UP = 0.98
_TIMEOUTS_MS = (0.0, 1.0, 2.0, 4.0, 8.0, 16.0)
_FEW = 0.05
_NEAR = 0.97
_LITTLE = 0.02


@dataclass(frozen=True)
class Goal:
    """The most requests a second of which a percentile (`p50`, `p90`, `p99`, `p99.9`) stays within a latency.

    At a rate, which says how many requests there are, it is the shortest latency that counts instead.
    """

    latency_ms: float
    percentile: str
    load: Load

    @property
    def arrivals(self) -> Arrivals:
        """How requests come, for the cost model."""
        return Arrivals(self.load.num_callers, self.load.rate_per_s)

    def latency_of(self, case: CaseResult) -> float:
        """Return the percentile in milliseconds; infinite where no request succeeded."""
        estimate = case.report.latency_ms(self.percentile)
        return math.inf if estimate is None else estimate.mean

    def is_met(self, case: CaseResult) -> bool:
        """Say whether the requests were answered: in time, without errors, and as fast as they came."""
        rate = self.load.rate_per_s
        keeps_up = rate is None or case.report.throughput_per_s.mean >= _KEPT_UP * rate
        return keeps_up and case.report.num_errors == 0 and self.latency_of(case) <= self.latency_ms

    def gains(self, case: CaseResult) -> list[float]:
        """Return for each round what is to be as large as possible."""
        if self.load.rate_per_s is None:
            return [each.throughput_per_s for each in case.report.rounds]
        return [1 / each.latency_ms[self.percentile] for each in case.report.rounds if each.latency_ms]


@dataclass(frozen=True)
class TunedNode:
    """A node whose settings are chosen. None: the file does not say."""

    name: str
    max: int | None = None
    instances: int = 1
    timeout_ms: float | None = None

    def change(self, key: str, value: float) -> Change:
        """Return the change of one key."""
        return Change(self.name, key, value, WHERE)

    def changes(self, sizes: Sizes) -> Changes:
        """Return what must be changed in the file for these sizes."""
        wanted = []
        if sizes.max != (self.max or 1):
            wanted.append(self.change("max", sizes.max))
        if sizes.instances != self.instances:
            wanted.append(self.change("instance_num", sizes.instances))
        return tuple(wanted)


@dataclass
class Step:
    """What was measured to choose one node's settings; `kept` is the case that it ended with."""

    node: str
    run_time: RunTime
    tried: list[CaseResult] = field(default_factory=list)
    kept: CaseResult | None = None
    has_tried_timeouts: bool = False


@dataclass
class Proposal:
    """What the tuner found: the file as it is, the best of what was measured, and all that led there."""

    goal: Goal
    baseline: CaseResult
    chosen: CaseResult
    single: CaseResult | None = None
    steps: list[Step] = field(default_factory=list)
    is_complete: bool = True

    @property
    def is_met(self) -> bool:
        """Whether what is proposed stays within the latency."""
        return self.goal.is_met(self.chosen)

    @property
    def changes(self) -> Changes:
        """What is to be changed in the file."""
        return self.chosen.changes


class Interrupted(Exception):  # noqa: N818  it is no error
    """The user has ended the measurement; `measured` is what was done of it."""

    def __init__(self, measured: list[CaseResult]) -> None:
        super().__init__()
        self.measured = measured


class Tuner:
    """Chooses the settings of `nodes` of one pipeline. `cores` is what the machine has."""

    def __init__(
        self, measure: MeasureCases, goal: Goal, nodes: Sequence[TunedNode], cores: int, repeats: int
    ) -> None:
        self.measure = measure
        self.goal = goal
        self.nodes = {node.name: node for node in nodes}
        self.cores = cores
        self.repeats = repeats

    def run(self) -> Proposal | None:
        """Measure and choose. None where it was interrupted before the first round."""
        is_complete = True
        try:
            baseline = self._measure([Case((), self.goal.load)])
        except Interrupted as stop:
            baseline, is_complete = stop.measured, False
        if not baseline:
            return None
        proposal = Proposal(self.goal, baseline[0], baseline[0], is_complete=is_complete)
        if baseline[0].has_failed or not is_complete:
            return proposal
        try:
            self._choose(proposal)
        except Interrupted:
            proposal.is_complete = False
        return proposal

    def _choose(self, proposal: Proposal) -> None:
        largest, probes = self._probe()
        proposal.single = next((case for case in probes if case.report.load.num_callers == 1), None)
        work = {name: one.run_s for name, one in proposal.baseline.figures.items()}
        total = sum(work.values())
        for name in sorted(self.nodes, key=lambda name: -work.get(name, 0.0)):
            if work.get(name, 0.0) < _LITTLE * total:
                continue  # whatever it is given, the pipeline hardly notices
            run_time = fit_run_time(
                case.figures[name] for case in [*probes, proposal.baseline] if name in case.figures
            )
            if run_time is None:
                continue  # no request came by
            step = Step(name, run_time)
            proposal.steps.append(step)
            self._choose_sizes(proposal, step, largest[name])
            self._choose_timeout(proposal, step)
        if proposal.chosen.changes:
            self._confirm(proposal)

    def _confirm(self, proposal: Proposal) -> None:
        """Measure the choice once more beside the file as it is: the best of several was lucky too."""
        load, changes = self.goal.load, proposal.chosen.changes
        measured = self._measure([Case((), load), Case(changes, load)])
        proposal.baseline, proposal.chosen = measured[0], best(measured, self.goal)

    def _measure(self, cases: Sequence[Case], repeats: int | None = None) -> list[CaseResult]:
        results = self.measure(cases, self.repeats if repeats is None else repeats)
        if not results.is_complete:
            raise Interrupted(list(results.cases))
        return list(results.cases)

    # --- how long runs take ----------------------------------------------------------------------

    def _probe(self) -> tuple[dict[str, int], list[CaseResult]]:
        """Return the largest `max` that each node can be built with, and runs with few and with many rows."""
        most = min(self.goal.load.num_callers or _MOST_ROWS, _MOST_ROWS)
        changes: dict[str, Changes] = {}
        largest = {}
        probes: list[CaseResult] = []
        for node in self.nodes.values():
            for rows in [*reversed([n for n in doublings(most) if n > (node.max or 1)]), node.max or 1]:
                own = node.changes(Sizes(rows, node.instances))
                others = [
                    change for name, of_node in changes.items() if name != node.name for change in of_node
                ]
                found = self._measure([Case((*others, *own), self._callers(1))], 1)
                if found:
                    largest[node.name], changes[node.name], probes = rows, own, found
                    break
            else:  # what the file says could be built before
                largest[node.name] = node.max or 1
        together = tuple(change for of_node in changes.values() for change in of_node)
        numbers = doublings(min(most, max(largest.values(), default=1)))[1:]
        probes += self._measure([Case(together, self._callers(n)) for n in numbers], 1) if numbers else []
        return largest, probes

    def _callers(self, number: int) -> Load:
        return replace(self.goal.load, num_callers=number, rate_per_s=None)

    # --- what is worth measuring -----------------------------------------------------------------

    def _choose_sizes(self, proposal: Proposal, step: Step, largest: int) -> None:
        node = self.nodes[step.node]
        before = proposal.chosen
        model = self._model(before, step)
        now = Sizes(node.max or 1, node.instances)
        sizes = promising(model, self.goal, proposal.baseline, now, largest, self.cores)
        cases = [Case((*before.changes, *node.changes(one)), self.goal.load) for one in sizes]
        self._keep_best(proposal, step, [Case(before.changes, self.goal.load), *cases])

    def _model(self, case: CaseResult, step: Step) -> NodeModel:
        """Return what is known of the node while the rest is as in `case`."""
        own = case.figures[step.node]
        busy = sum(one.busy * one.instances for one in case.figures.values())
        used = case.report.cpu_cores
        latency = case.report.latency_ms("mean")
        rest_ms = 0.0 if latency is None else latency.mean - own.mean_wait_ms - own.mean_run_ms
        others = [one for one in case.figures.values() if one.node != step.node and one.run_s > 0]
        return NodeModel(
            step.run_time,
            self.cores,
            1.0 if used is None or busy <= 0 else min(used.mean / busy, float(self.cores)),
            max(0.0, rest_ms),
            min((one.instances * one.items / one.run_s for one in others), default=math.inf),
        )

    # --- what is measured decides ----------------------------------------------------------------

    def _choose_timeout(self, proposal: Proposal, step: Step) -> None:
        """Try other times to wait, where waiting has ended batches: elsewhere it decides nothing."""
        figures = proposal.chosen.figures[step.node]
        if figures.largest_batch <= 1 or figures.release_share("timeout") < _FEW:
            return
        node, before = self.nodes[step.node], proposal.chosen
        longest = self.goal.latency_ms / 2
        times = [ms for ms in _TIMEOUTS_MS if ms <= longest and ms != node.timeout_ms]
        step.has_tried_timeouts = True
        cases = [Case((*before.changes, node.change("batching_timeout", ms)), self.goal.load) for ms in times]
        self._keep_best(proposal, step, [Case(before.changes, self.goal.load), *cases])

    def _keep_best(self, proposal: Proposal, step: Step, cases: Sequence[Case]) -> None:
        """Measure the cases, of which the first is what has been chosen so far."""
        try:
            measured = self._measure(list(dict.fromkeys(cases)))
        except Interrupted as stop:
            step.tried += stop.measured
            raise
        step.tried += measured
        proposal.chosen = step.kept = best(measured, self.goal)


def promising(
    model: NodeModel, goal: Goal, baseline: CaseResult, now: Sizes, largest: int, cores: int
) -> list[Sizes]:
    """Return the few sizes, other than those of now, that should do most within the latency; best first.

    Where none should, those with the shortest latency. The percentile is expected to be as far from the mean
    as it was in the baseline.
    """
    mean = baseline.report.latency_ms("mean")
    ratio = max(1.0, goal.latency_of(baseline) / mean.mean) if mean is not None else 1.0
    allowed_ms = goal.latency_ms * _SLACK / ratio
    all_sizes = [
        Sizes(rows, n) for rows in {*doublings(largest), now.max} for n in {*doublings(cores), now.instances}
    ]
    expected = {sizes: model.expected(sizes, goal.arrivals) for sizes in all_sizes if sizes != now}

    def order(sizes: Sizes) -> tuple[float, ...]:
        found = expected[sizes]
        is_late = found.latency_ms > allowed_ms
        value = found.latency_ms if is_late or goal.load.is_open else -found.throughput_per_s
        return is_late, value, sizes.instances, sizes.max

    return sorted(expected, key=order)[:_NUM_MEASURED]


def best(cases: Sequence[CaseResult], goal: Goal) -> CaseResult:
    """Return the case to propose; the first one is what there is now.

    Of those that meet the goal, the one that gains most. One that changes less is as good, unless the rounds
    show a difference: so the first stays if it can, and then fewer instances and smaller batches win. Where
    none meets the goal it is the one that comes nearest.
    """
    met = [case for case in cases if goal.is_met(case)]
    if not met:
        return min(cases, key=goal.latency_of)
    gain = {id(case): _mean(goal.gains(case)) for case in met}
    most = max(met, key=lambda case: gain[id(case)])
    as_good = [case for case in met if case is most or _is_as_good(case, most, goal)]
    first = cases[0]
    if first in as_good:
        return first
    near = [case for case in as_good if gain[id(case)] >= _NEAR * gain[id(most)]]
    return min(near, key=_effort)


def _is_as_good(case: CaseResult, as_what: CaseResult, goal: Goal) -> bool:
    ratio = ratio_of(goal.gains(as_what), goal.gains(case))
    if ratio is None or ratio.low is None:
        return False
    return ratio.mean >= 1 or not ratio.is_shown


def _effort(case: CaseResult) -> tuple[int, int, int]:
    """Return instances, changes, and the rows that are asked for: what memory and attention they take."""
    instances = sum(one.instances for one in case.figures.values())
    rows = sum(int(change.value) for change in case.changes if change.key == "max")
    return instances, len(case.changes), rows


def _mean(values: Iterable[float]) -> float:
    values = list(values)
    return sum(values) / len(values) if values else 0.0
