"""One short round of load, for the tests of the load engine."""

from __future__ import annotations

from typing import Any

import hami
from hami.bench import Round

# A round that is over soon; no test depends on how long that takes.
SOON: dict[str, Any] = {"num_callers": 2, "num_requests": 40, "warmup_s": 0, "repeats": 1}


def measure(pipe: hami.Pipeline, *inputs: dict[str, Any], **fields: Any) -> Round:
    """Return the one round of a load on `inputs`."""
    benchmark = hami.ThroughputBenchmark(pipe, inputs or [{"data": 7}])
    [round] = benchmark.benchmark(**{**SOON, **fields}).rounds
    return round
