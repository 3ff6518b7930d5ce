"""Requests in flight, many calls, and nothing to do, for `memory.py`: each case is a process of its own.

    python memory_cases.py CASE AMOUNT      prints one line of JSON

Memory is the proportional set size (PSS) as the kernel counts it.
"""

from __future__ import annotations

import gc
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from memory_loading import memory_kb
from other_load import OtherLoad, sample
from rounds import report

TENTHS = 10


# --- requests in flight ------------------------------------------------------------------------


def gated_pipe(**options: Any) -> tuple[Any, threading.Event]:
    """Return a pipeline whose node holds requests with `is_held` until the event is set; `bad` ones raise."""
    import hami

    gate = threading.Event()

    @hami.register("MemoryGate")
    class Gate(hami.Backend):
        def forward(self, batch: list[dict[str, Any]]) -> None:
            for item in batch:
                if "is_held" in item:
                    gate.wait()
                if "bad" in item:
                    raise ValueError("asked for")
                item["result"] = item["data"]

    return hami.pipe({"gate": {"backend": "MemoryGate", **options}}), gate


def held(amount: int, start: Callable[[Any, list[dict[str, Any]]], object]) -> dict[str, Any]:
    """Return the bytes that each of `amount` requests adds, once its own dict is there already."""
    pipe, gate = gated_pipe(queue_capacity=max(65_536, 2 * amount))
    pipe({"data": 1})
    requests = [{"data": i, "is_held": True} for i in range(amount)]
    gc.collect()
    before_kb = memory_kb("Pss")
    keep = start(pipe, requests)
    after_kb = memory_kb("Pss")
    waiting = pipe.stats()[0]["waiting"]
    gate.set()
    pipe.close()
    if isinstance(keep, threading.Thread):
        keep.join()  # a blocking call writes the answers as it returns, which may be after close
    if waiting and [request["result"] for request in requests] != list(range(amount)):
        raise SystemExit("a request got a wrong answer")
    del keep
    return {"bytes": (after_kb - before_kb) * 1024 / amount, "waiting": waiting, "amount": amount}


def held_by_a_list(amount: int) -> dict[str, Any]:
    """One blocking call with a list: what the core keeps."""

    def start(pipe: Any, requests: list[dict[str, Any]]) -> object:
        caller = threading.Thread(target=pipe, args=(requests,))
        caller.start()
        while pipe.stats()[0]["waiting"] < amount - 1:
            time.sleep(0.01)
        return caller

    return held(amount, start)


def held_by_one_event(amount: int) -> dict[str, Any]:
    """Started by one call with a list, all under one event."""
    import hami

    def start(pipe: Any, requests: list[dict[str, Any]]) -> object:
        event = hami.Event()
        for request in requests:
            request["event"] = event
        return pipe(requests)

    return held(amount, start)


def held_by_events(amount: int) -> dict[str, Any]:
    """Started one by one, each with an event of its own."""
    import hami

    def start(pipe: Any, requests: list[dict[str, Any]]) -> object:
        for request in requests:
            request["event"] = hami.Event()
            pipe(request)
        return None

    return held(amount, start)


def held_by_futures(amount: int) -> dict[str, Any]:
    """Started one by one with `submit`; the futures are kept."""
    return held(amount, lambda pipe, requests: [pipe.submit(request) for request in requests])


def futures_alone(amount: int) -> dict[str, Any]:
    """Futures of the standard library, with nothing in them: for comparison."""
    from concurrent.futures import Future

    return held(amount, lambda _, requests: [Future() for _ in requests])


def events_alone(amount: int) -> dict[str, Any]:
    """Events of hami that no request carries: for comparison."""
    import hami

    return held(amount, lambda _, requests: [hami.Event() for _ in requests])


# --- many calls --------------------------------------------------------------------------------


def many_calls(amount: int) -> dict[str, Any]:
    """Four threads call in all forms, a fourth of the calls raise; memory after each tenth of the calls."""
    import hami

    copy = hami.pipe({"copy": {"backend": "Identity"}})
    python, _ = gated_pipe(max=8, batching_timeout=0)
    raised = [0] * 4

    def calls(caller: int, num_rounds: int) -> None:
        for i in range(num_rounds):
            copy({"data": i})
            python({"data": i})
            future = python.submit({"data": i})
            try:
                python({"data": i, "bad": True})
            except ValueError:
                raised[caller] += 1
            future.result()

    sizes_kb, rounds_of_a_tenth = [], max(1, amount // (TENTHS * 16))
    for _ in range(TENTHS):
        threads = [threading.Thread(target=calls, args=(i, rounds_of_a_tenth)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        gc.collect()
        sizes_kb.append(memory_kb("Pss"))
    if sum(raised) != 4 * TENTHS * rounds_of_a_tenth:
        raise SystemExit(f"{sum(raised)} calls raised")
    num_calls = 16 * TENTHS * rounds_of_a_tenth
    return {"sizes_kb": sizes_kb, "calls": num_calls, "growth_kb": sizes_kb[-1] - sizes_kb[0]}


# --- nothing to do -----------------------------------------------------------------------------


def at_rest(seconds: float) -> dict[str, Any]:
    """Return the processor time and the wakings of all threads of this process while the main one sleeps."""
    before, start_s = resource.getrusage(resource.RUSAGE_SELF), time.process_time()
    time.sleep(seconds)
    cpu_s, after = time.process_time() - start_s, resource.getrusage(resource.RUSAGE_SELF)
    return {
        "cpu_ms": cpu_s * 1e3,
        "wakings": after.ru_nvcsw - before.ru_nvcsw,
        "threads": len(os.listdir("/proc/self/task")),
    }


def no_pipeline(amount: float) -> dict[str, Any]:
    """The sleep alone: what `idle` is compared with."""
    return at_rest(amount)


def idle(amount: float) -> dict[str, Any]:
    """Open pipelines, of all kinds of nodes, that have worked and have nothing more to do."""
    import hami

    graph = {
        "first": {"backend": "Identities", "max": 8, "instance_num": 4, "next": "second"},
        "second": {"backend": "Identity", "hung_after_ms": 100},
    }
    pipes = [hami.pipe(graph), gated_pipe(max=8)[0]]
    for pipe in pipes:
        pipe([{"data": i} for i in range(20)])
    time.sleep(0.2)
    return at_rest(amount)


CASES: dict[str, Callable[[Any], dict[str, Any]]] = {
    function.__name__: function
    for function in (
        held_by_a_list,
        held_by_one_event,
        held_by_events,
        held_by_futures,
        futures_alone,
        events_alone,
        many_calls,
        no_pipeline,
        idle,
    )
}
SECONDS = ("no_pipeline", "idle")  # the amount of these is a time


def main(case: str, amount: str) -> None:
    others_before_cores = sample(0.2)
    load = OtherLoad()
    figures = CASES[case](float(amount) if case in SECONDS else int(amount))
    report(case, others_before_cores, load.cores(), **figures)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
