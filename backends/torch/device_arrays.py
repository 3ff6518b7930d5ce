"""What the built-in tensor backends (`CatTensor`, `FixTensor`, ...) need done to arrays on a device.

hami.tensors calls it. The work runs on the current stream of the thread and is complete on return.
"""

from __future__ import annotations

from typing import Any

import torch


def concatenate(arrays: list[Any]) -> torch.Tensor:
    """Return the arrays, which agree in device, dtype and shape of a row, joined along axis 0."""
    return _complete(torch.cat([torch.as_tensor(array) for array in arrays]))


def cast(array: Any, dtype: str) -> torch.Tensor:
    """Return a contiguous copy of another element type; `dtype` is numpy's name, or `bfloat16`."""
    tensor = torch.as_tensor(array)
    return _complete(tensor.to(getattr(torch, dtype), copy=True, memory_format=torch.contiguous_format))


def _complete(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.is_cuda:
        torch.cuda.current_stream(tensor.device).synchronize()
    return tensor
