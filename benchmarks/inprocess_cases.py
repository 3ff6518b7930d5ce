"""The calls that `inprocess.py` measures, one function a case, and the process that measures one of them.

    python inprocess_cases.py CASE CALLERS SECONDS      prints one line of JSON

A case is named system/workload. Every case runs in a process of its own, with the interpreter of its system's
environment, so this file imports nothing but the standard library until a case asks for its system.
"""

from __future__ import annotations

import dataclasses
import queue
import sys
import threading
from collections.abc import Callable

from closed_loop import Call, measure
from other_load import OtherLoad, sample
from rounds import report

MAX_BATCH = 16
CHAIN_LENGTH = 3

Item = dict[str, object]


# --- hami --------------------------------------------------------------------------------------


def call_of(pipe: Callable[[Item], object]) -> Call:
    def call() -> object:
        item: Item = {"data": 1}
        pipe(item)
        return item["result"]

    return call


def hami_identity() -> Call:
    import hami

    return call_of(hami.pipe({"identity": {"backend": "Identity"}}))


def hami_python() -> Call:
    import hami

    @hami.register("BenchmarkEcho")
    class Echo(hami.Backend):
        """Answer with `data`."""

        batch_range = (1, MAX_BATCH)

        def forward(self, batch: list[Item]) -> None:
            for item in batch:
                item["result"] = item["data"]

    return call_of(hami.pipe({"echo": {"backend": "BenchmarkEcho"}}))


def hami_chain() -> Call:
    import hami

    return call_of(
        hami.pipe(
            {
                "first": {"backend": "Identity", "next": "second"},
                "second": {"backend": "Identity", "next": "third"},
                "third": {"backend": "Identity"},
            }
        )
    )


# --- plain Python: what one would write by hand ------------------------------------------------


class Worker:
    """A thread that takes up to `max_batch` items from a queue, answers them, and hands them on."""

    def __init__(self, max_batch: int, hand_on: Callable[[Item, threading.Lock], object]) -> None:
        self.inbox: queue.SimpleQueue[tuple[Item, threading.Lock]] = queue.SimpleQueue()
        self.max_batch, self.hand_on = max_batch, hand_on
        threading.Thread(target=self.run, daemon=True).start()

    def put(self, item: Item, done: threading.Lock) -> None:
        self.inbox.put((item, done))

    def run(self) -> None:
        while True:
            batch = [self.inbox.get()]
            while len(batch) < self.max_batch and not self.inbox.empty():
                batch.append(self.inbox.get())
            for item, done in batch:
                item["result"] = item["data"]
                self.hand_on(item, done)


def plain_chain(length: int = CHAIN_LENGTH, max_batch: int = 1) -> Call:
    worker = Worker(max_batch, lambda _, done: done.release())
    for _ in range(length - 1):
        worker = Worker(max_batch, worker.put)

    def call() -> object:
        item: Item = {"data": 1}
        done = threading.Lock()
        done.acquire()
        worker.put(item, done)
        done.acquire()
        return item["result"]

    return call


def plain_identity() -> Call:
    return plain_chain(length=1)


def plain_python() -> Call:
    return plain_chain(length=1, max_batch=MAX_BATCH)


# --- omniback ----------------------------------------------------------------------------------


def omniback_identity() -> Call:
    import omniback

    return call_of(omniback.pipe({"identity": {"backend": "Identity", "batching_timeout": 0}}))


def omniback_python() -> Call:
    import omniback

    class Echo:
        def forward(self, batch: list[Item]) -> None:
            for item in batch:
                item["result"] = item["data"]

        def max(self) -> int:
            return MAX_BATCH

    omniback.register("BenchmarkEcho", Echo)
    return call_of(omniback.pipe({"echo": {"backend": "BenchmarkEcho", "batching_timeout": 2}}))


def omniback_chain() -> Call:
    import omniback

    nodes: dict[str, dict[str, object]] = {
        name: {"backend": "Identity", "batching_timeout": 0} for name in ("first", "second", "third")
    }
    nodes["first"]["next"], nodes["second"]["next"] = "second", "third"
    return call_of(omniback.pipe(nodes))


CASES: dict[str, Callable[[], Call]] = {
    "hami/identity": hami_identity,
    "hami/python": hami_python,
    "hami/chain": hami_chain,
    "plain/identity": plain_identity,
    "plain/python": plain_python,
    "plain/chain": plain_chain,
    "omniback/identity": omniback_identity,
    "omniback/python": omniback_python,
    "omniback/chain": omniback_chain,
}


def main(case: str, num_callers: int, seconds: float) -> None:
    call = CASES[case]()
    if call() != 1:
        raise SystemExit(f"{case} gives a wrong answer")
    others_before_cores = sample(0.2)
    load = OtherLoad()
    measured = measure(call, num_callers, seconds)
    figures = dataclasses.asdict(measured)
    report(case, others_before_cores, load.cores(), callers=num_callers, **figures)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
