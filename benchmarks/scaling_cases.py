"""One system of `scaling.py`, in a process of its own.

    python scaling_cases.py CASE CALLERS SECONDS      prints one line of JSON

A case is `processes/N`, a pool of N worker processes, `pools/N`, N instances with a pool of one worker each,
`threads/N`, N instances in this process, or `executor/N`, the pool of the standard library.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
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
    num_workers, num_instances = (1, int(number)) if kind == "pools" else (int(number), 1)
    backend = f"ProcessPool(num_workers={num_workers})[Steps]"
    return {
        "steps": {"backend": backend, "max": 4, "batching_timeout": 1, "instance_num": num_instances},
    }


def caller_of(case: str, tensor: Any) -> tuple[Callable[[], Any], Callable[[], object]]:
    """Return the function that gets one answer, and the one that ends the workers."""
    kind, number = case.split("/")
    if kind == "executor":
        executor = ProcessPoolExecutor(int(number), mp_context=get_context("spawn"))
        return lambda: executor.submit(scaling_backends.compute, tensor).result(), executor.shutdown
    pipe = hami.pipe(config_of(case))

    def call() -> Any:
        item = {"data": tensor}
        pipe(item)
        return item["result"]

    return call, pipe.close


def main(case: str, num_callers: int, seconds: float) -> None:
    tensor = np.arange(np.prod(SHAPE), dtype=np.float32).reshape(SHAPE)
    call, stop = caller_of(case, tensor)
    if not np.array_equal(np.asarray(call()), scaling_backends.compute(tensor)):
        raise SystemExit(f"{case} gives a wrong answer")
    others_before_cores = sample(0.2)
    load = OtherLoad(has_workers=True)
    measured = measure(call, num_callers, seconds)
    own_cores, other_cores = load.own_cores(), load.cores()
    stop()  # workers that outlive this process would keep its output open
    report(
        case,
        others_before_cores,
        other_cores,
        callers=num_callers,
        own_cores=own_cores,
        has_gil=getattr(sys, "_is_gil_enabled", lambda: True)(),  # an extension may have turned it on
        **dataclasses.asdict(measured),
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
