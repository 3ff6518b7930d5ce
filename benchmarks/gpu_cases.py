"""What `gpu.py` measures first: an engine in a node beside loops written by hand.

All cases live in one process, are made before the first round, and take turns; the rows that they give go
into the tables of `gpu.py`. `gpu_pictures.py` has the cases of the pipeline.
"""

from __future__ import annotations

import dataclasses
import importlib
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gpu_models
import torch
from closed_loop import Call, measure
from gpu_loops import Loop, Network, rate
from other_load import OtherLoad, sample
from rounds import Row

import hami

NUM_CALLERS = 16
BATCHING_TIMEOUT_MS = 2.0
VARIANTS = ((8, 2), (16, 1))  # rows of a run, instances


@dataclasses.dataclass(frozen=True)
class Setup:
    """What all cases share. `folder` holds the weights and the compiled package."""

    network: str
    device: str
    folder: Path
    seconds: float

    @property
    def dtype(self) -> torch.dtype:
        """Return the type that the network computes in."""
        return torch.float32 if self.device == "cpu" else torch.float16

    @property
    def weights(self) -> Path:
        return self.folder / f"{self.network}.pth"

    @property
    def package(self) -> Path:
        return self.folder / f"{self.network}.pt2"

    @property
    def side_px(self) -> int:
        return gpu_models.SIDE_PX[self.network]

    def prepare(self, engines: Sequence[str]) -> None:
        """Write the files that the engines read, unless they are there."""
        if not self.weights.exists():
            gpu_models.write_weights(self.network, self.weights)
        if "package" in engines and not self.package.exists():
            gpu_models.write_package(
                self.network, self.weights, self.package, self.device, self.dtype, NUM_CALLERS
            )

    def node(self, engine: str, max_rows: int, instances: int) -> dict[str, Any]:
        """Return a node that runs the network on `engine`."""
        node: dict[str, Any] = {
            "backend": "TorchInfer",
            "device": self.device,
            "inputs": [f"pixels:uint8[-1x3x{self.side_px}x{self.side_px}]"],
            "outputs": ["scores"],
            "max": max_rows,
            "instance_num": instances,
            "batching_timeout": BATCHING_TIMEOUT_MS,
        }
        if engine == "package":
            return {**node, "model": str(self.package)}
        precision = "fp32" if self.device == "cpu" else "fp16"
        module = {
            "module": f"gpu_models:{self.network}",
            "weights": str(self.weights),
            "precision": precision,
        }
        return {**node, **module, "channels_last": True}

    def bare(self, engine: str) -> Network:
        """Return what the engine wraps, to be called by hand."""
        if engine == "package":
            # with its own locks it could not be recorded as a CUDA graph
            inductor = importlib.import_module("torch._inductor")
            index = -1 if self.device == "cpu" else torch.device(self.device).index or 0
            package: Network = inductor.aoti_load_package(
                str(self.package), run_single_threaded=True, device_index=index
            )
            return package
        return gpu_models.load(self.network, self.weights, self.device, self.dtype)


def call_of(pipe: Callable[[dict[str, Any]], object], data: object) -> Call:
    def call() -> object:
        item = {"data": data}
        pipe(item)
        return item["result"]

    return call


def measured(calls: Sequence[Call], seconds: float, counts: Callable[[], tuple[int, int]]) -> Row:
    """Return the figures of the callers, with the mean rows of a run meanwhile."""
    runs_before, rows_before = counts()
    figures = dataclasses.asdict(measure(calls, len(calls), seconds))
    runs_after, rows_after = counts()
    if figures["calls_per_s"] == 0:
        raise SystemExit(f"no call ended within {seconds} s: raise --seconds")
    return {**figures, "mean_batch": (rows_after - rows_before) / max(1, runs_after - runs_before)}


def counts_of(pipe: Any) -> Callable[[], tuple[int, int]]:
    """Return a function that tells the runs and rows of the last node until now."""

    def counts() -> tuple[int, int]:
        batches = {int(rows): runs for rows, runs in pipe.stats()[-1]["batch_rows"].items()}
        return sum(batches.values()), sum(rows * runs for rows, runs in batches.items())

    return counts


def together(calls: Sequence[Call]) -> list[Any]:
    """Return the answers of calls that are made at the same time."""
    answers: list[Any] = [None] * len(calls)

    def work(index: int) -> None:
        answers[index] = calls[index]()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return answers


class EngineCase:
    """A network on one engine in one node, called with single requests, beside bare loops.

    `of_bare`: one loop of full batches of as many rows, just before and just after. `of_loops`: as many such
    loops at once as there are instances. `of_single`: one loop of batches of one request.
    """

    def __init__(self, setup: Setup, engine: str, max_rows: int, instances: int, place: str) -> None:
        self.setup, self.engine, self.place = setup, engine, place
        self.max_rows, self.instances = max_rows, instances
        generator = torch.Generator().manual_seed(1)
        shape = (NUM_CALLERS, 3, setup.side_px, setup.side_px)
        pixels = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
        self.rows = list(pixels.to(setup.device if place == "device" else "cpu"))
        self.loops = [Loop(setup.bare(engine), self.rows[:max_rows], setup.device) for _ in range(instances)]
        self.single = Loop(self.loops[0].network, self.rows[:1], setup.device)
        self.pipe = hami.pipe({"classify": setup.node(engine, max_rows, instances)})
        self.calls = [call_of(self.pipe, row if place == "device" else row.numpy()) for row in self.rows]
        self.check()

    def check(self) -> None:
        """Compare the answers of callers who call at the same time with those of the bare loop."""
        expected = self.loops[0].run().float()
        tolerance = expected.abs().max().item() * (1e-4 if self.setup.device == "cpu" else 2e-2)
        for caller, answer in enumerate(together(self.calls)[: self.max_rows]):
            if answer is None or (torch.as_tensor(answer).float() - expected[caller]).abs().max() > tolerance:
                raise SystemExit(f"{self.engine}, caller {caller}: {answer} instead of {expected[caller]}")

    def run(self) -> Row:
        seconds = self.setup.seconds
        others_before_cores = sample(0.1)
        load = OtherLoad()
        works = [loop.run for loop in self.loops]
        before = rate(works[:1], self.max_rows, seconds / 2)
        figures = measured(self.calls, seconds, counts_of(self.pipe))
        after = rate(works[:1], self.max_rows, seconds / 2)
        bare_per_s = (before + after) / 2
        loops_per_s = rate(works, self.max_rows, seconds / 2) if self.instances > 1 else bare_per_s
        single_per_s = rate([self.single.run], 1, seconds / 2)
        return {
            "case": "engine",
            "engine": self.engine,
            "max_rows": self.max_rows,
            "instances": self.instances,
            "place": self.place,
            "others_before_cores": others_before_cores,
            "others_during_cores": load.cores(),
            **figures,
            "bare_per_s": bare_per_s,
            "loops_per_s": loops_per_s,
            "single_per_s": single_per_s,
            "of_bare": figures["calls_per_s"] / bare_per_s,
            "of_loops": figures["calls_per_s"] / loops_per_s,
            "of_single": figures["calls_per_s"] / single_per_s,
        }


def engine_cases(setup: Setup, engines: Sequence[str]) -> list[EngineCase]:
    """Make every case: each engine, number of rows and instances, and place of the pixels."""
    places = ("host",) if setup.device == "cpu" else ("host", "device")
    return [
        EngineCase(setup, engine, max_rows, instances, place)
        for engine in engines
        for max_rows, instances in VARIANTS
        for place in places
    ]
