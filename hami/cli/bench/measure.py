"""`hami bench` without `--tune`: measure settings and loads, print the table, write the files, compare."""

from __future__ import annotations

from ...bench.campaign import Campaign, measure_with
from ...bench.compare import Comparison, compare
from ...bench.plots import write_plot
from ...bench.results import Case, Results
from ...bench.summary import comparison_notes, comparison_table, notes, results_table
from ...config import Config
from ...pipeline import pipe
from ..source import write_text
from .arguments import Arguments
from .screen import Screen

OK, FAILED, INTERRUPTED = 0, 1, 130


def measure(arguments: Arguments, screen: Screen) -> int:
    """Do all of it, and return the exit status."""
    loads, largest_loss = arguments.loads(), arguments.largest_loss()
    old = None if arguments.compare is None else Results.read(arguments.compare)
    config = arguments.config()
    cases = [Case(changes, load) for changes in arguments.settings(config) for load in loads]
    campaign = campaign_of(arguments, config, screen)
    results = campaign.run(cases, arguments.repeats)
    if results.cases:
        screen.show(results_table(results.cases))
    for note in notes(results):
        screen.show(note)
    _write(arguments, results)
    status = OK if results.cases and not any(case.has_failed for case in results.cases) else FAILED
    if old is not None:
        comparison = compare(old, results)
        if not _show_comparison(comparison, screen, largest_loss):
            status = FAILED
    return status if results.is_complete else INTERRUPTED


def campaign_of(arguments: Arguments, config: Config, screen: Screen) -> Campaign:
    """Return what measures the pipeline with the requests of the command line. Raises ConfigError."""

    def run_once(request: dict[str, object]) -> None:
        with pipe(config) as pipeline:
            pipeline(request)

    samples = arguments.samples(run_once)
    return Campaign(config, pipe, measure_with(samples), screen.on_progress)


def _write(arguments: Arguments, results: Results) -> None:
    if arguments.json is not None:
        write_text(arguments.json, results.to_json())
    if arguments.csv is not None:
        write_text(arguments.csv, results.to_csv())
    if arguments.plot is not None:
        write_plot(arguments.plot, results.cases, results.source or "expression")


def _show_comparison(comparison: Comparison, screen: Screen, largest_loss: float | None) -> bool:
    """Print it, and say whether nothing has become worse by more than is allowed."""
    if comparison.differences:
        screen.show(comparison_table(comparison))
    else:
        screen.show("nothing to compare: the old measurement has none of these settings and loads")
    for note in comparison_notes(comparison):
        screen.show(note)
    worse = [] if largest_loss is None else comparison.worse_than(largest_loss)
    for difference in worse:
        screen.show(
            f"{difference.setting}, {difference.load}: {difference.figure.name} is worse by "
            f"{difference.loss:.1%}, which is above {largest_loss:.4g}"
        )
    return not worse
