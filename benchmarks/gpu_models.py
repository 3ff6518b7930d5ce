"""The networks that `gpu.py` runs: ResNet-50 with random weights, and one so small that a CPU can stand in.

Both take uint8 pixels and normalise them inside, so that a request carries a byte for each value.
`TorchInfer` makes them by the name of a function here, which imports torchvision where it needs it.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

NUM_CLASSES = 1000
SIDE_PX = {"resnet50": 224, "tiny": 32}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class PixelNetwork(nn.Module):
    """uint8 Nx3xHxW -> Nx1000 scores, computed with the channels last in memory."""

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body.to(memory_format=torch.channels_last)
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1) * 255)
        self.register_buffer("std", torch.tensor(STD).view(1, 3, 1, 1) * 255)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return scores in the type of the weights."""
        values = pixels.to(dtype=self.mean.dtype, memory_format=torch.channels_last)
        scores: torch.Tensor = self.body((values - self.mean) / self.std)
        return scores


def resnet50() -> nn.Module:
    """Return ResNet-50 of torchvision, without trained weights."""
    from torchvision.models import resnet50 as body

    return PixelNetwork(body(weights=None, num_classes=NUM_CLASSES)).eval()


def tiny() -> nn.Module:
    """Return two convolutions and a linear layer, for machines without a GPU."""
    body = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, NUM_CLASSES),
    )
    return PixelNetwork(body).eval()


NETWORKS: dict[str, Callable[[], nn.Module]] = {"resnet50": resnet50, "tiny": tiny}


def settle(network: nn.Module, side_px: int) -> None:
    """Take the statistics of normalising layers from noise: else random weights overflow half precision."""
    layers = [layer for layer in network.modules() if isinstance(layer, nn.BatchNorm2d)]
    usual = [layer.momentum for layer in layers]
    for layer in layers:
        layer.momentum = 1.0
    network.train()
    with torch.no_grad():
        network(torch.randint(0, 256, (8, 3, side_px, side_px), dtype=torch.uint8))
    network.eval()
    for layer, momentum in zip(layers, usual, strict=True):
        layer.momentum = momentum


def write_weights(name: str, path: Path) -> None:
    """Write the weights that all engines of a run share."""
    torch.manual_seed(0)
    network = NETWORKS[name]()
    settle(network, SIDE_PX[name])
    torch.save(network.state_dict(), path)


def load(name: str, weights: Path, device: str, dtype: torch.dtype) -> nn.Module:
    """Return the network with those weights, ready to be called."""
    network = NETWORKS[name]()
    network.load_state_dict(torch.load(weights, map_location="cpu"))
    return network.to(device=device, dtype=dtype).eval()


# With its usual settings torch 2.11 made packages that crashed while they were loaded, in code for the host.
# Made for any processor, by a compiler that torch does not take for GCC (whose precompiled header is then not
# used), they load. Which of the two matters has not been found out.
PLAIN_COMPILER = """#!/bin/bash
arguments=()
for argument in "$@"; do
  case "$argument" in -march=native | -mavx* | -mamx* | -mfma*) ;; *) arguments+=("$argument") ;; esac
done
exec g++ "${arguments[@]}"
"""


def write_package(
    name: str, weights: Path, path: Path, device: str, dtype: torch.dtype, max_rows: int
) -> None:
    """Compile the network ahead of time, in a process of its own, for any number of rows up to `max_rows`.

    What the compiler leaves in a process (threads, memory of the GPU) would be measured with the engine.
    """
    environment = dict(os.environ)
    if device != "cpu":
        compiler = path.with_name("plain_compiler")
        compiler.write_text(PLAIN_COMPILER)
        compiler.chmod(0o755)
        environment["CXX"] = str(compiler)
    arguments = [name, str(weights), str(path), device, str(dtype).removeprefix("torch."), str(max_rows)]
    done = subprocess.run(
        [sys.executable, __file__, *arguments], env=environment, capture_output=True, text=True
    )
    if done.returncode != 0:
        raise SystemExit(f"the package cannot be compiled:\n{done.stderr[-2000:]}")


def compile_package(
    name: str, weights: Path, path: Path, device: str, dtype: torch.dtype, max_rows: int
) -> None:
    """Do that in this process."""
    network = load(name, weights, device, dtype).requires_grad_(False)
    side_px = SIDE_PX[name]
    example = torch.zeros((max_rows, 3, side_px, side_px), dtype=torch.uint8, device=device)
    rows = torch.export.Dim("rows", min=1, max=max_rows)
    with torch.no_grad():
        program = torch.export.export(network, (example,), dynamic_shapes=({0: rows},))
        importlib.import_module("torch._inductor").aoti_compile_and_package(program, package_path=str(path))


if __name__ == "__main__":
    given = sys.argv[1:]
    compile_package(
        given[0], Path(given[1]), Path(given[2]), given[3], getattr(torch, given[4]), int(given[5])
    )
