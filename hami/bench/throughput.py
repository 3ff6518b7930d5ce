"""`ThroughputBenchmark`: a pipeline under load, called from threads of the core.

The class is after `torch.utils.ThroughputBenchmark`: inputs are added, then `benchmark` runs them. The loops,
the clock and the record of latencies are C++ (csrc/load); this module starts rounds, looks at the process ten
times a second, and makes the report.
"""

from __future__ import annotations

import dataclasses
import os
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from importlib import metadata
from typing import Any

from .. import _core
from ..errors import Closed, ConfigError, RequestError, quoted
from ..pipeline import Pipeline
from .load import Load
from .process_watch import ProcessWatch
from .report import LoadReport, Round

_LOOK_S = 0.1
# What a caller may take beyond `timeout_s` before it counts as held for good.
_GRACE_S = 1.0
# Rounds of two seeds never share one: `repeats` is below that.
_MOST_ROUNDS = 1 << 20


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
        if not isinstance(pipe, Pipeline):
            raise ConfigError(
                f"what is measured must be a pipeline, got a `{type(pipe).__name__}`",
                code="load-setting",
                where="load",
                help="write `hami.ThroughputBenchmark(hami.pipe(...))`",
            )
        self._pipe = pipe
        self._samples = _core.LoadSamples(pipe)
        for request in inputs:
            self.add_input(request)

    def add_input(self, request: Mapping[str, Any]) -> None:
        """Add a dict that requests are made of. Raises RequestError where the pipeline would refuse it."""
        if not isinstance(request, Mapping):
            raise RequestError(
                f"a request is a dict, got a `{type(request).__name__}`",
                code="request-type",
                where=f"input {len(self._samples) + 1}",
                help='call `add_input({"data": ...})`',
            )
        self._samples.add(dict(request))

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

        `load`, or its fields: `benchmark(num_callers=8, duration_s=2)`. `on_progress` is called on this
        thread, about ten times a second; what it raises ends the measurement, as Ctrl-C does. Raises
        ConfigError for a load that cannot be, or without an input, and Closed when the pipeline is closed
        meanwhile. Requests that fail are counted, not raised.
        """
        if load is not None and fields:
            raise ConfigError(
                f"a load and {quoted(fields)} were given",
                code="load-setting",
                where="load",
                help="set the fields in the load, or give the fields alone",
            )
        load = Load.from_dict(fields) if load is None else load
        if self.num_inputs == 0:
            raise ConfigError(
                "there is no input to make requests of",
                code="load-no-input",
                where="load",
                help='call `add_input({"data": ...})` first',
            )
        if load.warmup_s > 0:
            warmup = dataclasses.replace(load, duration_s=load.warmup_s, num_requests=None)
            self._run(warmup, 0, load.repeats, on_progress)
        rounds = tuple(
            self._run(load, number, load.repeats, on_progress) for number in range(1, load.repeats + 1)
        )
        return LoadReport(load, rounds, made_with())

    def _run(
        self, load: Load, number: int, num_rounds: int, on_progress: Callable[[Progress], None] | None
    ) -> Round:
        watch = ProcessWatch()
        start_s = time.monotonic()
        run = _core.LoadRun(
            self._samples,
            num_callers=load.num_callers or 0,
            rate_per_s=load.rate_per_s or 0.0,
            is_poisson=load.arrivals == "poisson",
            duration_s=load.duration_s,
            num_requests=load.num_requests,
            seed=(load.seed * _MOST_ROUNDS + number) % 2**64,
            is_random=load.order == "random",
            max_in_flight=load.max_in_flight,
            timeout_s=load.timeout_s,
        )
        hang = _HangWatch(load, start_s)
        try:
            while not run.wait(_LOOK_S):
                now_s = time.monotonic()
                num_ended, num_errors = run.progress()
                if hang.is_hanging(num_ended, now_s):
                    run.stop()
                    break
                watch.look()
                if on_progress is not None:
                    seconds = now_s - start_s
                    share = _share(load, seconds, num_ended)
                    on_progress(Progress(number, num_rounds, share, seconds, num_ended, num_errors))
        except BaseException:
            run.stop()
            raise
        figures = run.figures()
        if run.was_cut_short and self._pipe._is_closed:
            raise Closed("the pipeline was closed during the measurement", help="close it afterwards")
        return Round(**figures, **watch.figures())


class _HangWatch:
    """Notices that callers are held inside a backend, where no timeout reaches them."""

    def __init__(self, load: Load, start_s: float) -> None:
        self._load = load
        self._num_ended = 0
        self._since_s = start_s

    def is_hanging(self, num_ended: int, now_s: float) -> bool:
        if num_ended != self._num_ended:
            self._num_ended, self._since_s = num_ended, now_s
        # The sender of an open loop runs no backend, and gives up by itself.
        return not self._load.is_open and now_s - self._since_s > self._load.timeout_s + _GRACE_S


def _share(load: Load, seconds: float, num_ended: int) -> float:
    shares = []
    if load.duration_s is not None:
        shares.append(seconds / load.duration_s)
    if load.num_requests is not None:
        shares.append(num_ended / load.num_requests)
    return min(1.0, max(shares))


def made_with() -> dict[str, str]:
    """Return what a figure should be read with: versions, the machine, and the time (UTC, ISO 8601)."""
    try:
        version = metadata.version("hami-core")
    except metadata.PackageNotFoundError:
        version = _core.build_facts()["version"]
    return {
        "hami": version,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "processors": str(len(os.sched_getaffinity(0))),
        "time": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }


def _processor() -> str:
    """Return the name of the processor; empty where the system does not say."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), "")
    except OSError:
        return ""
