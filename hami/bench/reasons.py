"""Why a proposal is what it is, in words, each with the figure that was measured."""

from __future__ import annotations

from collections.abc import Iterator

from .compare import ratio_of
from .cost_model import RunTime
from .node_figures import NodeFigures
from .results import CaseResult, arrivals_text
from .summary import number, with_margin
from .sweep import Changes, changes_text
from .tuner import Goal, Proposal, Step

_BUSY = 0.9
_MENTIONED = 0.01
_SAME = 0.005

_RELEASES = {
    "full": "because they were full",
    "timeout": "by the timeout",
    "everyone_here": "because nobody else could come",
    "in_place": "on the caller's thread",
}


def explain(proposal: Proposal, cores: int) -> Iterator[str]:
    """Yield the sentences, the most important first."""
    goal = proposal.goal
    yield f"goal: {goal.percentile} within {number(goal.latency_ms)} ms, with {arrivals_text(goal.load)}"
    yield f"as the file is: {_result_text(proposal.baseline, goal)}"
    if proposal.changes:
        yield (
            f"{'proposed' if proposal.is_met else 'nearest'}: {changes_text(proposal.changes)}: "
            f"{_result_text(proposal.chosen, goal)}{_gain_text(proposal)}"
        )
    elif proposal.is_met and proposal.is_complete:
        yield "nothing that was measured is shown to be better: leave the file as it is"
    if not proposal.steps and proposal.is_complete and not proposal.baseline.has_failed:
        yield "there is no node whose sizes can be chosen"
    if not proposal.is_met:
        yield from _why_not(proposal)
    for step in proposal.steps:
        yield from _step_text(proposal, step)
    yield from _bound_text(proposal.chosen, cores)


def _result_text(case: CaseResult, goal: Goal) -> str:
    latency = with_margin(case.report.latency_ms(goal.percentile))
    errors = f", {case.report.num_errors} errors" if case.report.num_errors else ""
    return f"{with_margin(case.report.throughput_per_s)} requests/s, {goal.percentile} {latency} ms{errors}"


def _gain_text(proposal: Proposal) -> str:
    """Return how much better that is, from rounds that were measured in turn."""
    ratio = ratio_of(proposal.goal.gains(proposal.baseline), proposal.goal.gains(proposal.chosen))
    if ratio is None or ratio.low is None or ratio.high is None:
        return ""
    what = f"{proposal.goal.percentile} divided by" if proposal.goal.load.is_open else "requests/s times"
    return f"; {what} {ratio.mean:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"


def _why_not(proposal: Proposal) -> Iterator[str]:
    goal, chosen = proposal.goal, proposal.chosen
    yield f"nothing that was measured keeps {goal.percentile} within {number(goal.latency_ms)} ms"
    rate = goal.load.rate_per_s
    if proposal.single is not None and goal.latency_of(proposal.single) > goal.latency_ms:
        alone_ms = number(goal.latency_of(proposal.single))
        yield (
            f"a single caller already waits {alone_ms} ms ({goal.percentile}): "
            "no setting of batches or instances can help, only a faster model or machine"
        )
    elif rate is not None and chosen.report.throughput_per_s.mean < rate:
        answered = number(chosen.report.throughput_per_s.mean)
        yield f"{number(rate)} requests/s come and {answered}/s are answered, so they queue"
    elif goal.load.num_callers is not None and not chosen.has_failed:
        per_s = chosen.report.throughput_per_s.mean
        mean_ms = number(goal.load.num_callers / per_s * 1e3)
        yield (
            f"{arrivals_text(goal.load)} share {number(per_s)} requests/s, so a request takes "
            f"{goal.load.num_callers} / {number(per_s)} = {mean_ms} ms on average (Little's law): "
            "fewer callers at once, or more capacity"
        )


def _step_text(proposal: Proposal, step: Step) -> Iterator[str]:
    name, kept = step.node, step.kept
    yield f"{name}: {_run_time_text(step.run_time)}"
    before = proposal.baseline.figures[name]
    yield f"{name}, as the file is: {_figures_text(before)}"
    if proposal.changes and kept is not None and kept.changes:
        yield f"{name}, with {changes_text(proposal.changes)}: {_figures_text(proposal.chosen.figures[name])}"
    if kept is not None and not step.has_tried_timeouts and kept.figures[name].largest_batch > 1:
        share = _share(kept.figures[name].release_share("timeout"))
        yield f"{name}: {share} of the batches waited for the timeout, so `batching_timeout` is left as it is"


def _run_time_text(line: RunTime) -> str:
    """Return what a run costs, and what a row costs in small and in large batches."""
    if line.largest_rows < 1.5:
        return f"a run takes {number(line.of(1))} ms, one row at a time"
    if line.fixed_ms <= 0:
        return f"a row costs {number(line.row_ms)} ms in a batch of any size: larger batches gain nothing"
    most = round(line.largest_rows)
    return (
        f"a run of n rows takes {number(line.fixed_ms)} + {number(line.row_ms)} n ms, measured up to "
        f"{line.largest_rows:.1f} rows: a row costs {number(line.of(1))} ms alone and "
        f"{number(line.of(most) / most)} ms in a batch of {most}"
    )


def _figures_text(figures: NodeFigures) -> str:
    """Return mean batch, why batches ran, and how busy the instances were."""
    copies = "its instance was" if figures.instances == 1 else f"its {figures.instances} instances were"
    busy = f"{copies} busy {_share(figures.busy)} of the time"
    if figures.largest_batch <= 1:
        return busy
    why = sorted(figures.releases, key=lambda reason: -figures.releases[reason])
    shares = ", ".join(
        f"{_share(figures.release_share(reason))} {_RELEASES.get(reason, reason)}"
        for reason in why
        if figures.release_share(reason) >= _MENTIONED
    )
    return (
        f"mean batch {figures.mean_batch:.1f} of at most {figures.largest_batch}, released {shares}; {busy}"
    )


def _bound_text(case: CaseResult, cores: int) -> Iterator[str]:
    """Yield what stands in the way of more."""
    used = case.report.cpu_cores
    if used is not None and used.mean >= _BUSY * cores:
        yield f"what bounds it now: {used.mean:.2f} of {cores} cores are in use"
        return
    busiest = max(case.figures.values(), key=lambda one: one.busy, default=None)
    if busiest is not None and busiest.busy >= _BUSY:
        yield f"what bounds it now: node `{busiest.node}`, busy {_share(busiest.busy)} of the time"


def _share(part: float) -> str:
    return "none" if part < _SAME else f"{part:.0%}"


def toml_lines(changes: Changes) -> str:
    """Return the lines of TOML to change, table by table."""
    tables: dict[str | None, list[str]] = {}
    for change in changes:
        tables.setdefault(change.node, []).append(f"{change.key} = {toml_value(change.value)}")
    return "\n\n".join("\n".join([f"[{node}]", *lines]) for node, lines in tables.items())


def toml_value(value: float | str) -> str:
    """Return a number as TOML writes it."""
    return f"{value:g}" if isinstance(value, float) else str(value)
