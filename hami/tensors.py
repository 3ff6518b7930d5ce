"""Arrays that the core cannot look into: those on a device, and those of types that numpy has not.

The core calls this module, with the GIL held, from any thread. torch is used where the process has loaded it,
or where an array lies on a device and something must be done to it there.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from .backend import load_family


def settle(array: Any) -> None:
    """Wait until an array on a device is complete, so that any stream may read it from now on.

    Whoever made it did so on the stream that is current on this thread.
    """
    torch: Any = sys.modules.get("torch")
    if torch is not None and isinstance(array, torch.Tensor):
        if array.is_cuda:
            stream = torch.cuda.current_stream(array.device)
            if not stream.query():  # waiting gives the GIL away, and who wants it back stands in line
                stream.synchronize()
        return
    cupy: Any = sys.modules.get("cupy")
    if cupy is not None and isinstance(array, cupy.ndarray):
        cupy.cuda.get_current_stream().synchronize()


def adopt(tensor: Any) -> Any:
    """Return a torch tensor on the memory of a tensor of the core, if torch is loaded; else itself."""
    torch: Any = sys.modules.get("torch")
    # The capsule itself: of an object torch would ask for device and stream first.
    return tensor if torch is None else torch.from_dlpack(tensor.__dlpack__())


def concatenate(arrays: list[Any]) -> Any:
    """Return arrays of one device one after another along axis 0."""
    return _device_arrays().concatenate(arrays)


def cast(array: Any, dtype: str) -> Any:
    """Return a contiguous copy on the same device; `dtype` is numpy's name, or `bfloat16`."""
    return _device_arrays().cast(array, dtype)


def _device_arrays() -> Any:
    load_family("torch")
    return importlib.import_module("hami.backends.torch.device_arrays")
