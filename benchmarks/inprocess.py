"""Measure calls per second and latency of small pipelines, beside a hand-written queue and omniback.

    python benchmarks/inprocess.py [--omniback PYTHON] [--rounds 5] [--seconds 1] [--callers 1,8,40]

Systems take turns within a round. A round in which other processes used more than 0.3 cores is repeated, a
bounded number of times; what still was disturbed is kept and counted in the last line. Printed are medians
with the smallest and largest round.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from functools import partial

from rounds import (
    Rounds,
    Row,
    Run,
    machine,
    median_of,
    numbers,
    options_of,
    peer_versions,
    run_process,
    spread_of,
    table,
)

WORKLOADS = {
    "identity": "one Identity node",
    "python": "a Python backend, max 16",
    "chain": "a chain of three Identity nodes",
}
COLUMNS = ["callers", "system", "calls/s", "p50, us", "p99, us", "longest call, ms", "slowest/median caller"]


def systems_of(omniback: str | None) -> dict[str, str]:
    """Return the interpreter of each system."""
    pythons = {"hami": sys.executable, "plain": sys.executable}
    return {**pythons, "omniback": omniback} if omniback else pythons


def runs_of(pythons: dict[str, str], workload: str, callers: int, seconds: float) -> list[Run]:
    """Return what measures each system once."""
    file, timeout_s = "inprocess_cases.py", 120 + 4 * seconds
    return [
        partial(run_process, python, file, f"{system}/{workload}", callers, seconds, timeout_s=timeout_s)
        for system, python in pythons.items()
    ]


def rows_of(rows: list[Row], system: str, workload: str, callers: int) -> list[Row]:
    return [row for row in rows if (row["callers"], row["case"]) == (callers, f"{system}/{workload}")]


def all_callers(rows: list[Row]) -> list[int]:
    return sorted({row["callers"] for row in rows})


def workload_table(rows: list[Row], systems: list[str], workload: str) -> str:
    """Return a table of one workload: a line for each number of callers and system."""
    lines = []
    for callers in all_callers(rows):
        for system in systems:
            if mine := rows_of(rows, system, workload, callers):
                columns = [
                    spread_of(mine, "calls_per_s"),
                    spread_of(mine, "p50_us", 1),
                    spread_of(mine, "p99_us", 1),
                    f"{max(row['max_ms'] for row in mine):.1f}",
                    f"{min(row['fairness'] for row in mine):.2f}",
                ]
                lines.append([callers, system, *columns])
    return f"### {WORKLOADS[workload]}\n\n{table(COLUMNS, lines)}"


def ratios(rows: list[Row], systems: list[str]) -> str:
    """Return lines that tell, from the medians, how many times the calls of each peer hami makes."""
    lines = []
    for workload in WORKLOADS:
        for callers in all_callers(rows):
            medians = {
                system: statistics.median(row["calls_per_s"] for row in mine)
                for system in systems
                if (mine := rows_of(rows, system, workload, callers))
            }
            if "hami" in medians:
                peers = [
                    f"{medians['hami'] / value:.1f}x {name}"
                    for name, value in medians.items()
                    if name != "hami"
                ]
                lines.append(f"{WORKLOADS[workload]}, {callers} callers: hami makes {', '.join(peers)}")
    return "\n".join(lines)


def step_line(rows: list[Row]) -> str:
    """Return what three nodes cost beside one, from the medians of p50 at one caller; else nothing."""
    one, three = (rows_of(rows, "hami", workload, 1) for workload in ("identity", "chain"))
    if not one or not three:
        return ""
    one_us, three_us = median_of(one, "p50_us"), median_of(three, "p50_us")
    return (
        f"three nodes take {three_us / one_us:.2f}x one node (target: at most 2), {three_us:.1f} us "
        f"(target: at most 7), one node {one_us:.1f} us (target: below 2.5)\n"
    )


def options_with_peer(doc: str, seconds: float, callers: str, workloads: str) -> argparse.Namespace:
    """Return the options of a measurement that takes turns with omniback; the arguments are the defaults."""
    parser = options_of(doc, 5, seconds, "of each of the two phases of a run")
    parser.add_argument("--omniback", metavar="PYTHON", help="interpreter of an environment with omniback")
    parser.add_argument("--callers", default=callers)
    parser.add_argument("--workloads", default=workloads)
    return parser.parse_args()


def measure_beside_peer(options: argparse.Namespace) -> tuple[Rounds, list[str], list[Row]]:
    """Run every workload with every number of callers; return the rounds, the systems and the rows."""
    pythons = systems_of(options.omniback)
    print(machine(), flush=True)
    if options.omniback:
        print(f"peer: {peer_versions(options.omniback, 'omniback')}", flush=True)
    rounds = Rounds(options)
    rows = rounds.measure(
        [
            runs_of(pythons, workload, callers, options.seconds)
            for callers in numbers(options.callers)
            for workload in options.workloads.split(",")
        ]
    )
    return rounds, list(pythons), rows


def main() -> None:
    options = options_with_peer(__doc__, 1.0, "1,8,40", ",".join(WORKLOADS))
    rounds, systems, rows = measure_beside_peer(options)
    for workload in options.workloads.split(","):
        print("\n" + workload_table(rows, systems, workload))
    print("\n" + ratios(rows, systems) + "\n" + step_line(rows), end="")
    rounds.finish()


if __name__ == "__main__":
    main()
