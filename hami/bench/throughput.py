"""`ThroughputBenchmark`: a pipeline under load, called from threads of the core.

The class is after `torch.utils.ThroughputBenchmark`: inputs are added, then `benchmark` runs them. The loops,
the clock and the record of latencies are C++ (csrc/load); this module starts rounds, looks at the process ten
times a second, and makes the report.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from typing import Any

from .. import _core
from ..errors import ConfigError
from ..pipeline import Pipeline
from .load import Load
from .process_watch import ProcessWatch
from .report import LoadReport, Round

_LOOK_S = 0.1


@dataclass(frozen=True)
class Progress:
    """How far a measurement is."""

    round: int
    """From 1; 0 while it warms up."""
    num_rounds: int
    share: float
    """Of this round, 0 to 1."""
    seconds: float
    """Since this round began."""
    num_requests: int
    """Answered in this round, with an error or without."""
    num_errors: int


class ThroughputBenchmark:
    """Measure how many requests a pipeline answers, and how fast.

    `inputs` are dicts as `pipe(...)` takes them; each is read once, and every call gets a request of its own
    with the same values. Nothing of them is changed. One thread at a time.
    """

    def __init__(self, pipe: Pipeline, inputs: Iterable[Mapping[str, Any]] = ()) -> None:
        self._samples = _core.LoadSamples(pipe)
        self._pipe = pipe
        for request in inputs:
            self.add_input(request)

    def add_input(self, request: Mapping[str, Any]) -> None:
        """Add a dict that requests are made of. Raises RequestError where the pipeline would refuse it."""
        self._samples.add(request)

    @property
    def num_inputs(self) -> int:
        """How many inputs there are."""
        return len(self._samples)

    def run_once(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Run one dict and return its answer; the dict itself stays as it is."""
        return self._pipe(dict(request))

    def benchmark(
        self,
        load: Load | None = None,
        *,
        on_progress: Callable[[Progress], None] | None = None,
        **fields: Any,
    ) -> LoadReport:
        """Put the pipeline under a load, and return what was measured.

        `load`, or its fields: `benchmark(num_callers=8, duration_s=2)`. `on_progress` is called on this thread,
        about ten times a second; what it raises ends the measurement, as Ctrl-C does. Raises ConfigError for a
        load that cannot be, or without an input, and Closed when the pipeline is closed meanwhile. Requests
        that fail are counted, not raised.
        """
