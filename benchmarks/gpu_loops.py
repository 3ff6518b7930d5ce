"""What one writes by hand around a network: full batches, one after another, with nothing around them.

A loop copies single requests into one batch, runs it as a captured CUDA graph on a stream of its own, and
copies the answers out: copies that a server cannot do without either. `gpu_cases.py` measures it beside hami.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence

import torch

Network = Callable[[torch.Tensor], torch.Tensor]
Work = Callable[[], object]

WARM_UP_RUNS = 3


class Loop:
    """A batch of fixed size: `rows` are single requests, in memory of the host or of the GPU."""

    def __init__(self, network: Network, rows: Sequence[torch.Tensor], device: str) -> None:
        self.network, self.rows, self.device = network, list(rows), device
        self.is_on_host = rows[0].device.type == "cpu"
        if device == "cpu":
            return
        torch.cuda.synchronize(device)  # the rows and the weights were made in another stream
        shape = (len(rows), *rows[0].shape)
        self.staged = torch.empty(shape, dtype=rows[0].dtype, pin_memory=self.is_on_host)
        self.batch = torch.empty(shape, dtype=rows[0].dtype, device=device)
        self.stream = torch.cuda.Stream(device)
        self.stack()
        with torch.cuda.stream(self.stream), torch.no_grad():
            for _ in range(WARM_UP_RUNS):
                scores = network(self.batch)
            self.answers = torch.empty_like(scores, device="cpu", pin_memory=True)
        self.stream.synchronize()
        self.graph = self.recorded()

    def recorded(self) -> torch.cuda.CUDAGraph | None:
        """Return the graph of a batch, which writes `scores`; None, and a line on stderr, where it fails."""
        graph = torch.cuda.CUDAGraph()
        try:
            with (
                torch.no_grad(),
                torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"),
            ):
                self.scores = self.network(self.batch)
        except RuntimeError as error:
            reason = str(error).splitlines()[0]
            print(f"a loop by hand runs without CUDA graph: {reason}", file=sys.stderr, flush=True)
            self.stream = torch.cuda.Stream(self.device)  # the other one may still be recording
            return None
        return graph

    def stack(self) -> None:
        """Put the requests into the batch."""
        with torch.cuda.stream(self.stream):
            if self.is_on_host:
                torch.stack(self.rows, out=self.staged)
                self.batch.copy_(self.staged, non_blocking=True)
            else:
                torch.stack(self.rows, out=self.batch)

    def run(self) -> torch.Tensor:
        """Run one batch; return its scores in memory of the host."""
        if self.device == "cpu":
            with torch.no_grad():
                return self.network(torch.stack(self.rows))
        self.stack()
        with torch.cuda.stream(self.stream):
            if self.graph is not None:
                self.graph.replay()
            else:
                with torch.no_grad():
                    self.scores = self.network(self.batch)
            self.answers.copy_(self.scores, non_blocking=True)
        self.stream.synchronize()
        return self.answers.clone()


def rate(works: Sequence[Work], rows: int, seconds: float) -> float:
    """Return the rows a second of loops side by side, all together; one call works on `rows` of them."""
    return sum(rates(works, rows, seconds))


def rates(works: Sequence[Work], rows: int, seconds: float) -> list[float]:
    """Return the rows a second of each of several loops, which run in a thread each, all at once."""
    found = [0.0] * len(works)
    errors: list[BaseException] = []
    barrier = threading.Barrier(len(works))

    def loop(index: int) -> None:
        num_runs, work, now = 0, works[index], time.perf_counter
        try:
            work()
            barrier.wait()
            start_s = now()
            while (elapsed_s := now() - start_s) < seconds or num_runs == 0:
                work()
                num_runs += 1
            found[index] = num_runs * rows / elapsed_s
        except BaseException as error:  # kept for the main thread, which raises it
            errors.append(error)
            barrier.abort()

    threads = [threading.Thread(target=loop, args=(index,), daemon=True) for index in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return found
