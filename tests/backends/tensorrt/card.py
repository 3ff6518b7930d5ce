"""What the tests share: engines of models, and what is lacking where they cannot run."""

from __future__ import annotations

import os
import tempfile
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from backends import onnx_models
from hami.backends.tensorrt import cuda
from hami.backends.tensorrt.execution import Execution, LoadedEngine, load_engine
from hami.backends.tensorrt.loaders import Onnx2Tensorrt
from hami.errors import BuildError
from hami.instances import instantiate

# TensorRT-RTX multiplies float32 in TF32, of 10 bits, unless the environment forbids it.
TOLERANCE = 1e-5 if os.environ.get("NVIDIA_TF32_OVERRIDE") == "0" else 6e-3


@lru_cache(maxsize=1)
def lacking_for_cuda() -> str:
    """Return what keeps the calls of CUDA from running here, or nothing."""
    try:
        cuda.card()
    except BuildError as error:
        return error.message
    return ""


@lru_cache(maxsize=1)
def lacking_for_engines() -> str:
    """Return what keeps engines from running here, or nothing: they need a card that TensorRT knows."""
    if lacking_for_cuda():
        return lacking_for_cuda()
    try:
        with tempfile.TemporaryDirectory() as folder:
            run("double", Path(folder), numbers(1, 2), max=2)
    except BuildError as error:
        return error.message
    return ""


def skip_module_where(lacking: str) -> None:
    """Skip the test module that calls this at its top where something is lacking."""
    if lacking:
        pytest.skip(f"lacking: {lacking}", allow_module_level=True)


def build(model: str | Path, folder: Path, **params: Any) -> Any:
    """Return the plan of a model by name, or of a file."""
    path = model if isinstance(model, Path) else onnx_models.write(model, folder)
    options: dict[str, Any] = {}
    instantiate(Onnx2Tensorrt, {"model": str(path), "cache_dir": str(folder / "engines"), **params}, options)
    return options["tensorrt_engine"]


def load(model: str | Path, folder: Path, **params: Any) -> LoadedEngine:
    """Return the engine of a model on the card."""
    return load_engine(build(model, folder, **params), folder=folder / "engines")


def run(model: str, folder: Path, *arrays: np.ndarray, **params: Any) -> list[np.ndarray]:
    """Run a model once on a new instance."""
    return Execution(load(model, folder, **params), 0).run(list(arrays))


def expect(model: str | Path, folder: Path, *arrays: np.ndarray) -> list[np.ndarray]:
    """Return the right answers, from ONNX Runtime."""
    path = model if isinstance(model, Path) else onnx_models.write(model, folder)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_inputs()]
    return session.run(None, dict(zip(names, arrays, strict=True)))


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
