"""Measure requests per second and latency over HTTP of `hami serve` beside other servers with the same model.

    python benchmarks/servers.py [--peers .peers] [--rounds 5] [--seconds 2] [--connections 16,64]

The model is an MLP on ONNX Runtime, batches of at most 16, 2 ms of patience, one instance; `identity` has no
model. Each system is a server of its own, loaded by wrk with one thread; they take turns within a round, and
their answers are checked first. `of bare` divides requests a second by the rows a second of a bare loop of
full batches, which runs just before and just after; `us/request` is processor time of all processes of the
server, the model's included, which tells something on a busy machine as well. Peers whose environment is
missing are left out.
"""

from __future__ import annotations

import shutil
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

PACKAGES = {"mosec": "mosec", "litserve": "litserve", "ray": "ray", "triton": "nvidia-pytriton"}
CASES = {"raw": "raw body", "json": "JSON body", "identity": "no model, raw body of 4 KiB"}
COLUMNS = [
    "connections",
    "system",
    "requests/s",
    "p50, ms",
    "p99, ms",
    "server, us/request",
    "errors",
    "of bare",
]
TIMES_PEER = {"raw": 1.3, "json": 1.3, "identity": 1.0}
OF_BARE = 0.85  # of the raw body


def rows_of(rows: list[Row], system: str, case: str, connections: int) -> list[Row]:
    wanted = (system, case, connections)
    return [row for row in rows if (row["system"], row["case"], row["connections"]) == wanted]


def flat(rows: list[Row]) -> list[Row]:
    """Return a row for each case of each run of a system."""
    return [{**case, "system": row["case"], "round": row["round"]} for row in rows for case in row["cases"]]


def case_table(rows: list[Row], systems: list[str], case: str, connections: list[int]) -> str:
    """Return a table of one case: a line for each number of connections and system."""
    lines = []
    for number in connections:
        for system in systems:
            if mine := rows_of(rows, system, case, number):
                lines.append(
                    [
                        number,
                        system,
                        spread_of(mine, "requests_per_s"),
                        spread_of(mine, "p50_ms", 1),
                        spread_of(mine, "p99_ms", 1),
                        spread_of(mine, "server_us"),
                        sum(row["errors"] for row in mine),
                        spread([row["of_bare"] * 100 for row in mine]) + " %" if case != "identity" else "",
                    ]
                )
    return f"### {CASES[case]}\n\n{table(COLUMNS, lines)}"


def targets(rows: list[Row], systems: list[str], connections: list[int]) -> str:
    """Return a line for each case: hami beside the best peer, and beside the bare loop."""
    lines = []
    for case, times in TIMES_PEER.items():
        for number in connections:
            medians = {
                system: median_of(mine, "requests_per_s")
                for system in systems
                if (mine := rows_of(rows, system, case, number))
            }
            if "hami" not in medians:
                continue
            line = f"{CASES[case]}, {number} connections: hami"
            if len(medians) > 1:
                best = max(set(medians) - {"hami"}, key=medians.__getitem__)
                line += f" answers {medians['hami'] / medians[best]:.2f}x {best} (target {times:g})"
            if case == "raw":
                share = median_of(rows_of(rows, "hami", case, number), "of_bare")
                line += f", {share:.0%} of bare (target {OF_BARE:.0%})"
            lines.append(line)
    return "\n".join(lines)


def main() -> None:
    parser = options_of(__doc__, 5, 2.0, "of each case, at least 1")
    parser.add_argument("--peers", type=Path, default=Path(".peers"), help="the folder of their environments")
    parser.add_argument("--connections", default="16,64")
    parser.add_argument("--systems", default=",".join(["hami", *PACKAGES]))
    options = parser.parse_args()
    if shutil.which("wrk") is None:
        raise SystemExit("wrk is missing: apt-get install wrk")

    print(machine("onnxruntime", "numpy", "uvicorn", "uvloop"), flush=True)
    pythons = {}
    for system in options.systems.split(","):
        python = (
            sys.executable
            if system == "hami"
            else str((options.peers / system / "bin" / "python").absolute())
        )
        if not Path(python).exists():
            print(f"{system}: no environment at {options.peers / system}, left out")
            continue
        pythons[system] = python
        if system != "hami":
            print(f"{system}: {peer_versions(python, PACKAGES[system], 'onnxruntime', 'numpy')}", flush=True)
    rounds = Rounds(options)
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder) / "mlp.onnx"
        write_model(model)
        arguments = [options.connections, options.seconds, model]
        rows = rounds.measure(
            [
                [
                    partial(
                        run_process,
                        sys.executable,
                        "servers_cases.py",
                        system,
                        python,
                        *arguments,
                        timeout_s=600,
                    )
                    for system, python in pythons.items()
                ]
            ]
        )
    cases, connections = flat(rows), numbers(options.connections)
    for case in CASES:
        print("\n" + case_table(cases, list(pythons), case, connections))
    print("\n" + targets(cases, list(pythons), connections))
    rounds.finish()


if __name__ == "__main__":
    main()
