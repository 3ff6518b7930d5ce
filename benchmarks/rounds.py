"""What all benchmarks here share: rounds that are repeated while others disturb, and the line of one case.

The parent side starts every case as a process of its own and takes the line of JSON that it prints; `report`
is the side of that process. Only the standard library is imported, since a case may run in the environment of
a peer. One thread.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
MAX_OTHER_CORES = 0.3

Row = dict[str, Any]
Run = Callable[[], Row]


# --- the side of the parent --------------------------------------------------------------------


def options_of(
    description: str | None, rounds: int, seconds: float | None = None, seconds_help: str = ""
) -> argparse.ArgumentParser:
    """Return a parser with the options that all benchmarks have; one without `seconds` counts otherwise."""
    parser = argparse.ArgumentParser(description=(description or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=rounds)
    if seconds is not None:
        parser.add_argument("--seconds", type=float, default=seconds, help=seconds_help)
    parser.add_argument("--tries", type=int, default=3, help="at most, of a round that others disturb")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run there, one a line")
    return parser


def numbers(text: str) -> list[int]:
    """Return the whole numbers of a text such as `1,8,40`."""
    return [int(part) for part in text.split(",")]


def run_process(python: str, file: str, *arguments: object, timeout_s: float = 120) -> Row:
    """Return the row that `file`, a script of this folder, prints when the interpreter `python` runs it."""
    command = [python, str(HERE / file), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"case"')]
    if not lines:
        case = " ".join(command[1:])
        raise SystemExit(f"{case} gave no figures, exit code {done.returncode}:\n{done.stderr[-2000:]}")
    row: Row = json.loads(lines[-1])
    return row


def disturbance(round_rows: list[Row]) -> float:
    """Return the most cores that others used just before or during a run of the round."""
    loads = [row[key] for row in round_rows for key in ("others_before_cores", "others_during_cores")]
    return max((load for load in loads if not math.isnan(load)), default=0.0)


def run_round(runs: Iterable[Run], num_tries: int) -> list[Row]:
    """Run the cases in turn, again while others disturb; return the least disturbed try."""
    runs = list(runs)
    best: list[Row] = []
    for _ in range(num_tries):
        rows = [run() for run in runs]
        if not best or disturbance(rows) < disturbance(best):
            best = rows
        if disturbance(best) <= MAX_OTHER_CORES:
            break
    return best


class Rounds:
    """All rows of one benchmark, and how many of its rounds others disturbed."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rows: list[Row] = []
        self.num_rounds = self.num_disturbed = 0

    def measure(self, groups: list[list[Run]]) -> list[Row]:
        """Run every group in each of the rounds; what stands in one group is compared, so it runs in turn."""
        for number in range(1, self.options.rounds + 1):
            print(f"round {number} of {self.options.rounds}", file=sys.stderr, flush=True)
            for runs in groups:
                new = run_round(runs, self.options.tries)
                self.num_rounds += 1
                self.num_disturbed += disturbance(new) > MAX_OTHER_CORES
                self.rows += [{**row, "round": number} for row in new]
        return self.rows

    def finish(self) -> None:
        """Write the raw rows and print how many rounds were disturbed: the last line of every benchmark."""
        if self.options.json:
            self.options.json.write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        print(
            f"\n{self.num_disturbed} of {self.num_rounds} rounds had more than {MAX_OTHER_CORES} cores used "
            "by others"
        )


def median_of(rows: list[Row], key: str) -> float:
    return float(statistics.median(row[key] for row in rows))


def spread(values: list[float], digits: int = 0) -> str:
    """Return the median with the smallest and the largest value."""
    low, middle, high = min(values), statistics.median(values), max(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f} to {high:,.{digits}f})"


def spread_of(rows: list[Row], key: str, digits: int = 0) -> str:
    return spread([row[key] for row in rows], digits)


def table(columns: list[str], lines: Iterable[Iterable[object]]) -> str:
    """Return a table in markdown."""
    head = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    return "\n".join([*head, *(f"| {' | '.join(map(str, line))} |" for line in lines)])


def output_of(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=HERE)
    return done.stdout.strip() or "unknown"


def versions(names: Iterable[str]) -> str:
    """Return `name version` of packages installed here, with commas."""
    from importlib.metadata import PackageNotFoundError, version

    def one(name: str) -> str:
        try:
            return f"{name} {version(name)}"
        except PackageNotFoundError:
            return f"{name} missing"

    return ", ".join(map(one, names))


def peer_versions(python: str, *names: str) -> str:
    """Return the same of the environment of a peer, whose interpreter is `python`."""
    return output_of(os.path.abspath(python), "-c", f"import rounds; print(rounds.versions({names!r}))")


def machine(*packages: str) -> str:
    """Return one line: processor, cores, Python, versions of packages, commit."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(":")[1].strip() for line in lines if "model name" in line]
    commit = output_of("git", "describe", "--always", "--dirty")
    return (
        f"{models[0] if models else platform.processor()}, {os.cpu_count()} cores, "
        f"Python {platform.python_version()}, {versions(['hami-core', *packages])}, commit {commit}"
    )


# --- the side of the process that measures one case --------------------------------------------


def report(case: str, others_before_cores: float, others_during_cores: float, **figures: object) -> None:
    """Print the row of this process and end it, without the shutdown in which a peer may hang."""
    row = {
        "case": case,
        "others_before_cores": others_before_cores,
        "others_during_cores": others_during_cores,
        **figures,
    }
    print(json.dumps(row), flush=True)
    os._exit(0)
