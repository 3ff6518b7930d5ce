"""TorchInfer keeps the laws of all engines: with every kind of model, on the CPU and on a GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from backends.conformance import EngineConformance

torch = pytest.importorskip("torch", reason="torch is not installed")
from backends import torch_models  # noqa: E402  it needs torch

on_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no NVIDIA GPU that torch can use")


class TorchConformance(EngineConformance):
    backend = "TorchInfer"
    device = "cpu"

    def config(self, model: Path, **params: Any) -> dict[str, Any]:
        name = model.stem.removesuffix("_aoti")
        ports = torch_models.PORTS.get(name, torch_models.PORTS["mlp"])
        return {**super().config(model, **params), **ports, "device": self.device}


class OnGpu(TorchConformance):
    """The laws on a GPU, where the products of a matrix are rounded otherwise than on a CPU."""

    device = "cuda"
    rtol = 1e-4
    atol = 1e-5

    def test_a_request_that_fails_in_the_engine_fails_alone(self) -> None:
        pytest.skip("an index out of range ends the CUDA context of the whole process")


class TestModule(TorchConformance):
    """A module by its name; what the laws say of files does not concern it."""

    def config(self, model: Path, **params: Any) -> dict[str, Any]:
        config = super().config(model, **params)
        if model.suffix == ".module":
            del config["model"]
            config["module"] = f"backends.torch_models:{torch_models.MODULES[model.stem].__name__}"
        return config

    def write(self, name: str, folder: Path) -> Path:
        return folder / f"{name}.module"


class TestTorchScript(TorchConformance):
    def write(self, name: str, folder: Path) -> Path:
        return torch_models.save_torchscript(name, folder)


class TestExported(TorchConformance):
    def write(self, name: str, folder: Path) -> Path:
        try:
            return torch_models.save_exported(name, folder)
        except Exception as error:
            if "Failed serializing" not in str(error):
                raise
            pytest.skip(f"torch {torch.__version__} cannot save a program for {name}")


@pytest.mark.timeout(300)  # the first one also compiles what all packages need
class TestPackage(TorchConformance):
    """Machine code of AOTInductor; compiling takes seconds, so that not every element type is tried."""

    element_types = ("float32", "int64", "bool")

    def write(self, name: str, folder: Path) -> Path:
        return torch_models.save_package(name, folder)


@on_gpu
class TestModuleOnGpu(OnGpu, TestModule):
    pass


@on_gpu
class TestTorchScriptOnGpu(OnGpu, TestTorchScript):
    pass


@on_gpu
class TestExportedOnGpu(OnGpu, TestExported):
    pass


@on_gpu
class TestPackageOnGpu(OnGpu, TestPackage):
    def write(self, name: str, folder: Path) -> Path:
        return torch_models.save_package(name, folder, "cuda")
