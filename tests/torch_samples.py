"""What the tests of the torch family share: one backend without a pipeline, devices, and who needs a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hami.instances import instantiate

torch = pytest.importorskip("torch", reason="needs torch, which is not installed")

HAS_GPU = torch.cuda.is_available()
needs_gpu = pytest.mark.skipif(not HAS_GPU, reason="needs a GPU that torch can use")
needs_no_gpu = pytest.mark.skipif(HAS_GPU, reason="needs a machine without GPU")
# For `parametrize("device", DEVICES)`: the same law on the CPU and on a GPU.
DEVICES = ["cpu", pytest.param("cuda", marks=needs_gpu)]


def make(backend: type, options: dict[str, Any] | None = None, **params: Any) -> Any:
    """Return an instance of the backend, as a pipeline would make it."""
    return instantiate(backend, params, {} if options is None else options)


def run(backend: type, *data: Any, **params: Any) -> list[dict[str, Any]]:
    """Give each of `data` as one item of a batch to a fresh instance, and return the items."""
    batch = [{"data": value} for value in data]
    make(backend, **params).forward(batch)
    return batch


def outcome(item: dict[str, Any]) -> Any:
    """Return the result of an item, or raise its error."""
    if "error" in item:
        raise item["error"]
    return item["result"]


def result_of(backend: type, data: Any, **params: Any) -> Any:
    """Return the result of one item, or raise its error."""
    return outcome(run(backend, data, **params)[0])


def normal(*shape: int, seed: int = 0) -> Any:
    """Return a float32 tensor of normally distributed numbers."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def levels(*shape: int, seed: int = 0) -> Any:
    """Return a uint8 tensor of random pixels."""
    return torch.from_numpy(np.random.default_rng(seed).integers(0, 256, shape, np.uint8))


def array_of(tensor: Any) -> np.ndarray:
    """Return the numbers of a tensor on any device as a numpy array."""
    return tensor.detach().cpu().numpy()
