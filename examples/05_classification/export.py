"""Write EfficientNet-Lite0 for every engine, from one file of weights.

Run: python examples/05_classification/export.py [--package]

`fetch_models.py` runs it where PyTorch is installed. `--package` also compiles the network ahead of time with
AOTInductor, which needs a C++ compiler and a minute or two.
"""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from efficientnet_lite0 import MODELS, SIDE_PX, network  # this folder
from torch import nn

WEIGHTS = MODELS / "efficientnet_lite0.pth"
MAX_ROWS = 64


def trained() -> nn.Module:
    """Return the network with its trained weights."""
    made = network()
    made.load_state_dict(torch.load(WEIGHTS, map_location="cpu", weights_only=True))
    return made


def example() -> torch.Tensor:
    """Return an input of two rows: with one, an exporter would take the number of rows for a constant."""
    return torch.zeros(2, 3, SIDE_PX, SIDE_PX)


def exported(made: nn.Module) -> Any:
    """Return the program of torch.export, for 1 to MAX_ROWS rows."""
    rows = torch.export.Dim("rows", min=1, max=MAX_ROWS)
    return torch.export.export(made, (example(),), dynamic_shapes=({0: rows},))


def write_onnx(made: nn.Module, path: Path) -> None:
    """Write ONNX, for ONNX Runtime and TensorRT."""
    names = {"input_names": ["image"], "output_names": ["scores"]}
    axes = {"image": {0: "rows"}, "scores": {0: "rows"}}
    torch.onnx.export(made, (example(),), path, dynamo=False, dynamic_axes=axes, **names)


def write_torchscript(made: nn.Module, path: Path) -> None:
    """Write TorchScript."""
    torch.jit.trace(made, example()).save(path)


def write_exported(made: nn.Module, path: Path) -> None:
    """Write the program of torch.export."""
    torch.export.save(exported(made), path)


def write_package(made: nn.Module, path: Path) -> None:
    """Compile the network for this processor."""
    importlib.import_module("torch._inductor").aoti_compile_and_package(
        exported(made), package_path=str(path)
    )


WRITERS: dict[str, Callable[[nn.Module, Path], None]] = {
    "efficientnet_lite0.onnx": write_onnx,
    "efficientnet_lite0.pt": write_torchscript,
    "efficientnet_lite0.pt2": write_exported,
}
PACKAGE = "efficientnet_lite0.cpu.pt2"


def write(name: str, writer: Callable[[nn.Module, Path], None]) -> None:
    """Write one file in one step, so that a stopped run leaves no half file."""
    path = MODELS / name
    unfinished = path.with_name(f"{os.getpid()}.{path.name}")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of deprecation: of exporters that engines still read
        writer(trained(), unfinished)
    unfinished.replace(path)
    print(f"export: {name} ({path.stat().st_size / 1e6:.1f} MB)", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--package", action="store_true", help="compile with AOTInductor, too")
    options = parser.parse_args()
    if not WEIGHTS.is_file():
        raise SystemExit(
            f"export: `{WEIGHTS}` is missing: run `python {MODELS.parents[1] / 'fetch_models.py'}`"
        )
    for name, writer in WRITERS.items():
        write(name, writer)
    if options.package:
        compiler = os.environ.get("CXX", "g++")
        if shutil.which(compiler) is None:
            sys.exit(f"export: AOTInductor needs a C++ compiler, and there is no `{compiler}`")
        write(PACKAGE, write_package)


if __name__ == "__main__":
    main()
