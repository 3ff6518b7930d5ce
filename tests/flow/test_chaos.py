"""Everything at once: twelve nodes under random errors, cancels, deadlines, gates and sudden closes.

`make chaos` runs a million requests; HAMI_CHAOS_REQUESTS and HAMI_CHAOS_SEED set how many, and which.
"""

from __future__ import annotations

import gc
import os
from typing import Any

import pytest
from chaos import TABLE, Chaos

from hami import _core

NUM_REQUESTS = int(os.environ.get("HAMI_CHAOS_REQUESTS", "10000"))
SEED = int(os.environ.get("HAMI_CHAOS_SEED", "1"))
REQUESTS_A_ROUND = max(1000, NUM_REQUESTS // 200)
MOST_MB = 24
pytestmark = [pytest.mark.timeout(0)] if NUM_REQUESTS > 10_000 else []


def resident_mb() -> float:
    """Return how much memory the process has."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def check_stats(chaos: Chaos, stats: list[dict[str, Any]]) -> None:
    """Hold the figures of a closed pipeline against each other, and against what the callers saw."""
    by_name = {row["node"]: row for row in stats}
    for row in stats:
        assert row["waiting"] == 0, row
        runs = sum(row["batch_rows"].values())
        assert sum(rows * count for rows, count in row["batch_rows"].items()) == row["items"], row
        assert sum(row["releases"].values()) >= runs, row
        assert max(row["batch_rows"], default=1) <= TABLE[row["node"]].get("max", 1), row
    check = by_name["check"]
    assert check["items"] + check["dropped"] <= chaos.num_admitted
    if chaos.has_drained:
        assert check["items"] + check["dropped"] == chaos.num_admitted
        through = check["items"] - check["errors"]
        assert by_name["same"]["items"] + by_name["same"]["dropped"] <= through


def test_every_request_ends_once_and_right_whatever_happens(
    new_threads: Any, eventually: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("CRITICAL", logger="hami")  # pytest keeps what is logged
    chaos = Chaos(SEED)
    num_sent, after_warm_up = 0, 0.0
    while num_sent < NUM_REQUESTS:
        pipeline = chaos.run_round(REQUESTS_A_ROUND)
        num_sent += REQUESTS_A_ROUND
        assert eventually(lambda: not new_threads()), f"seed {SEED}: threads are left"
        assert pipeline._num_requests == 0
        check_stats(chaos, pipeline.stats())
        print(f"{num_sent} requests, {resident_mb():.1f} MB", flush=True)
        del pipeline
        gc.collect()
        if after_warm_up == 0 and num_sent >= NUM_REQUESTS // 4:
            after_warm_up = resident_mb()
    growth = resident_mb() - after_warm_up
    print(f"seed {SEED}: {dict(chaos.outcomes)}, {growth:+.1f} MB after warm-up")
    assert sum(chaos.outcomes.values()) >= NUM_REQUESTS
    # A sanitizer keeps memory of its own for what the process does, in large steps.
    assert growth < MOST_MB or "sanitizer" in _core.build_facts()
    kinds = {"answered", "InjectedError", "DeadlineExceeded", "CancelledError", "Closed"}
    assert kinds <= set(chaos.outcomes), chaos.outcomes
