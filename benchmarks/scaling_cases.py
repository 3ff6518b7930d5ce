"""One system of `scaling.py`, in a process of its own.

    python scaling_cases.py CASE CALLERS SECONDS      prints one line of JSON

A case is `processes/N`, a pool of N worker processes, or `threads/N`, N instances in this process.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

import numpy as np
import scaling_backends
from closed_loop import measure
from other_load import OtherLoad, sample
from rounds import report

import hami

SHAPE = (64, 64)


def config_of(case: str) -> dict[str, Any]:
    """Return the pipeline of a case."""
    kind, number = case.split("/")
    if kind == "threads":
        return {"steps": {"backend": "Steps", "max": 1, "instance_num": int(number)}}
    backend = f"ProcessPool(num_workers={number})[Steps]"
    return {"steps": {"backend": backend, "max": 4, "batching_timeout": 1}}


def main(case: str, num_callers: int, seconds: float) -> None:
    pipe = hami.pipe(config_of(case))
    tensor = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
    expected: dict[str, Any] = {"data": tensor}
    scaling_backends.Steps().forward([expected])

    def call() -> Any:
        item = {"data": tensor}
        pipe(item)
        return item["result"]

    if not np.array_equal(np.asarray(call()), expected["result"]):
        raise SystemExit(f"{case} gives a wrong answer")
    others_before_cores = sample(0.2)
    load = OtherLoad(has_workers=True)
    measured = measure(call, num_callers, seconds)
    own_cores = load.own_cores()
    report(
        case,
        others_before_cores,
        load.cores(),
        callers=num_callers,
        own_cores=own_cores,
        has_gil=getattr(sys, "_is_gil_enabled", lambda: True)(),  # an extension may have turned it on
        **dataclasses.asdict(measured),
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
