"""Decode steps without a model, for `llm_scheduling.py`: each case is a process of its own.

python llm_scheduling_cases.py ROWS CONTEXT STEPS      prints one line of JSON
"""

from __future__ import annotations

import statistics
import sys
import time
from array import array

from other_load import OtherLoad, sample
from rounds import report

PAGE_SIZE = 16
NUM_WARM_STEPS = 50


def decode_us(num_rows: int, context: int, num_steps: int) -> list[float]:
    """Return how long each of the steps took, `step` and `commit`, in microseconds."""
    from hami._core import LlmScheduler

    longest = context + num_steps + NUM_WARM_STEPS + 2
    scheduler = LlmScheduler(
        num_pages=num_rows * (longest // PAGE_SIZE + 1) * 2 + 2,
        page_size=PAGE_SIZE,
        max_running=num_rows,
        max_model_len=longest,
        max_batched_tokens=num_rows * context,
    )
    for row in range(num_rows):
        ids = [(row * 7919 + position) % 50_000 for position in range(context)]
        scheduler.add(ids, max_tokens=longest)
    tokens = array("q", [5] * num_rows)
    times = []
    for _ in range(num_steps + NUM_WARM_STEPS):
        start = time.perf_counter()
        plan = scheduler.step()
        scheduler.commit(plan, plan.sample_sequences, tokens)
        times.append((time.perf_counter() - start) * 1e6)
    return times[NUM_WARM_STEPS:]


def main(num_rows: int, context: int, num_steps: int) -> None:
    others_before_cores = sample(0.2)
    load = OtherLoad()
    times = decode_us(num_rows, context, num_steps)
    report(
        f"{num_rows} {context}",
        others_before_cores,
        load.cores(),
        rows=num_rows,
        context=context,
        mean_us=statistics.fmean(times),
        median_us=statistics.median(times),
        longest_us=max(times),
    )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]))
