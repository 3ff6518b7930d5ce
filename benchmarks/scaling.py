"""Measure how much faster a backend that computes in pure Python gets with more processes, or more threads.

    python benchmarks/scaling.py [--rounds 5] [--seconds 2] [--callers 8] [--sizes 1,2]

`ProcessPool` runs the backend in worker processes, on any Python: one pool that divides each batch among its
workers, or several instances with a pool of one worker each, which wait for nobody. Instances in threads run
side by side only on a free-threaded Python; elsewhere they are measured for comparison, and the output says
so. Beside them stands the pool of the standard library, one task a call.
"""

from __future__ import annotations

import sys
import sysconfig
from functools import partial

from rounds import Rounds, Row, machine, median_of, numbers, options_of, run_process, spread_of, table

KINDS = {
    "processes": "workers of one `ProcessPool`",
    "pools": "instances with a worker each",
    "threads": "instances (threads)",
    "executor": "workers of `concurrent.futures`",
}
COLUMNS = ["what", "number", "calls/s", "p50, ms", "cores used", "beside one"]


def rows_of(rows: list[Row], kind: str, size: int) -> list[Row]:
    return [row for row in rows if row["case"] == f"{kind}/{size}"]


def speed_up(rows: list[Row], kind: str, sizes: list[int], size: int) -> float:
    """Return the median over the rounds of the calls at `size` beside those at the first size."""
    base = {row["round"]: row["calls_per_s"] for row in rows_of(rows, kind, sizes[0])}
    pairs = [
        {"ratio": row["calls_per_s"] / max(base[row["round"]], 1e-9)} for row in rows_of(rows, kind, size)
    ]
    return median_of(pairs, "ratio")


def gil_line(has_gil: bool) -> str:
    """Say whether the threads of the cases could run Python code side by side, and else what is missing."""
    if not has_gil:
        return "threads: this Python runs without the GIL, so instances run side by side"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        why = "this Python is free-threaded, but an extension or PYTHON_GIL has turned the GIL on"
    else:
        why = "this Python has the GIL: run the file with a free-threaded build, such as python3.13t"
    return f"threads: for comparison only; {why}"


def result_table(rows: list[Row], sizes: list[int]) -> str:
    lines = []
    for kind, title in KINDS.items():
        for size in sizes:
            mine = rows_of(rows, kind, size)
            p50 = f"{median_of(mine, 'p50_us') / 1e3:.2f}"
            ratio = f"{speed_up(rows, kind, sizes, size):.2f}x"
            lines.append(
                [title, size, spread_of(mine, "calls_per_s"), p50, spread_of(mine, "own_cores", 1), ratio]
            )
    return table(COLUMNS, lines)


def main() -> None:
    parser = options_of(__doc__, 5, 2.0, "of each of the two phases of a run")
    parser.add_argument("--callers", type=int, default=8)
    parser.add_argument("--sizes", default="1,2", help="of processes and of instances; the first is the base")
    options = parser.parse_args()

    sizes = numbers(options.sizes)
    print(machine("numpy"), flush=True)
    rounds = Rounds(options)
    timeout_s = 120 + 4 * options.seconds
    rows = rounds.measure(
        [
            [
                partial(
                    run_process,
                    sys.executable,
                    "scaling_cases.py",
                    f"{kind}/{size}",
                    options.callers,
                    options.seconds,
                    timeout_s=timeout_s,
                )
                for size in sizes
            ]
            for kind in KINDS
        ]
    )
    print(f"\n{result_table(rows, sizes)}")
    print(f"\n{gil_line(any(row['has_gil'] for row in rows))}")
    rounds.finish()


if __name__ == "__main__":
    main()
