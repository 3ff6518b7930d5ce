"""Measure whether all callers get their share: the slowest caller, the longest call and p99 over 5 seconds.

    python benchmarks/fairness.py [--omniback PYTHON] [--rounds 5] [--seconds 5] [--callers 8,40]

A system that keeps the GIL, or that lets whoever comes back first go first, wins on calls a second and lets
other callers starve. The cases are those of `inprocess.py`; here each caller has long enough to fall behind.
"""

from __future__ import annotations

from inprocess import WORKLOADS, rows_of, runs_of, systems_of, workload_table
from rounds import Rounds, Row, machine, median_of, numbers, options_of, peer_versions

MIN_FAIRNESS = 2 / 3
MAX_CALL_MS = 50
MAX_P99_MS = {40: 3.0}  # by number of callers


def verdicts(rows: list[Row], workload: str, callers: list[int]) -> list[str]:
    """Return a line for each number of callers: the worst round of hami beside the targets."""
    lines = []
    for num_callers in callers:
        mine = rows_of(rows, "hami", workload, num_callers)
        p99 = f"p99 {median_of(mine, 'p99_us') / 1e3:.2f} ms"
        if num_callers in MAX_P99_MS:
            p99 += f" (target: below {MAX_P99_MS[num_callers]:g})"
        lines.append(
            f"{WORKLOADS[workload]}, {num_callers} callers: slowest/median caller "
            f"{min(row['fairness'] for row in mine):.2f} (target: at least {MIN_FAIRNESS:.2f}), "
            f"longest call {max(row['max_ms'] for row in mine):.1f} ms (target: below {MAX_CALL_MS}), {p99}"
        )
    return lines


def main() -> None:
    parser = options_of(__doc__, 5, 5.0, "of each of the two phases of a run")
    parser.add_argument("--omniback", metavar="PYTHON", help="interpreter of an environment with omniback")
    parser.add_argument("--callers", default="8,40")
    parser.add_argument("--workloads", default="identity,python")
    options = parser.parse_args()

    pythons = systems_of(options.omniback)
    callers, workloads = numbers(options.callers), options.workloads.split(",")
    print(machine(), flush=True)
    if options.omniback:
        print(f"peer: {peer_versions(options.omniback, 'omniback')}", flush=True)
    rounds = Rounds(options)
    rows = rounds.measure(
        [
            runs_of(pythons, workload, num_callers, options.seconds)
            for num_callers in callers
            for workload in workloads
        ]
    )
    for workload in workloads:
        print("\n" + workload_table(rows, list(pythons), workload))
        print("\n" + "\n".join(verdicts(rows, workload, callers)))
    rounds.finish()


if __name__ == "__main__":
    main()
