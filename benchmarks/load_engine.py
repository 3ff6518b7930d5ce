"""Measure the load engine itself: calls a second of an Identity node, from threads of the core and of Python.

    python benchmarks/load_engine.py [--rounds 5] [--seconds 2] [--callers 1,8,40] [--rates 1000,20000]

A generator that costs as much as what it measures tells about itself. `core` is `hami.ThroughputBenchmark`,
`python` a loop of Python threads around `pipe(...)`, as `inprocess.py` has it. The rates are open loops: how
late requests were sent is how punctual the generator is.
"""

from __future__ import annotations

import sys
from functools import partial

from rounds import Rounds, Row, machine, median_of, numbers, options_of, run_process, spread_of, table

GENERATORS = ("core", "python")


def rows_of(rows: list[Row], case: str, size: int) -> list[Row]:
    return [row for row in rows if row["case"] == case and row["size"] == size]


def closed_table(rows: list[Row], callers: list[int]) -> str:
    """Return the calls of both generators, and how many times as many the first makes."""
    lines = []
    for num_callers in callers:
        theirs = median_of(rows_of(rows, "closed/python", num_callers), "calls_per_s")
        for generator in GENERATORS:
            mine = rows_of(rows, f"closed/{generator}", num_callers)
            ratio = median_of(mine, "calls_per_s") / max(theirs, 1e-9)
            lines.append(
                [
                    num_callers,
                    generator,
                    spread_of(mine, "calls_per_s"),
                    spread_of(mine, "p50_us", 2),
                    spread_of(mine, "p99_us", 2),
                    f"{ratio:.1f}x",
                ]
            )
    return table(["callers", "generator", "calls/s", "p50, us", "p99, us", "beside python"], lines)


def open_table(rows: list[Row], rates: list[int]) -> str:
    """Return how late the requests of each rate were sent, and how long they took from when they were due."""
    lines = []
    for rate in rates:
        mine = rows_of(rows, "open/core", rate)
        late = [spread_of(mine, key, 1) for key in ("late_p50_us", "late_p99_us")]
        latency = [spread_of(mine, key, 1) for key in ("p50_us", "p99_us")]
        lines.append([f"{rate:,}", spread_of(mine, "calls_per_s"), *late, *latency])
    return table(
        ["requests/s", "answered/s", "late p50, us", "late p99, us", "latency p50, us", "latency p99, us"],
        lines,
    )


def main() -> None:
    parser = options_of(__doc__, rounds=5, seconds=2.0, seconds_help="of each case")
    parser.add_argument("--callers", default="1,8,40")
    parser.add_argument("--rates", default="1000,20000")
    options = parser.parse_args()
    print(machine("psutil"))
    run = partial(run_process, sys.executable, "load_engine_cases.py")
    callers, rates = numbers(options.callers), numbers(options.rates)
    groups = [
        [partial(run, f"closed/{generator}", num_callers, options.seconds) for generator in GENERATORS]
        for num_callers in callers
    ]
    groups += [[partial(run, "open/core", rate, options.seconds)] for rate in rates]
    rounds = Rounds(options)
    rows = rounds.measure(groups)
    print("\n" + closed_table(rows, callers))
    print("\n" + open_table(rows, rates))
    rounds.finish()


if __name__ == "__main__":
    main()
