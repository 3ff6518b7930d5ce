"""`CpuTensor`, `GpuTensor`, `SyncTensor`: arrays to where the next backend wants them, complete."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from hami.backend import Backend, data_of, param, register
from hami.errors import BuildError, RequestError

from .arrays import as_tensor, cuda_devices
from .device import ELEMENT_TYPES, find_device
from .stream import OwnStreams


class Move(Backend):
    """Move each item's `data`: an array, or a dict or list of arrays, whose form stays."""

    batch_range: ClassVar[tuple[int, int | None]] = (1, None)
    group_by: ClassVar[str] = "none"

    def __init__(self) -> None:
        self.streams = OwnStreams()
        self.targets: tuple[torch.device, ...] = ()

    def move(self, array: Any) -> Any:
        """Return one array where it should be; copies may still be running in the current stream."""
        raise NotImplementedError

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` or `error` of every item; the batch is waited for once."""
        devices = set(self.targets).union(*(cuda_devices(item.get("data")) for item in batch))
        with torch.no_grad(), self.streams.complete_on(devices):
            for item in batch:
                try:
                    item["result"] = self.moved(data_of(item))
                except (RequestError, torch.cuda.OutOfMemoryError) as error:
                    item["error"] = error

    def moved(self, value: Any) -> Any:
        """Return `value` with every array in it moved."""
        if isinstance(value, dict):
            return {name: self.moved(part) for name, part in value.items()}
        if isinstance(value, (list, tuple)) and not (value and holds_numbers(value)):
            return [self.moved(part) for part in value]
        return self.move(value)


def holds_numbers(value: list[Any] | tuple[Any, ...]) -> bool:
    """Say whether a list holds numbers only, in rows perhaps: then it is one array."""
    return all(
        holds_numbers(part) if isinstance(part, (list, tuple)) else isinstance(part, (bool, int, float))
        for part in value
    )


@register
class CpuTensor(Move):
    """Bring arrays to memory of the CPU: tensors of torch, but numpy arrays are there already and stay."""

    def move(self, array: Any) -> Any:
        """Return a numpy array as it is, anything else as a tensor on the CPU."""
        return array if isinstance(array, np.ndarray) else as_tensor(array).cpu()


@register
class GpuTensor(Move):
    """Bring arrays to a GPU, as tensors of torch, through pinned memory."""

    device = param("cuda", type="any", doc="`cuda`, `cuda:1` or `1` for the second GPU")
    dtype = param("", choices=["", *ELEMENT_TYPES], doc="element type on the GPU; default: as it comes")

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Find the GPU. BuildError where there is none."""
        self.target = find_device(self.device)
        if self.target.type != "cuda":
            raise BuildError(
                f"`{self.device}` is no GPU", code="device-missing", help="use `CpuTensor` for the CPU"
            )
        self.targets = (self.target,)
        self.element_type = ELEMENT_TYPES[self.dtype] if self.dtype else None

    def move(self, array: Any) -> torch.Tensor:
        """Return the tensor on the GPU; its type is converted there."""
        moved = to_gpu(as_tensor(array), self.target)
        return moved if self.element_type is None else moved.to(self.element_type)


def to_gpu(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Start the copy of a tensor to a GPU in the current stream.

    Memory of the CPU goes through pinned memory: from elsewhere the driver would copy while the thread waits.
    torch keeps the pinned memory until the copy has ended, and for the next one.
    """
    if tensor.device.type == "cpu" and not tensor.is_pinned():
        pinned = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        tensor = pinned.copy_(tensor)
    return tensor.to(device, non_blocking=True)


@register
class SyncTensor(Backend):
    """Wait until what this thread started on a GPU is complete; the result is `data` as it came.

    For a backend of your own that leaves work in the current stream: `S[Mine, SyncTensor]`. Those of hami
    wait by themselves. Without a GPU it does nothing.
    """

    batch_range: ClassVar[tuple[int, int | None]] = (1, None)
    group_by: ClassVar[str] = "none"

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Wait for the current stream of every GPU in question."""
        devices = set().union(*(cuda_devices(item.get("data")) for item in batch))
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            devices.add(torch.device("cuda", torch.cuda.current_device()))
        for device in devices:
            torch.cuda.current_stream(device).synchronize()
        for item in batch:
            try:
                item["result"] = data_of(item)
            except RequestError as error:
                item["error"] = error
