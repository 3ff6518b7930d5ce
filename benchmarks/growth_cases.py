"""The series of `growth.py`: what is called at each size, and the process that measures one size of one.

    python growth_cases.py SERIES SIZE SECONDS      prints one line of JSON

Every function gets a size and returns a call, how many threads make it, and how many requests it stands for.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from closed_loop import Call, measure
from other_load import OtherLoad, sample
from rounds import report

import hami

ROWS_OF_A_LIST = 64  # divides by every number of instances


@dataclass(frozen=True)
class Load:
    """What is called; `check` makes the call once and says whether the answer is right."""

    call: Call
    num_callers: int
    requests_per_call: int
    check: Callable[[], bool]


def one_request(config: dict[str, Any], data: Any, expected: Any, num_callers: int = 1) -> Load:
    """One dict a call."""
    pipe = hami.pipe(config)

    def call() -> Any:
        item = {"data": data}
        pipe(item)
        return item["result"]

    return Load(call, num_callers, 1, lambda: bool(call() == expected))


def chain(size: int) -> Load:
    """Nodes one after another."""
    nodes: dict[str, dict[str, Any]] = {f"n{i}": {"backend": "Identity"} for i in range(size)}
    for i in range(size - 1):
        nodes[f"n{i}"]["next"] = f"n{i + 1}"
    return one_request(nodes, 1, 1)


def branches(size: int) -> Load:
    """Nodes side by side, between one that all start from and one that joins them."""
    names = [f"n{i}" for i in range(size)]
    nodes: dict[str, dict[str, Any]] = {
        "root": {"backend": "Identity", "next": ",".join(names)},
        **{name: {"backend": "Identity", "next": "join"} for name in names},
        "join": {
            "backend": "Identity",
            "map": ",".join(f"{name}[result:{'data' if name == 'n0' else name}]" for name in names),
        },
    }
    return one_request(nodes, 1, 1)


def elements(size: int) -> Load:
    """Elements of one list, each a request of its own inside."""
    nodes = {"each": {"backend": "ForEach(target=copy)"}, "copy": {"backend": "Identity"}}
    data = list(range(size))
    return one_request(nodes, data, data)


def callers(size: int) -> Load:
    """Threads that call at the same time."""
    return one_request({"copy": {"backend": "Identity"}}, 1, 1, num_callers=size)


def instances(size: int) -> Load:
    """Instances of a node that get lists of 64 dicts, in batches of at most 4."""
    pipe = hami.pipe({"copy": {"backend": "Identities", "max": 4, "instance_num": size}})

    def call() -> list[Any]:
        items = [{"data": i} for i in range(ROWS_OF_A_LIST)]
        pipe(items)
        return [item["result"] for item in items]

    return Load(call, 1, ROWS_OF_A_LIST, lambda: call() == list(range(ROWS_OF_A_LIST)))


SERIES: dict[str, Callable[[int], Load]] = {
    "chain": chain,
    "elements": elements,
    "branches": branches,
    "instances": instances,
    "callers": callers,
}


@hami.register("GrowthEcho")
class Echo(hami.Backend):
    """Answer with `data`, one request a run."""

    def forward(self, batch: list[dict[str, Any]]) -> None:
        for item in batch:
            item["result"] = item["data"]


class Window:
    """A number of requests that is always inside: whenever one is answered, the next one starts."""

    def __init__(self, size: int) -> None:
        self.pipe = hami.pipe({"echo": {"backend": "GrowthEcho"}})
        self.num_inside, self.num_answered, self.is_over = size, 0, False
        self.has_drained = threading.Event()
        for _ in range(size):
            self.start()

    def start(self) -> None:
        self.pipe.submit({"data": 1}).add_done_callback(self.on_answer)

    def on_answer(self, future: Any) -> None:  # on the one instance's thread, so nothing here needs a lock
        if future.result()["result"] != 1:
            raise ValueError("a wrong answer")
        self.num_answered += 1
        if not self.is_over:
            self.start()
            return
        self.num_inside -= 1
        if self.num_inside == 0:
            self.has_drained.set()

    def us_per_request(self, seconds: float) -> float:
        """Return the time between two answers."""
        time.sleep(min(0.3, seconds))
        before, start_s = self.num_answered, time.perf_counter()
        time.sleep(seconds)
        num_answered, elapsed_s = self.num_answered - before, time.perf_counter() - start_s
        self.is_over = True
        if not self.has_drained.wait(timeout=60):
            raise RuntimeError(f"{self.num_inside} requests got no answer within 60 s")
        return elapsed_s / max(1, num_answered) * 1e6


def us_of(series: str, size: int, seconds: float) -> float:
    """Return the cost of one request."""
    if series == "in_flight":
        return Window(size).us_per_request(seconds)
    load = SERIES[series](size)
    if not load.check():
        raise SystemExit(f"{series} at {size} gives a wrong answer")
    measured = measure(load.call, load.num_callers, seconds)
    return 1e6 / max(measured.calls_per_s, 1e-9) / load.requests_per_call


def main(series: str, size: int, seconds: float) -> None:
    others_before_cores = sample(0.2)
    load = OtherLoad()
    us = us_of(series, size, seconds)
    report(series, others_before_cores, load.cores(), size=size, us_per_request=us)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
