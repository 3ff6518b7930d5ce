"""`hami bench`: a pipeline under load, as it is, with other settings, beside an earlier run, or tuned."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from ...errors import ConfigError
from ..source import SourceArgument, reported


class Arrivals(str, Enum):
    """How the requests of an open loop are spaced."""

    poisson = "poisson"
    fixed = "fixed"


def bench(
    file: SourceArgument,
    more_sweeps: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY=VALUES]...", help="More of what --sweep takes.")
    ] = None,
    callers: Annotated[
        str | None,
        typer.Option("--callers", "-c", metavar="N,N", help="Closed loops: 1,8,40 unless there is a --rate."),
    ] = None,
    rate: Annotated[
        str | None, typer.Option(metavar="N,N", help="Open loops: requests a second, such as 100,200.")
    ] = None,
    arrivals: Annotated[Arrivals, typer.Option(help="How an open loop spaces them.")] = Arrivals.poisson,
    seconds: Annotated[float, typer.Option("--seconds", "-t", help="How long a round lasts.")] = 2.0,
    repeats: Annotated[int, typer.Option(min=1, help="Rounds of each setting and load.")] = 5,
    warmup: Annotated[float, typer.Option(min=0, help="Seconds of the same load before a round.")] = 0.5,
    input: Annotated[
        str | None,
        typer.Option(metavar="PATH", help="The requests: JSON Lines, a file, a folder, or a pattern."),
    ] = None,
    key: Annotated[str, typer.Option(help="What a file's bytes are called in a request.")] = "data",
    seed: Annotated[int, typer.Option(min=0, help="Of what is drawn.")] = 0,
    sweep: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUES", help="Settings to try: max=4,8, or classify.max=4,8."),
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every round there.")] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table there.")] = None,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw throughput against latency: PNG, SVG or PDF.")
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Compare with an earlier --json.")
    ] = None,
    fail_above: Annotated[
        str | None,
        typer.Option(metavar="PERCENT", help="With --compare: exit code 1 for a larger loss, such as 10%."),
    ] = None,
    tune: Annotated[bool, typer.Option("--tune", help="Propose settings for --latency-target.")] = False,
    latency_target: Annotated[
        float | None, typer.Option(metavar="MS", help="With --tune: the latency to stay within.")
    ] = None,
    percentile: Annotated[
        str, typer.Option(help="With --tune: of how many percent: 50, 90, 99 or 99.9.")
    ] = "99",
    node: Annotated[list[str] | None, typer.Option(help="With --tune: only this one.")] = None,
    write: Annotated[
        bool, typer.Option("--write", help="With --tune: write FILE with the proposal beside it.")
    ] = False,
) -> None:
    """Measure a pipeline under load: docs/benchmarking.md tells how to read what it prints."""
    with reported():
        try:
            from .arguments import Arguments
            from .measure import measure
            from .screen import Screen
            from .tune import Tuning
        except ImportError as error:
            raise ConfigError(
                f"a package for benchmarks cannot be loaded: {error}",
                code="bench-missing-package",
                where="hami bench",
                help="pip install hami-core[bench]",
            ) from error
        arguments = Arguments(
            file=file,
            sweeps=(*(sweep or ()), *(more_sweeps or ())),
            callers=callers,
            rates=rate,
            arrivals=arrivals.value,
            seconds=seconds,
            repeats=repeats,
            warmup_s=warmup,
            input=input,
            key=key,
            seed=seed,
            json=json,
            csv=csv,
            plot=plot,
            compare=compare,
            fail_above=fail_above,
            latency_ms=latency_target,
            percentile=percentile,
            nodes=tuple(node or ()),
            writes=write,
        )
        arguments.check(is_tuned=tune)
        with Screen() as screen:
            status = Tuning(arguments, screen).run() if tune else measure(arguments, screen)
        raise typer.Exit(status)
