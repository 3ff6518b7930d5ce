"""Measure what a step of a language model costs before and after the model: `step` and `commit`, from Python.

python benchmarks/llm_scheduling.py [--rounds 5] [--rows 1,32,256] [--contexts 200,2000] [--steps 1000]
"""

from __future__ import annotations

import sys
from functools import partial

from rounds import Rounds, Row, machine, numbers, options_of, run_process, spread_of, table

MAX_STEP_US = {256: 100}  # by decode rows


def section(rows: list[Row]) -> str:
    """Return the table of all cases."""
    lines = []
    for case in dict.fromkeys(row["case"] for row in rows):
        mine = [row for row in rows if row["case"] == case]
        target = MAX_STEP_US.get(mine[0]["rows"])
        figures = (spread_of(mine, key, 1) for key in ("mean_us", "median_us", "longest_us"))
        lines.append([*case.split(), *figures, f"below {target}" if target else ""])
    columns = ["decode rows", "tokens before", "mean, us", "median, us", "longest, us", "target of the mean"]
    return f"### A decode step without the model\n\n{table(columns, lines)}"


def main() -> None:
    parser = options_of(__doc__, 5)
    parser.add_argument("--rows", default="1,32,256", help="sequences that decode")
    parser.add_argument("--contexts", default="200,2000", help="tokens of each before the first step")
    parser.add_argument("--steps", type=int, default=1000)
    options = parser.parse_args()

    print(machine(), flush=True)
    rounds = Rounds(options)
    cases = [
        partial(run_process, sys.executable, "llm_scheduling_cases.py", num_rows, context, options.steps)
        for num_rows in numbers(options.rows)
        for context in numbers(options.contexts)
    ]
    print("\n" + section(rounds.measure([cases])))
    rounds.finish()


if __name__ == "__main__":
    main()
