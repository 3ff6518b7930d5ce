"""`hami trace`: run requests through a pipeline and write the timeline of what happened."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import exit_of
from .source import SourceArgument, reported, source_of

if TYPE_CHECKING:
    from ..pipeline import Pipeline
    from ..trace import StationTimes


def trace(
    file: SourceArgument,
    samples: Annotated[
        str,
        typer.Option("--input", metavar="PATH", help="Requests: a .jsonl file, a folder, a pattern, a file."),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file to write; compressed if it ends in .gz.")
    ] = Path("trace.json"),
    callers: Annotated[
        int, typer.Option("--callers", "-c", min=1, max=1000, help="How many threads call at once.")
    ] = 1,
    requests: Annotated[
        int | None,
        typer.Option(
            "--requests",
            "-n",
            min=1,
            help="How many calls, going round the input; else each once, up to 1000.",
        ),
    ] = None,
    key: Annotated[str, typer.Option(help="The key of what a file holds.")] = "data",
    warmup: Annotated[int, typer.Option(min=0, help="How many calls come before, without a trace.")] = 0,
    max_records: Annotated[
        int,
        typer.Option(min=1, help="Bounds the memory, 56 bytes each; about ten are one request of a node."),
    ] = 500_000,
    gpu: Annotated[bool, typer.Option(help="With what runs on the GPUs, where torch sees one.")] = True,
) -> None:
    """Write a timeline of every station of every request, for Perfetto and chrome://tracing."""
    with reported():
        import hami

        from ..bench.samples import samples_from

        inputs = list(samples_from(samples, key, limit=requests or 1000))
        count = len(inputs) if requests is None else requests
        # The threads outlive the trace, which asks for their names at its end.
        with hami.pipe(source_of(file)) as pipe, ThreadPoolExecutor(callers, "caller") as threads:
            _call(pipe, threads, inputs, warmup)
            with pipe.trace(output, max_records=max_records, gpu=gpu) as recorded:
                failures = _call(pipe, threads, inputs, count)
        typer.echo(f"{output}: {count} requests; open it in https://ui.perfetto.dev or chrome://tracing")
        typer.echo(_table(recorded.stations()))
        if recorded.num_dropped:
            typer.echo(f"{recorded.num_dropped} records found no room: raise --max-records", err=True)
        if failures:
            typer.echo(f"{len(failures)} requests failed; the first: {exit_of(failures[0])[0]}", err=True)
            raise typer.Exit(1)


def _call(
    pipe: Pipeline, threads: ThreadPoolExecutor, inputs: list[dict[str, Any]], count: int
) -> list[BaseException]:
    """Make that many calls, and return what they raised."""

    def one(request: dict[str, Any]) -> BaseException | None:
        try:
            pipe(dict(request))
        except Exception as error:
            return error
        return None

    return [error for error in threads.map(one, islice(cycle(inputs), count)) if error is not None]


def _table(stations: Mapping[str, StationTimes]) -> str:
    rows = [f"{'station':10}{'count':>9}{'mean ms':>11}{'p50 ms':>11}{'p99 ms':>11}{'max ms':>11}"]
    for name, times in stations.items():
        figures = (times.mean_ms, times.p50_ms, times.p99_ms, times.max_ms)
        rows.append(f"{name:10}{times.count:9}" + "".join(f"{figure:11.4f}" for figure in figures))
    return "\n".join(rows)
