"""The process that measures one case of `load_engine.py`.

    python load_engine_cases.py CASE SIZE SECONDS      prints one line of JSON

A case is named loop/generator; its size is the number of callers of a closed loop, the rate of an open one.
"""

from __future__ import annotations

import sys
from typing import Any

from closed_loop import measure
from other_load import OtherLoad, sample
from rounds import report

import hami
from hami.bench import Round


def figures_of(round: Round) -> dict[str, Any]:
    figures = {
        "calls_per_s": round.throughput_per_s,
        "p50_us": round.latency_ms["p50"] * 1e3,
        "p99_us": round.latency_ms["p99"] * 1e3,
    }
    if round.lateness_ms is not None:
        figures["late_p50_us"] = round.lateness_ms["p50"] * 1e3
        figures["late_p99_us"] = round.lateness_ms["p99"] * 1e3
    return figures


def measure_core(pipe: hami.Pipeline, **load: Any) -> dict[str, Any]:
    [round] = hami.ThroughputBenchmark(pipe, [{"data": 1}]).benchmark(repeats=1, **load).rounds
    if round.num_errors:
        raise SystemExit(f"{round.num_errors} calls failed: {round.first_error}")
    return figures_of(round)


def measure_python(pipe: hami.Pipeline, num_callers: int, seconds: float) -> dict[str, Any]:
    def call() -> object:
        return pipe({"data": 1})["result"]

    measured = measure(call, num_callers, seconds)
    return {"calls_per_s": measured.calls_per_s, "p50_us": measured.p50_us, "p99_us": measured.p99_us}


def main(case: str, size: int, seconds: float) -> None:
    pipe = hami.pipe({"identity": {"backend": "Identity"}})
    others_before_cores = sample(0.2)
    load = OtherLoad()
    if case == "closed/python":
        figures = measure_python(pipe, size, seconds)
    elif case == "closed/core":
        figures = measure_core(pipe, num_callers=size, duration_s=seconds, warmup_s=min(0.3, seconds))
    else:
        figures = measure_core(pipe, rate_per_s=size, duration_s=seconds, warmup_s=min(0.3, seconds))
    report(case, others_before_cores, load.cores(), size=size, **figures)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
