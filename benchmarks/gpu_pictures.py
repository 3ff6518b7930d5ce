"""What `gpu.py` measures second: JPEG bytes to a label in one pipeline, beside each of its stages alone.

Every stage runs as in the pipeline, with as many instances and rows, alone in a pipeline of its own, and as a
loop written by hand in as many threads. Callers are threads of Python, or of the core (`hami.bench`), which
ask for no lock.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from closed_loop import Call
from gpu_cases import Setup, call_of, counts_of, measured, together
from gpu_loops import Loop, Work, rates
from other_load import OtherLoad, sample
from rounds import Row

import hami

MAX_ROWS = 16


@dataclass(frozen=True)
class Callers:
    """Who calls: so many threads, of Python or of the core, and the pictures in the list that each sends."""

    count: int
    per_call: int = 1
    are_of_core: bool = False

    @property
    def name(self) -> str:
        return f"{self.count} callers {'of the core ' if self.are_of_core else ''}x {self.per_call}"


# 64 pictures at once, one in a call or a batch in a call.
CALLERS = (Callers(64), Callers(64, are_of_core=True), Callers(4, MAX_ROWS))
CALLERS_ON_CPU = (Callers(8), Callers(8, are_of_core=True))
# Instances of each stage; `prepare` decodes and resizes in one node.
VARIANTS = (
    {"decode": 1, "resize": 1, "classify": 1},
    {"decode": 2, "resize": 1, "classify": 2},
    {"prepare": 1, "classify": 1},
)
PHOTOGRAPHS = ("coffee", "chelsea", "astronaut")


def jpegs(count: int) -> list[bytes]:
    """Return `count` JPEG files, which show the photographs of scikit-image in turn."""
    import skimage
    from PIL import Image

    files = []
    for name in PHOTOGRAPHS:
        buffer = io.BytesIO()
        picture = Image.open(Path(skimage.__file__).parent / "data" / f"{name}.png").convert("RGB")
        picture.save(buffer, "JPEG", quality=90)
        files.append(buffer.getvalue())
    return [files[caller % len(files)] for caller in range(count)]


def name_of(instances: dict[str, int]) -> str:
    """Return `decode 1 + classify 2`."""
    return " + ".join(f"{stage} {count}" for stage, count in instances.items())


def nodes_of(setup: Setup, instances: dict[str, int]) -> dict[str, dict[str, Any]]:
    """Return the stages as nodes, none of which names a successor."""
    decode, resize = f"DecodeTensor({setup.device})", f"ResizeTensor({setup.side_px}, {setup.side_px})"
    backends = {"decode": decode, "resize": resize, "prepare": f"S[{decode}, {resize}]"}
    nodes: dict[str, dict[str, Any]] = {}
    for stage, count in instances.items():
        if stage == "classify":
            nodes[stage] = {
                **setup.node("module", MAX_ROWS, count),
                "backend": "S[TorchInfer, ArgMaxTensor]",
            }
        else:
            nodes[stage] = {
                "backend": backends[stage],
                "instance_num": count,
                "max": MAX_ROWS,
                "batching_timeout": 2.0,
            }
    return nodes


# --- by hand ---------------------------------------------------------------------------------------


def on_stream(work: Work, device: str) -> Work:
    """Return a function that does the work on a stream of its own, and waits for it."""
    if device == "cpu":
        return work
    torch.cuda.synchronize(device)  # what it works on was made in another stream
    stream = torch.cuda.Stream(device)

    def run() -> None:
        with torch.cuda.stream(stream):
            work()
        stream.synchronize()

    return run


def decode_by_hand(files: list[bytes], device: str) -> list[torch.Tensor]:
    """Return 3xHxW pixels on the device."""
    if device == "cpu":
        import cv2
        import numpy as np

        pictures = [cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) for data in files]
        return [torch.from_numpy(picture[:, :, ::-1].copy()).permute(2, 0, 1) for picture in pictures]
    from torchvision.io import ImageReadMode, decode_jpeg

    encoded = [torch.frombuffer(bytearray(data), dtype=torch.uint8) for data in files]
    decoded: list[torch.Tensor] = decode_jpeg(encoded, mode=ImageReadMode.RGB, device=device)
    return decoded


def resize_by_hand(pictures: list[torch.Tensor], side_px: int) -> list[torch.Tensor]:
    """Return the pictures as squares; those of one size are resized as one."""
    resize = torch.nn.functional.interpolate
    sizes: dict[torch.Size, list[int]] = {}
    for index, picture in enumerate(pictures):
        sizes.setdefault(picture.shape, []).append(index)
    squares = list(pictures)
    for indices in sizes.values():
        stacked = torch.stack([pictures[index] for index in indices]).float()
        resized = resize(stacked, (side_px, side_px), mode="bilinear").round_().to(torch.uint8)
        for index, square in zip(indices, resized.unbind(0), strict=True):
            squares[index] = square
    return squares


def work_of(setup: Setup, stage: str, files: list[bytes]) -> Work:
    """Return a function that has a stage work on all these files, for a thread of its own."""
    device = setup.device
    if stage == "decode":
        return on_stream(lambda: decode_by_hand(files, device), device)
    if stage == "prepare":
        return on_stream(lambda: resize_by_hand(decode_by_hand(files, device), setup.side_px), device)
    decoded = decode_by_hand(files, device)
    if stage == "resize":
        return on_stream(lambda: resize_by_hand(decoded, setup.side_px), device)
    loop = Loop(setup.bare("module"), resize_by_hand(decoded, setup.side_px), device)
    return lambda: loop.run().argmax(1)


# --- cases -----------------------------------------------------------------------------------------


class StageCase:
    """One stage alone, or (`all`) the pipeline, called by several threads.

    Beside it run loops by hand: those of the stage, and for the pipeline those of all stages at once, of
    which the slowest one counts.
    """

    def __init__(
        self,
        setup: Setup,
        name: str,
        stage: str,
        pipe: Any,
        measure: Callable[[float], Row],
        works: list[list[Work]],
    ) -> None:
        self.setup, self.name, self.stage, self.pipe = setup, name, stage, pipe
        self.measure = measure  # for so many seconds
        self.works = works  # by stage

    def run(self) -> Row:
        others_before_cores = sample(0.1)
        load = OtherLoad()
        figures = self.measure(self.setup.seconds)
        return {
            "case": "pictures",
            "stage": self.stage,
            "instances": self.name,
            "others_before_cores": others_before_cores,
            "others_during_cores": load.cores(),
            **figures,
            "bare_per_s": self.bare_per_s(),
        }

    def bare_per_s(self) -> float:
        found = iter(
            rates([work for of_stage in self.works for work in of_stage], MAX_ROWS, self.setup.seconds / 2)
        )
        return min(sum(next(found) for _ in of_stage) for of_stage in self.works)


def check(setup: Setup, labels: list[Any], pixels: list[Any]) -> None:
    """Compare the labels of the pipeline with the scores of the network for the same pixels, run by hand."""
    network = setup.bare("module")
    with torch.no_grad():
        scores = network(torch.stack(pixels)).float().cpu()
    tolerance = scores.abs().max().item() * (1e-4 if setup.device == "cpu" else 2e-2)
    for caller, label in enumerate(labels):
        best = scores[caller].max().item()
        if label is None or best - scores[caller][int(label)].item() > tolerance:
            raise SystemExit(f"the pipeline gives caller {caller} the label {label}, the network another")


def list_call_of(pipe: Any, data: list[Any]) -> Call:
    """Return a call that sends a list of pictures, and returns what came of each."""

    def call() -> list[object]:
        items = [{"data": one} for one in data]
        pipe(items)
        return [item["result"] for item in items]

    return call


def by_python(pipe: Any, data: list[Any], per_call: int) -> Callable[[float], Row]:
    """Return what measures a pipeline called by a thread of Python for each of its parts of the data."""
    parts = [data[start : start + per_call] for start in range(0, len(data), per_call)]
    calls = [call_of(pipe, part[0]) if per_call == 1 else list_call_of(pipe, part) for part in parts]

    def measure(seconds: float) -> Row:
        figures = measured(calls, seconds, counts_of(pipe))
        return {**figures, "calls_per_s": figures["calls_per_s"] * per_call}

    return measure


def by_core(pipe: Any, data: list[Any]) -> Callable[[float], Row]:
    """Return what measures a pipeline called by as many threads of the core as there are pictures."""
    benchmark = hami.ThroughputBenchmark(pipe, [{"data": one} for one in data])

    def measure(seconds: float) -> Row:
        counts = counts_of(pipe)
        runs_before, rows_before = counts()
        report = benchmark.benchmark(
            num_callers=len(data), duration_s=seconds, warmup_s=min(0.3, seconds), repeats=1, order="given"
        )
        runs_after, rows_after = counts()
        (found,) = report.rounds
        if found.num_errors:
            raise SystemExit(f"a request failed: {found.first_error}")
        return {
            "calls_per_s": found.throughput_per_s,
            "p50_us": found.latency_ms["p50"] * 1e3,
            "p99_us": found.latency_ms["p99"] * 1e3,
            "mean_batch": (rows_after - rows_before) / max(1, runs_after - runs_before),
        }

    return measure


def picture_cases(setup: Setup) -> list[StageCase]:
    """Make the stages and the pipeline, with every choice of instances and callers; fewer on a CPU."""
    is_on_cpu = setup.device == "cpu"
    variants, callers = (VARIANTS[:1], CALLERS_ON_CPU) if is_on_cpu else (VARIANTS, CALLERS)
    return [case for instances in variants for case in cases_of(setup, instances, callers)]


def cases_of(setup: Setup, instances: dict[str, int], callers: tuple[Callers, ...]) -> list[StageCase]:
    """Make them with these."""
    files = jpegs(max(one.count * one.per_call for one in callers))
    nodes = nodes_of(setup, instances)
    names = list(nodes)
    pipes = {stage: hami.pipe({stage: node}) for stage, node in nodes.items()}
    whole = hami.pipe(
        {
            name: {**node, "next": following} if following else node
            for (name, node), following in zip(nodes.items(), [*names[1:], None], strict=True)
        }
    )
    data: dict[str, list[Any]] = {names[0]: files}
    for name, following in pairwise(names):
        data[following] = together([call_of(pipes[name], one) for one in data[name]])
    check(setup, together([call_of(whole, one) for one in files]), data["classify"])
    works = {
        stage: [work_of(setup, stage, jpegs(MAX_ROWS)) for _ in range(count)]
        for stage, count in instances.items()
    }
    cases = []
    for one in callers:
        name = f"{name_of(instances)}, {one.name}"
        for stage, pipe in {**pipes, "all": whole}.items():
            mine = data.get(stage, files)[: one.count * one.per_call]
            measure = by_core(pipe, mine) if one.are_of_core else by_python(pipe, mine, one.per_call)
            beside = list(works.values()) if stage == "all" else [works[stage]]
            cases.append(StageCase(setup, name, stage, pipe, measure, beside))
    return cases
