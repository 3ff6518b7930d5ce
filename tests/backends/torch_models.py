"""The models of onnx_models.py as modules of torch, and ways to save them as each kind of file.

The weights are the same, so that ONNX Runtime gives the right answers for both.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

from backends import onnx_models


def constant(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.from_numpy(onnx_models.weights(*shape).copy()), requires_grad=False)


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = constant(8, 16), constant(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ self.first) @ self.second


class Double(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + x


class Same(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


class Image(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.kernel = constant(2, 3, 3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.conv2d(x, self.kernel, padding=1)


class TwoInputs(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return a + b, a * b


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = constant(5, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding(ids, self.table)


class Total(nn.Module):
    """The sum of everything beside an output with rows."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + x, "total": x.sum()}


MODULES: dict[str, Callable[[], nn.Module]] = {
    "mlp": Mlp,
    "mlp_fixed4": Mlp,
    "double": Double,
    "image": Image,
    "two_inputs": TwoInputs,
    "tokens": Tokens,
    "total": Total,
    **{f"same_{name}": Same for name in onnx_models.ELEMENT_TYPES},
}

# How the inputs are described at the node, and how the outputs are called.
PORTS: dict[str, dict[str, Any]] = {
    "mlp": {"inputs": ["x:float32[-1x8]"]},
    "mlp_fixed4": {"inputs": ["x:float32[4x8]"]},
    "double": {"inputs": ["x:float32[-1x2]"]},
    "image": {"inputs": ["x:float32[-1x3x-1x-1]"]},
    "two_inputs": {
        "inputs": ["a:0:float32[-1x3]", "b:0:float32[-1x3]"],
        "outputs": ["sum:0", "product:0"],
    },
    "tokens": {"inputs": ["ids:int64[-1x-1]"]},
    "total": {"inputs": ["x:float32[-1x2]"]},
    **{f"same_{name}": {"inputs": [f"x:{name}[-1x2]"]} for name in onnx_models.ELEMENT_TYPES},
}


def examples(name: str, device: str) -> tuple[torch.Tensor, ...]:
    """Give arrays to trace a model with: two rows, and unlike extents everywhere else."""
    kinds = {"tokens": [(torch.int64, (2, 7))], "image": [(torch.float32, (2, 3, 5, 7))]}
    kinds["mlp"], kinds["mlp_fixed4"] = [(torch.float32, (2, 8))], [(torch.float32, (4, 8))]
    kinds["two_inputs"] = [(torch.float32, (2, 3))] * 2
    kind = getattr(torch, name.removeprefix("same_")) if name.startswith("same_") else torch.float32
    default = [(kind, (2, 2))]
    return tuple(torch.zeros(shape, dtype=kind, device=device) for kind, shape in kinds.get(name, default))


def exported(name: str, device: str = "cpu") -> Any:
    """Export a model with every extent dynamic that is dynamic in its description."""
    module = MODULES[name]().eval().to(device)
    given = examples(name, device)
    dim = torch.export.Dim
    batch = dim("batch", min=1, max=4096)
    spaces = {"image": {0: batch, 2: dim("height"), 3: dim("width")}, "tokens": {0: batch, 1: dim("length")}}
    shapes = None if name == "mlp_fixed4" else tuple(spaces.get(name, {0: batch}) for _ in given)
    return torch.export.export(module, given, dynamic_shapes=shapes)


def save_torchscript(name: str, folder: Path) -> Path:
    path = folder / f"{name}.pt"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # files of it will be around for long
        torch.jit.script(MODULES[name]().eval()).save(str(path))
    return path


def save_exported(name: str, folder: Path) -> Path:
    path = folder / f"{name}.pt2"
    torch.export.save(exported(name), str(path))
    return path


@functools.cache
def _compiled(name: str, device: str) -> bytes:
    """Compile once for all tests of a run: it takes seconds."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        path = f"{folder}/model.pt2"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what torch itself uses
            torch._inductor.aoti_compile_and_package(exported(name, device), package_path=path)
        return Path(path).read_bytes()


def save_package(name: str, folder: Path, device: str = "cpu") -> Path:
    path = folder / f"{name}_aoti.pt2"
    path.write_bytes(_compiled(name, device))
    return path
