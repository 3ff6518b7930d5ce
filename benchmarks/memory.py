"""Measure memory, the time of the import, the size of the wheel, and what an idle pipeline uses. Linux only.

python benchmarks/memory.py [--rounds 5] [--requests 20000] [--calls 1000000] [--seconds 2]
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from pathlib import Path

from other_load import sample
from rounds import (
    HERE,
    Rounds,
    Row,
    Run,
    machine,
    median_of,
    options_of,
    run_process,
    spread,
    spread_of,
    table,
)

NUM_IMPORTS = 3  # of each kind in a round; the best of all rounds counts too
LOADING = {
    "nothing": "bare Python",
    "package": "`import hami`",
    "core": "`import hami._core`",
    "one_node": "and a pipeline of one node, called once",
    "one_python_node": "the same, with a backend in Python",
}
HELD = {
    "held_by_a_list": "one blocking call with a list: the core alone",
    "held_by_one_event": "a list that shares one `hami.Event`",
    "held_by_events": "`pipe(d)`, each with a `hami.Event` of its own",
    "held_by_futures": "`pipe.submit(d)`, futures kept",
    "events_alone": "for comparison: a `hami.Event`, unused",
    "futures_alone": "for comparison: a `concurrent.futures.Future`, unused",
}
IDLE = {"no_pipeline": "no pipeline", "idle": "open pipelines without work"}


def load_once(case: str) -> Row:
    """Run a case of `memory_loading.py`, which imports nothing and so cannot look at the load of others."""
    cores = sample(0.2)
    row = run_process(sys.executable, "memory_loading.py", case)
    return {**row, "others_before_cores": cores, "others_during_cores": cores}


def case_of(case: str, amount: object, timeout_s: float = 180) -> Run:
    return partial(run_process, sys.executable, "memory_cases.py", case, amount, timeout_s=timeout_s)


def rows_of(rows: list[Row], case: str) -> list[Row]:
    return [row for row in rows if row["case"] == case]


def loading_section(rows: list[Row]) -> str:
    """Return the table of what is loaded, above bare Python."""
    sizes = ("pss_mb", "rss_mb")
    bare = {key: median_of(rows_of(rows, "nothing"), key) for key in sizes}
    lines = []
    for case, title in LOADING.items():
        mine = rows_of(rows, case)
        if case == "nothing":
            lines.append([title, *(f"(itself {spread_of(mine, key, 1)})" for key in sizes), "", ""])
            continue
        above = [spread([row[key] - bare[key] for row in mine], 1) for key in sizes]
        lines.append([title, *above, spread_of(mine, "ms", 1), f"{min(row['ms'] for row in mine):.1f}"])
    columns = ["loaded", "PSS above bare, MB", "RSS above bare, MB", "time, ms", "best, ms"]
    return (
        f"### What is loaded\n\n{table(columns, lines)}\n\n"
        "targets: one node below 25 MB above bare Python; import of the core below 100 ms"
    )


def held_section(rows: list[Row], num_requests: int) -> str:
    """Return the table of bytes for each request in flight."""
    lines = [[title, spread_of(rows_of(rows, case), "bytes")] for case, title in HELD.items()]
    return (
        f"### {num_requests:,} requests in flight\n\n"
        f"{table(['started by', 'bytes each, beyond the dict'], lines)}\n\n"
        "target: below 1,024 bytes beyond its values"
    )


def growth_section(rows: list[Row]) -> str:
    """Return what the process weighed after each tenth of many calls."""
    parts = ["### Many calls, a fourth of which raise"]
    for row in rows_of(rows, "many_calls"):
        sizes = ", ".join(f"{size / 1024:.1f}" for size in row["sizes_kb"])
        each = row["growth_kb"] * 1024 / (row["calls"] * 0.9)
        parts.append(
            f"{row['calls']:,} calls; PSS in MB after each tenth: {sizes}\n"
            f"after the first tenth: {row['growth_kb']:+,} KB, {each:+.3f} bytes a call (target: none)"
        )
    return "\n\n".join(parts)


def idle_section(rows: list[Row], seconds: float) -> str:
    """Return what sleeping costs with and without pipelines."""
    lines = []
    for case, title in IDLE.items():
        mine = rows_of(rows, case)
        cells = [spread_of(mine, "cpu_ms", 3), spread_of(mine, "wakings"), spread_of(mine, "threads")]
        lines.append([title, *cells])
    columns = ["process", "processor time, ms", "wakings", "threads"]
    return f"### {seconds:g} s without work\n\n{table(columns, lines)}\n\ntarget: nothing above no pipeline"


def wheel_line(folder: Path) -> str:
    """Return the size of the newest wheel in `folder`."""
    wheels = sorted(folder.glob("hami_core-*.whl"), key=lambda path: path.stat().st_mtime)
    if not wheels:
        return "wheel: not built, run `make wheels` (target: below 2 MB)"
    return f"wheel: {wheels[-1].name}, {wheels[-1].stat().st_size / 1e6:.2f} MB (target: below 2 MB)"


def main() -> None:
    parser = options_of(__doc__, 5, 2.0, "without work, of the idle pipelines")
    parser.add_argument("--requests", type=int, default=20_000, help="in flight at the same time")
    parser.add_argument("--calls", type=int, default=1_000_000, help="made once; 0: none")
    options = parser.parse_args()

    print(machine(), flush=True)
    rounds = Rounds(options)
    rows = rounds.measure(
        [
            [partial(load_once, case) for _ in range(NUM_IMPORTS) for case in LOADING],
            [case_of(case, options.requests) for case in HELD],
            [case_of(case, options.seconds) for case in IDLE],
        ]
    )
    if options.calls:
        once = Rounds(argparse.Namespace(rounds=1, tries=1))
        rows += once.measure([[case_of("many_calls", options.calls, timeout_s=60 + options.calls / 1000)]])
    print("\n" + loading_section(rows))
    print("\n" + held_section(rows, options.requests))
    print("\n" + growth_section(rows))
    print("\n" + idle_section(rows, options.seconds))
    print("\n" + wheel_line(HERE.parent / "dist"))
    rounds.finish()


if __name__ == "__main__":
    main()
