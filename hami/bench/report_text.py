"""A `LoadReport` in words: a short table, and what should keep its reader from a wrong conclusion."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .estimate import Estimate

if TYPE_CHECKING:
    from .report import LoadReport

_MIB = 1 << 20
# From which share on the generator's own delay is said to spoil the latencies.
_MOST_LATENESS = 0.1
# Below which share of its rate an open loop is said to have been too much for the pipeline.
_LEAST_OF_RATE = 0.95


def text_of(report: LoadReport) -> str:
    """Return the table: a figure in each line, its mean with the 95 % confidence interval, least and most."""
    lines = [str(report.load), *_rows(report)]
    counts = f"{report.num_requests} requests, {report.num_errors} with an error"
    return "\n".join([*lines, counts, *(f"note: {warning}" for warning in warnings_of(report))])


def _rows(report: LoadReport) -> Iterator[str]:
    yield _row("throughput", report.throughput_per_s, "/s")
    for name in ("p50", "p90", "p99", "p99.9"):
        yield from _known(f"latency {name}", report.latency_ms(name), "ms")
    yield from _known("sent late, p99", report.lateness_ms("p99"), "ms")
    yield from _known("processor", report.cpu_cores, "cores")
    yield from _known("memory", report.peak_memory_bytes, "MiB", _MIB)
    yield from _known("GPU", report.gpu_use, "%", 0.01)
    yield from _known("GPU memory", report.gpu_memory_bytes, "MiB", _MIB)


def _known(name: str, estimate: Estimate | None, unit: str, scale: float = 1) -> Iterator[str]:
    if estimate is not None:
        yield _row(name, estimate, unit, scale)


def _row(name: str, estimate: Estimate, unit: str, scale: float = 1) -> str:
    mean = _number(estimate.mean / scale)
    if estimate.margin is None:
        return f"{name:<15} {mean:>9} {unit}"
    span = f"{_number(estimate.smallest / scale)} to {_number(estimate.largest / scale)}"
    return f"{name:<15} {mean:>9} {unit:<5} ± {_number(estimate.margin / scale)} ({span})"


def _number(value: float) -> str:
    """Return three digits that count, without an exponent."""
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.2f}" if abs(value) >= 1 else f"{value:.3g}"


def warnings_of(report: LoadReport) -> list[str]:
    """Return what a reader must know: errors, a late sender, a rate that was too high, a single round."""
    found = []
    if report.num_errors:
        found.append(f"{report.num_errors} of {report.num_requests} failed, first: {report.first_error}")
    late, latency = report.lateness_ms("p99"), report.latency_ms("p99")
    if late is not None and latency is not None and late.mean > _MOST_LATENESS * latency.mean:
        found.append(
            f"the sender was late, by {_number(late.mean)} ms at p99, and latencies contain that: "
            "they are an upper bound"
        )
    rate = report.load.rate_per_s
    if rate is not None and report.throughput_per_s.mean < _LEAST_OF_RATE * rate:
        found.append(
            f"{_number(report.throughput_per_s.mean)} of {rate:g} requests/s were answered: under more load "
            "than a pipeline can bear, latencies grow with the duration"
        )
    if len(report.rounds) == 1:
        found.append("one round says nothing about how much the figures vary")
    return found
