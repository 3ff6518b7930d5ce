"""The systems that `batching.py` compares, and the process that measures one of them.

    python batching_cases.py SYSTEM CALLERS SECONDS MODEL      prints one line of JSON

The bare loop, ONNX Runtime at a full batch with nothing around it, runs in the same process just before and
just after the system, so that a machine that changes its speed changes both. With the system `bare` nothing
runs in between: what the two loops differ by is noise.
"""

from __future__ import annotations

import dataclasses
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from closed_loop import measure
from mlp import Session
from other_load import OtherLoad, sample
from rounds import report

MAX_BATCH = 16
TIMEOUT_MS = 2

Infer = Callable[[Any], Any]  # one row in, one row out
Counts = Callable[[], tuple[int, int]]  # runs and rows until now


def counts_of(session: Session) -> Counts:
    return lambda: (session.num_runs, session.num_rows)


def hami(model: str) -> tuple[Infer, Counts]:
    """The product: `OnnxInfer` in a node of its own."""
    import numpy as np

    import hami

    pipe = hami.pipe(
        {"mlp": {"backend": "OnnxInfer", "model": model, "max": MAX_BATCH, "batching_timeout": TIMEOUT_MS}}
    )

    def infer(row: Any) -> Any:
        item = {"data": row}
        pipe(item)
        return np.from_dlpack(item["result"])

    def counts() -> tuple[int, int]:
        batches = {int(rows): runs for rows, runs in pipe.stats()[0]["batch_rows"].items()}
        return sum(batches.values()), sum(rows * runs for rows, runs in batches.items())

    return infer, counts


class Slot:
    """One row that waits for its answer."""

    def __init__(self, row: Any) -> None:
        self.row = row
        self.answer: Any = None
        self.error: Exception | None = None
        self.is_done = threading.Lock()
        self.is_done.acquire()


class HandBatcher:
    """What one writes by hand: a queue, a thread, and a timeout that begins with the first row."""

    def __init__(self, run: Infer) -> None:
        self.run = run
        self.inbox: queue.SimpleQueue[Slot] = queue.SimpleQueue()
        threading.Thread(target=self.loop, daemon=True).start()

    def collect(self) -> list[Slot]:
        batch = [self.inbox.get()]
        end_s = time.perf_counter() + TIMEOUT_MS / 1e3
        while len(batch) < MAX_BATCH:
            try:
                batch.append(self.inbox.get(timeout=max(0.0, end_s - time.perf_counter())))
            except queue.Empty:
                break
        return batch

    def loop(self) -> None:
        import numpy as np

        while True:
            batch = self.collect()
            try:
                for slot, answer in zip(batch, self.run(np.stack([slot.row for slot in batch])), strict=True):
                    slot.answer = answer
            except Exception as error:  # it belongs to the callers
                for slot in batch:
                    slot.error = error
            for slot in batch:
                slot.is_done.release()

    def __call__(self, row: Any) -> Any:
        slot = Slot(row)
        self.inbox.put(slot)
        slot.is_done.acquire()
        if slot.error is not None:
            raise slot.error
        return slot.answer


def hand(model: str) -> tuple[Infer, Counts]:
    """The batcher above."""
    session = Session(model)
    return HandBatcher(session.run), counts_of(session)


def direct(model: str) -> tuple[Infer, Counts]:
    """No batching: every caller runs the engine itself, which its sessions allow. One row is a run."""
    session = Session(model)
    return lambda row: session.run(row[None])[0], lambda: (0, 0)


def omniback(model: str) -> tuple[Infer, Counts]:
    """The runtime of the torchpipe project, with a backend in Python around the session."""
    import numpy as np
    import omniback

    sessions: list[Session] = []

    class Mlp:
        def init(self, params: Any, options: Any) -> None:
            sessions.append(Session(model))

        def forward(self, batch: Any) -> None:
            answers = sessions[0].run(np.stack([np.from_dlpack(item["data"]) for item in batch]))
            for item, answer in zip(batch, answers, strict=True):
                item["result"] = answer

        def max(self) -> int:
            return MAX_BATCH

    omniback.register("BenchmarkMlp", Mlp)
    pipe = omniback.pipe({"mlp": {"backend": "BenchmarkMlp", "batching_timeout": TIMEOUT_MS}})

    def infer(row: Any) -> Any:
        item = {"data": row}
        pipe(item)
        return np.from_dlpack(item["result"])

    return infer, counts_of(sessions[0])


SYSTEMS: dict[str, Callable[[str], tuple[Infer, Counts]]] = {
    "hami": hami,
    "hand": hand,
    "direct": direct,
    "omniback": omniback,
}


def bare_rate(session: Session, seconds: float) -> float:
    """Return the rows a second of full batches, one after another."""
    import numpy as np

    rows = np.random.default_rng(1).standard_normal((MAX_BATCH, 1024), dtype=np.float32)
    session.run(rows)
    num_runs, start_s = 0, time.perf_counter()
    while (elapsed_s := time.perf_counter() - start_s) < seconds:
        session.run(rows)
        num_runs += 1
    return num_runs * MAX_BATCH / elapsed_s


def check(infer: Infer, session: Session, rows: Any) -> None:
    """Compare the answers of all callers, who call at the same time, with those of the bare engine."""
    import numpy as np

    answers: list[Any] = [None] * len(rows)

    def call(caller: int) -> None:
        answers[caller] = np.array(infer(rows[caller]))

    threads = [threading.Thread(target=call, args=(i,)) for i in range(len(rows))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    for caller, answer in enumerate(answers):
        expected = session.run(rows[caller : caller + 1])[0]
        if answer is None or answer.shape != expected.shape or not np.allclose(answer, expected, atol=1e-3):
            raise SystemExit(f"caller {caller} got a wrong answer: {answer}, not {expected}")


def main(system: str, num_callers: int, seconds: float, model: str) -> None:
    import numpy as np
    import onnxruntime

    bare = Session(model)
    bare_rate(bare, min(0.2, seconds))
    figures: dict[str, Any] = {}
    calls, counts = [], None
    if system != "bare":
        infer, counts = SYSTEMS[system](model)
        rows = np.random.default_rng(2).standard_normal((num_callers, 1024), dtype=np.float32)
        check(infer, bare, rows)
        calls = [lambda row=row: infer(row) for row in rows]
    others_before_cores = sample(0.2)
    load = OtherLoad()
    before = bare_rate(bare, seconds / 2)
    if counts is not None:
        runs_before, rows_before = counts()
        figures = dataclasses.asdict(measure(calls, num_callers, seconds))
        runs_after, rows_after = counts()
        num_runs = runs_after - runs_before
        figures["mean_batch"] = (rows_after - rows_before) / num_runs if num_runs else 1.0
    after = bare_rate(bare, seconds / 2)
    if counts is None:
        figures = {"calls_per_s": (before + after) / 2, "mean_batch": MAX_BATCH}
    bare_rows_per_s = (before + after) / 2
    figures["of_bare"] = figures["calls_per_s"] / bare_rows_per_s
    report(
        system,
        others_before_cores,
        load.cores(),
        callers=num_callers,
        bare_before_per_s=before,
        bare_after_per_s=after,
        onnxruntime=onnxruntime.__version__,
        **figures,
    )


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
