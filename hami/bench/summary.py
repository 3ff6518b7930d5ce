"""What was measured, as a table of a terminal and as sentences below it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from .compare import Comparison, Difference
from .estimate import Estimate
from .results import CaseResult, Results

if TYPE_CHECKING:
    from rich.table import Table

MAX_OTHER_CORES = 0.3
"""Above that the figures say as much about the other processes as about the pipeline."""


def number(value: float) -> str:
    """Return a number with three digits or more: `1,234`, `87.1`, `0.052`."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def with_margin(estimate: Estimate | None) -> str:
    """Return the mean with half the width of its 95 % interval, or `-`."""
    if estimate is None:
        return "-"
    margin = estimate.margin
    return number(estimate.mean) if margin is None else f"{number(estimate.mean)} ± {number(margin)}"


def results_table(cases: Iterable[CaseResult]) -> Table:
    """Return a line for each case."""
    from rich import box

    # under another name, since the annotations need the name without the package
    from rich.table import Table as RichTable

    cases = list(cases)
    has_settings = any(case.changes for case in cases)
    has_gpu = any(case.report.gpu_use is not None for case in cases)
    table = RichTable(box=box.SIMPLE, pad_edge=False, show_edge=False)
    for name in ["setting"] if has_settings else []:
        table.add_column(name, overflow="fold")
    table.add_column("load")
    for name in ("requests/s", "p50, ms", "p99, ms", "p99.9, ms", "batch", "cores", "MiB"):
        table.add_column(name, justify="right")
    for name in [*(["GPU"] if has_gpu else []), "errors"]:
        table.add_column(name, justify="right")
    for case in cases:
        report = case.report
        memory = report.peak_memory_bytes
        table.add_row(
            *([case.case.setting] if has_settings else []),
            case.case.arrivals,
            with_margin(report.throughput_per_s),
            *(with_margin(report.latency_ms(name)) for name in ("p50", "p99", "p99.9")),
            batches(case),
            "-" if report.cpu_cores is None else f"{report.cpu_cores.mean:.2f}",
            "-" if memory is None else number(memory.largest / 2**20),
            *([f"{report.gpu_use.mean:.0%}" if report.gpu_use else "-"] if has_gpu else []),
            str(report.num_errors),
        )
    return table


def batches(case: CaseResult) -> str:
    """Return the mean batch of each node that ever ran more than one row at once, `-` if none did."""
    figures = [one for one in case.figures.values() if one.largest_batch > 1]
    if len(case.figures) == 1:
        return "".join(f"{one.mean_batch:.1f}" for one in figures) or "-"
    return ", ".join(f"{one.node} {one.mean_batch:.1f}" for one in figures) or "-"


def notes(results: Results) -> Iterator[str]:
    """Yield what a reader of the table must know: errors, what could not be built, and what casts doubt."""
    for setting, reason in results.unbuilt.items():
        yield f"`{setting}` cannot be built:\n{reason}"
    cases_of: dict[str, list[str]] = {}
    for case in results.cases:
        for warning in case.report.warnings:
            cases_of.setdefault(warning, []).append(_name(case))
    for warning, names in cases_of.items():
        is_about_all = len(names) == len(results.cases) > 1
        yield f"{'all' if is_about_all else '; '.join(names)}: {warning}"
    disturbed = [cores for case in results.cases for cores in case.other_cores if cores > MAX_OTHER_CORES]
    if disturbed:
        num_rounds = sum(len(case.report.rounds) for case in results.cases)
        yield (
            f"warning: other processes used up to {max(disturbed):.1f} cores in {len(disturbed)} of "
            f"{num_rounds} rounds: repeat the measurement on an idle machine"
        )
    if not results.is_complete:
        yield "interrupted: these are the rounds that had ended"


def _name(case: CaseResult) -> str:
    return f"{case.case.setting}, {case.case.arrivals}" if case.changes else case.case.arrivals


def comparison_table(comparison: Comparison) -> Table:
    """Return a line for each case: what changed, with its 95 % interval, and whether that is shown."""
    from rich import box
    from rich.table import Table as RichTable

    table = RichTable(box=box.SIMPLE, pad_edge=False, show_edge=False)
    for name in ("setting", "load", "figure"):
        table.add_column(name, overflow="fold")
    table.add_column("new / old", justify="right")
    table.add_column("verdict")
    for difference in comparison.differences:
        table.add_row(
            difference.setting,
            difference.load,
            difference.figure.name,
            _ratio_text(difference),
            difference.verdict,
        )
    return table


def _ratio_text(difference: Difference) -> str:
    ratio = difference.ratio
    if ratio is None:
        return "-"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.mean:.3f} (one round)"
    return f"{ratio.mean:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def comparison_notes(comparison: Comparison) -> Iterator[str]:
    """Yield what could not be compared, and what makes the ratios doubtful."""
    for only, which in ((comparison.only_old, "old"), (comparison.only_new, "new")):
        for setting, load in only:
            yield f"{setting}, {load}: only in the {which} measurement"
    for note in comparison.notes:
        yield f"warning: {note}"
