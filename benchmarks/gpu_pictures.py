"""What `gpu.py` measures second: JPEG bytes to a label in one pipeline, beside each of its stages alone.

Every stage runs as in the pipeline, with as many instances and rows, alone in a pipeline of its own, and as a
loop written by hand in as many threads.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch
from gpu_cases import Setup, call_of, counts_of, measured, together
from gpu_loops import Loop, Work, rates
from other_load import OtherLoad, sample
from rounds import Row

import hami

NUM_CALLERS, NUM_CALLERS_ON_CPU = 64, 8
MAX_ROWS = 16
# Instances of each stage.
VARIANTS = ({"decode": 2, "resize": 1, "classify": 2}, {"decode": 1, "resize": 1, "classify": 1})
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
    """Return `2 + 1 + 2`."""
    return " + ".join(map(str, instances.values()))


def nodes_of(setup: Setup, instances: dict[str, int]) -> dict[str, dict[str, Any]]:
    """Return the stages as nodes, none of which names a successor."""
    shared = {"max": MAX_ROWS, "batching_timeout": 2.0}
    classify = setup.node("module", MAX_ROWS, instances["classify"])
    return {
        "decode": {"backend": f"DecodeTensor({setup.device})", "instance_num": instances["decode"], **shared},
        "resize": {
            "backend": f"ResizeTensor({setup.side_px}, {setup.side_px})",
            "instance_num": instances["resize"],
            **shared,
        },
        "classify": {**classify, "backend": "S[TorchInfer, ArgMaxTensor]"},
    }


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
    decoded = decode_by_hand(files, device)
    if stage == "resize":
        return on_stream(lambda: resize_by_hand(decoded, setup.side_px), device)
    loop = Loop(setup.bare("module"), resize_by_hand(decoded, setup.side_px), device)
    return lambda: loop.run().argmax(1)


# --- cases -----------------------------------------------------------------------------------------


class StageCase:
    """One stage alone, or (`all`) the pipeline, called by many threads.

    Beside it run loops by hand: those of the stage, and for the pipeline those of all stages at once, of
    which the slowest one counts.
    """

    def __init__(
        self, setup: Setup, instances: str, stage: str, pipe: Any, data: list[Any], works: list[list[Work]]
    ) -> None:
        self.setup, self.instances, self.stage, self.pipe = setup, instances, stage, pipe
        self.works = works  # by stage
        self.calls = [call_of(pipe, one) for one in data]

    def run(self) -> Row:
        others_before_cores = sample(0.1)
        load = OtherLoad()
        figures = measured(self.calls, self.setup.seconds, counts_of(self.pipe))
        return {
            "case": "pictures",
            "stage": self.stage,
            "instances": self.instances,
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


def picture_cases(setup: Setup) -> list[StageCase]:
    """Make the stages and the pipeline, with every choice of instances; on a CPU one is enough."""
    variants = VARIANTS[:1] if setup.device == "cpu" else VARIANTS
    return [case for instances in variants for case in cases_of(setup, instances)]


def cases_of(setup: Setup, instances: dict[str, int]) -> list[StageCase]:
    """Make them with this one."""
    files = jpegs(NUM_CALLERS_ON_CPU if setup.device == "cpu" else NUM_CALLERS)
    nodes = nodes_of(setup, instances)
    pipes = {stage: hami.pipe({stage: node}) for stage, node in nodes.items()}
    whole = hami.pipe(
        {
            "decode": {**nodes["decode"], "next": "resize"},
            "resize": {**nodes["resize"], "next": "classify"},
            "classify": nodes["classify"],
        }
    )
    data: dict[str, list[Any]] = {"decode": files}
    data["resize"] = together([call_of(pipes["decode"], one) for one in files])
    data["classify"] = together([call_of(pipes["resize"], one) for one in data["resize"]])
    works = {
        stage: [work_of(setup, stage, jpegs(MAX_ROWS)) for _ in range(instances[stage])] for stage in nodes
    }
    name = name_of(instances)
    cases = [StageCase(setup, name, stage, pipes[stage], data[stage], [works[stage]]) for stage in nodes]
    cases.append(StageCase(setup, name, "all", whole, files, list(works.values())))
    check(setup, together(cases[-1].calls), data["classify"])
    return cases
