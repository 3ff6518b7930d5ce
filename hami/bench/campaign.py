"""Measure many cases of one pipeline in turn: every setting under every load, again and again.

The repeats are the outermost loop, and every second one goes backwards, so that a machine that gets slower
or faster meanwhile does so for all cases alike. One pipeline is open at a time; it is built anew when the
setting changes, so what the building leaves to chance is in the figures too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from ..config import Config
from ..errors import exit_of
from .load import Load
from .node_figures import NodeFigures, figures_between
from .other_load import OtherLoad
from .report import LoadReport
from .results import Case, CaseResult, Results
from .sweep import Changes, changed, changes_text
from .throughput import Progress, ThroughputBenchmark

OnProgress = Callable[[Case, float, int], None]
"""Told what is measured now, how many rounds are done (part of this one too), and how many are planned."""


class Measured(Protocol):
    """What is measured: a pipeline."""

    def stats(self, *, buckets: bool = False) -> list[dict[str, Any]]:
        """Return the figures of each node."""

    def close(self) -> bool:
        """End it."""


Measure = Callable[[Any, Load, Callable[[float], None]], LoadReport]
"""Puts a load on a pipeline, tells how much of it is done (0 to 1), and returns the report of its rounds."""


def measure_with(samples: Sequence[Mapping[str, Any]]) -> Measure:
    """Return what sends these requests from threads of the core. They are read once for each pipeline."""
    read: list[tuple[Any, ThroughputBenchmark]] = []

    def measure(pipe: Any, load: Load, on_share: Callable[[float], None]) -> LoadReport:
        if not read or read[0][0] is not pipe:
            read[:] = [(pipe, ThroughputBenchmark(pipe, samples))]
        return read[0][1].benchmark(load, on_progress=lambda progress: on_share(share_of(progress)))

    return measure


def share_of(progress: Progress) -> float:
    """Return how much of a load of one round is done; its warm-up counts as nothing."""
    return progress.share if progress.round else 0.0


@dataclass
class _Collected:
    reports: list[LoadReport] = field(default_factory=list)
    nodes: list[tuple[NodeFigures, ...]] = field(default_factory=list)
    other_cores: list[float] = field(default_factory=list)

    def result(self, case: Case) -> CaseResult:
        rounds = tuple(each for report in self.reports for each in report.rounds)
        load = replace(case.load, repeats=len(rounds))
        report = LoadReport(load, rounds, self.reports[0].made_with)
        return CaseResult(case.changes, report, tuple(self.nodes), tuple(self.other_cores))


class Campaign:
    """Measures cases of the pipeline that `config` describes. One thread.

    `open_pipe` builds a pipeline of a configuration, `measure` puts a load on it.
    """

    def __init__(
        self,
        config: Config,
        open_pipe: Callable[[Config], Measured],
        measure: Measure,
        on_progress: OnProgress = lambda case, num_done, num_planned: None,
    ) -> None:
        self.config = config
        self.open_pipe = open_pipe
        self.measure = measure
        self.on_progress = on_progress
        self.unbuilt: dict[str, str] = {}
        self._num_done = self._num_planned = 0
        self._open: tuple[Changes, Measured] | None = None

    def run(self, cases: Sequence[Case], repeats: int) -> Results:
        """Measure every case `repeats` times. An interrupt ends it early; what has been measured is returned.

        A setting that cannot be built is left out, and why stands in the results. Raises what the building
        raises where nothing is changed.
        """
        collected: dict[Case, _Collected] = {case: _Collected() for case in cases}
        is_complete = False
        self._num_planned = self._num_done + len(cases) * repeats
        try:
            for number, case in in_turn(cases, repeats):
                pipe = self._pipe(case.changes)
                self._tell(case)
                if pipe is not None:
                    self._measure(pipe, case, number, collected[case])
                self._num_done += 1
            is_complete = True
        except KeyboardInterrupt:
            pass  # what has been measured is worth something
        finally:
            self.close()
        results = tuple(c.result(case) for case, c in collected.items() if c.reports)
        return Results(self.config.name, results, dict(self.unbuilt), is_complete)

    def _measure(self, pipe: Measured, case: Case, number: int, into: _Collected) -> None:
        load = replace(case.load, repeats=1, seed=case.load.seed + number)
        before, start_s, others = pipe.stats(buckets=True), time.perf_counter(), OtherLoad()
        report = self.measure(pipe, load, lambda share: self._tell(case, share))
        cores, seconds = others.cores(), time.perf_counter() - start_s
        into.nodes.append(tuple(figures_between(before, pipe.stats(buckets=True), seconds)))
        into.reports.append(report)
        if cores is not None:
            into.other_cores.append(cores)

    def _tell(self, case: Case, share: float = 0.0) -> None:
        self.on_progress(case, self._num_done + share, self._num_planned)

    def _pipe(self, changes: Changes) -> Measured | None:
        """Return the pipeline with these changes, building it unless it is open; None if it cannot be."""
        if self._open is not None and self._open[0] == changes:
            return self._open[1]
        self.close()
        setting = changes_text(changes)
        if setting in self.unbuilt:
            return None
        try:
            self._open = (changes, self.open_pipe(changed(self.config, changes)))
        except Exception as error:  # whatever the making of a backend raises, such as a lack of memory
            if not changes:
                raise
            self.unbuilt[setting] = exit_of(error)[0]
            return None
        return self._open[1]

    def close(self) -> None:
        """End the pipeline that is open."""
        if self._open is not None:
            self._open[1].close()
            self._open = None


def in_turn(cases: Sequence[Case], repeats: int) -> Iterator[tuple[int, Case]]:
    """Yield the number of each repeat with each case: forwards, then backwards, and so on."""
    for number in range(repeats):
        for case in cases if number % 2 == 0 else reversed(cases):
            yield number, case
