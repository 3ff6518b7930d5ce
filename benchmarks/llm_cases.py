"""One engine of `llm.py`, in a process of its own: all workloads, one after another.

    python llm_cases.py PEER FOLDER ABCD      prints one line of JSON; the letters are workloads

The time of a prompt is that of a run that gives one token; the time of a step what each further token adds.
Every figure is the best of a few tries in this process; the spread is that between the rounds of `llm.py`.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from pathlib import Path

import llm_workloads as workloads
from llm_compared import PEERS
from llm_workloads import Answer, Serve, Workload
from other_load import OtherLoad, sample
from rounds import report

NUM_NEW = 128
TRIES = 3
ENOUGH_S = 6.0
"""Of one workload: who takes longer gets no further try."""


def timed(serve: Serve, work: Workload) -> tuple[float, list[Answer]]:
    """Return the seconds that the requests took, and their answers."""
    started = time.perf_counter()
    answers = serve(work)
    seconds = time.perf_counter() - started
    given = [len(answer.token_ids) for answer in answers]
    assert given == work.max_tokens, f"{given} tokens instead of {work.max_tokens}"
    return seconds, answers


def tries(serve: Serve, work: Workload) -> list[tuple[float, list[Answer]]]:
    """Return seconds and answers of each try."""
    done: list[tuple[float, list[Answer]]] = []
    while len(done) < TRIES and sum(seconds for seconds, _ in done) < ENOUGH_S:
        done.append(timed(serve, work))
    return done


def best(serve: Serve, work: Workload) -> float:
    return min(seconds for seconds, _ in tries(serve, work))


def prompt_rate(serve: Serve, num_prompt: int) -> float:
    """Return tokens of a prompt a second, one request."""
    return num_prompt / best(serve, workloads.alone(num_prompt, 1))


def step_ms(serve: Serve, count: int) -> float:
    """Return what a token adds to `count` requests side by side."""
    whole = best(serve, workloads.side_by_side(count, 64, NUM_NEW))
    first = best(serve, workloads.side_by_side(count, 64, 1))
    return 1000 * (whole - first) / (NUM_NEW - 1)


def crowd_figures(serve: Serve) -> dict[str, float]:
    work = workloads.crowd()
    seconds, answers = min(tries(serve, work), key=lambda one: one[0])
    waits = [answer.first_token_s for answer in answers]
    return {
        "crowd_tokens_per_s": work.num_output_tokens / seconds,
        "crowd_first_token_ms": 1000 * statistics.median(waits)
        if all(map(math.isfinite, waits))
        else math.nan,
    }


def shared_figures(serve: Serve, has_cache: bool) -> dict[str, float]:
    """Return the seconds of requests that share a prefix: with no cache, or the first and second time."""
    if not has_cache:
        return {"shared_off_s": min(timed(serve, workloads.shared(seed))[0] for seed in (1, 2))}
    cold, warm = [], []
    for seed in (3, 4, 5):
        cold.append(timed(serve, workloads.shared(seed))[0])
        warm.append(timed(serve, workloads.shared(seed))[0])
    return {"shared_cold_s": min(cold), "shared_warm_s": min(warm)}


def main(peer: str, folder: Path, wanted: str) -> None:
    others_before_cores = sample(0.2)
    load = OtherLoad()
    serve = PEERS[peer](folder, False)  # so that no try finds the prompt of the one before
    _, (sample_answer,) = timed(serve, workloads.alone(64, 32))
    figures: dict[str, float] = {}
    if "A" in wanted:
        figures |= {f"prompt_{number}_per_s": prompt_rate(serve, number) for number in (64, 512)}
        figures["step_1_ms"] = step_ms(serve, 1)
    if "B" in wanted:
        figures["step_8_ms"] = step_ms(serve, 8)
    if "C" in wanted:
        figures |= crowd_figures(serve)
    if "D" in wanted:
        figures |= shared_figures(serve, False)
    if "D" in wanted and peer.startswith(("hami", "vllm")):
        del serve
        figures |= shared_figures(PEERS[peer](folder, True), True)
    report(peer, others_before_cores, load.cores(), tokens=sample_answer.token_ids, **figures)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
