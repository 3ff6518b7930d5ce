"""Measure how much of the bare engine's speed remains when single requests from many threads are batched.

    python benchmarks/batching.py [--omniback PYTHON] [--rounds 5] [--seconds 2] [--callers 16,40]

The model is an MLP on ONNX Runtime, batches of at most 16, 2 ms of patience, one instance. `of bare` divides
the calls a second by the rows a second of a bare loop of full batches, which runs just before and just after.
"""

from __future__ import annotations

import sys
import tempfile
from functools import partial
from pathlib import Path

from mlp import write_model
from rounds import (
    Rounds,
    Row,
    machine,
    median_of,
    numbers,
    options_of,
    peer_versions,
    run_process,
    spread,
    spread_of,
    table,
)

SYSTEMS = ["bare", "hami", "hand", "direct"]
COLUMNS = ["callers", "system", "calls/s", "mean batch", "p50, ms", "p99, ms", "of bare"]
TARGETS = {16: (0.92, 15.0), 40: (0.97, 0.0)}  # callers: share of the bare loop, mean batch


def line_of(rows: list[Row]) -> list[str]:
    """Return the cells of one system at one number of callers; the bare loop has no latency of calls."""
    latencies = [
        spread([row[key] / 1e3 for row in rows], 2) if key in rows[0] else "" for key in ("p50_us", "p99_us")
    ]
    return [
        spread_of(rows, "calls_per_s"),
        spread_of(rows, "mean_batch", 1),
        *latencies,
        spread([row["of_bare"] * 100 for row in rows], 1) + " %",
    ]


def targets(rows: list[Row]) -> str:
    """Return a line for each number of callers that has a target."""
    lines = []
    for callers, (share, batch) in TARGETS.items():
        if mine := [row for row in rows if (row["case"], row["callers"]) == ("hami", callers)]:
            reached = f"{median_of(mine, 'of_bare'):.1%} of bare (target {share:.0%})"
            size = f", mean batch {median_of(mine, 'mean_batch'):.1f}" + f" (target {batch:.0f})" * bool(
                batch
            )
            lines.append(f"hami at {callers} callers: {reached}{size}")
    return "\n".join(lines)


def main() -> None:
    parser = options_of(__doc__, 5, 2.0, "of each of the two phases of a run, and of the bare loops together")
    parser.add_argument(
        "--omniback", metavar="PYTHON", help="interpreter with omniback, onnxruntime and numpy"
    )
    parser.add_argument("--callers", default="16,40")
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    options = parser.parse_args()

    pythons = dict.fromkeys(options.systems.split(","), sys.executable)
    print(machine("onnxruntime", "numpy"), flush=True)
    if options.omniback:
        pythons["omniback"] = options.omniback
        print(f"peer: {peer_versions(options.omniback, 'omniback', 'onnxruntime', 'numpy')}", flush=True)
    rounds = Rounds(options)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "mlp.onnx"
        write_model(model)
        rows = rounds.measure(
            [
                [
                    partial(
                        run_process,
                        python,
                        "batching_cases.py",
                        system,
                        callers,
                        options.seconds,
                        model,
                        timeout_s=120 + 6 * options.seconds,
                    )
                    for system, python in pythons.items()
                ]
                for callers in numbers(options.callers)
            ]
        )
    lines = [
        [callers, system, *line_of(mine)]
        for callers in numbers(options.callers)
        for system in pythons
        if (mine := [row for row in rows if (row["case"], row["callers"]) == (system, callers)])
    ]
    print(f"\n{table(COLUMNS, lines)}")
    print("\n" + (targets(rows) or "no number of callers that has a target"))
    rounds.finish()


if __name__ == "__main__":
    main()
