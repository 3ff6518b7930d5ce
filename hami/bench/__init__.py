"""Pipelines under load: how requests arrive (`Load`), the engine that sends them, and what was measured.

`hami.ThroughputBenchmark` and the command `hami bench` are faces of it; so is the backend `Benchmark`, which
uses the same C++ loops inside a pipeline.
"""

from .estimate import Estimate
from .load import Load
from .report import LoadReport, Round
from .samples import samples_from
from .throughput import Progress, ThroughputBenchmark

__all__ = [
    "Estimate",
    "Load",
    "LoadReport",
    "Progress",
    "Round",
    "ThroughputBenchmark",
    "samples_from",
]
