"""The load generator: a number of threads that each call a function again and again.

Used by every benchmark that runs in one process. Throughput and latency come from two phases, since reading
the clock twice a call costs as much as a fast call itself: the first phase only counts, the second takes the
time of every call. A call that ends after the phase is not counted.
"""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Call = Callable[[], object]


@dataclass(frozen=True)
class Measured:
    """What one closed loop gave. `fairness` = calls of the slowest caller over calls of the median caller."""

    calls_per_s: float
    p50_us: float
    p99_us: float
    max_ms: float
    fairness: float


def percentile(ordered: list[float], percent: float) -> float:
    """Return the smallest of `ordered` (ascending, not empty) that `percent` of them do not exceed."""
    rank = max(1, -(-len(ordered) * percent // 100))
    return ordered[int(rank) - 1]


class Phase:
    """Callers, one for each call, that start together and stop when told; they fill counts and latencies."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self.is_over = False
        self.counts = [0] * len(calls)
        self.latencies_s: list[list[float]] = [[] for _ in calls]
        self.errors: list[BaseException] = []
        self.barrier = threading.Barrier(len(calls) + 1)

    def count_calls(self, caller: int) -> None:
        call, count = self.calls[caller], 0
        while True:
            call()
            if self.is_over:
                break
            count += 1
        self.counts[caller] = count

    def time_calls(self, caller: int) -> None:
        call, now, note = self.calls[caller], time.perf_counter, self.latencies_s[caller].append
        while not self.is_over:
            start = now()
            call()
            note(now() - start)

    def run(self, loop: Callable[[int], None], seconds: float) -> float:
        """Run `loop` in every caller for about `seconds`; return the seconds it really took."""

        def work(caller: int) -> None:
            self.barrier.wait()
            try:
                loop(caller)
            except BaseException as error:  # kept for the main thread, which raises it
                self.errors.append(error)

        threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(len(self.counts))]
        for thread in threads:
            thread.start()
        self.barrier.wait()
        start = time.perf_counter()
        time.sleep(seconds)
        self.is_over = True
        elapsed = time.perf_counter() - start
        for thread in threads:
            thread.join(timeout=60)
        if self.errors:
            raise self.errors[0]
        if any(thread.is_alive() for thread in threads):
            raise RuntimeError("a caller did not come back within 60 s")
        return elapsed


def measure(call: Call | Sequence[Call], num_callers: int, seconds: float) -> Measured:
    """Return the figures of `num_callers` threads that call for `seconds` in each of two phases.

    `call` is what all of them call, or a list with a call for each.
    """
    calls = [call] * num_callers if callable(call) else call
    if len(calls) != num_callers:
        raise ValueError(f"{len(calls)} calls for {num_callers} callers")
    warm_up = Phase(calls)
    warm_up.run(warm_up.count_calls, min(0.3, seconds))
    counting = Phase(calls)
    elapsed_s = counting.run(counting.count_calls, seconds)
    timing = Phase(calls)
    timing.run(timing.time_calls, seconds)

    latencies_s = sorted(latency for caller in timing.latencies_s for latency in caller)
    return Measured(
        calls_per_s=sum(counting.counts) / elapsed_s,
        p50_us=percentile(latencies_s, 50) * 1e6,
        p99_us=percentile(latencies_s, 99) * 1e6,
        max_ms=latencies_s[-1] * 1e3,
        fairness=min(counting.counts) / max(1, statistics.median(counting.counts)),
    )
