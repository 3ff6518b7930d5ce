"""Measure whether all callers get their share: the slowest caller, the longest call and p99 over 5 seconds.

    python benchmarks/fairness.py [--omniback PYTHON] [--rounds 5] [--seconds 5] [--callers 8,40]

A system that keeps the GIL, or that lets whoever comes back first go first, wins on calls a second and lets
other callers starve. The cases are those of `inprocess.py`; here each caller has long enough to fall behind.
"""

from __future__ import annotations

from inprocess import WORKLOADS, measure_beside_peer, options_with_peer, rows_of, workload_table
from rounds import Row, median_of, numbers

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
    options = options_with_peer(__doc__, 5.0, "8,40", "identity,python")
    rounds, systems, rows = measure_beside_peer(options)
    for workload in options.workloads.split(","):
        print("\n" + workload_table(rows, systems, workload))
        print("\n" + "\n".join(verdicts(rows, workload, numbers(options.callers))))
    rounds.finish()


if __name__ == "__main__":
    main()
