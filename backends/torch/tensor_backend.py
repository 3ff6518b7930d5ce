"""What the tensor operations share: items become tensors, the stream of the instance, errors kept apart."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, ClassVar

import torch

from hami.backend import Backend
from hami.errors import RequestError

from .arrays import as_tensor, data_of, describe
from .stream import OwnStreams

# Elements that are stacked at most, below what the kernels count with 32 bits.
MAX_STACKED_ELEMENTS = 2**28


class TensorBackend(Backend):
    """Run `apply` on each item's `data` as a tensor, on the device where it is; the result is complete.

    Arrays of any shapes share a batch. With `stacks`, equal ones on a GPU are worked on as one with a further
    axis 0: only for operations that compute each element in the same way in any company.
    """

    batch_range: ClassVar[tuple[int, int | None]] = (1, None)
    group_by: ClassVar[str] = "none"
    stacks: ClassVar[bool] = False

    def __init__(self) -> None:
        self.streams = OwnStreams()

    def check(self, tensor: torch.Tensor) -> None:
        """Raise RequestError for a tensor that `apply` cannot work on."""

    def apply(self, tensor: torch.Tensor, item: dict[str, Any]) -> Any:
        """Return the result for one item, whose keys are there for what else it says."""
        raise NotImplementedError

    def apply_stacked(self, tensor: torch.Tensor, items: list[dict[str, Any]]) -> list[Any]:
        """Return the results for items of equal shape: axis 0 of `tensor` counts them."""
        raise NotImplementedError

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` or `error` of every item."""
        taken = [(item, tensor) for item in batch if (tensor := self._take(item)) is not None]
        with torch.no_grad(), self.streams.complete_on(tensor.device for _, tensor in taken):
            for group in self._groups(taken):
                if len(group) == 1 or not self._run_stacked(group):
                    for item, tensor in group:
                        self._run_alone(item, tensor)

    def _take(self, item: dict[str, Any]) -> torch.Tensor | None:
        try:
            tensor = as_tensor(data_of(item))
            self.check(tensor)
        except RequestError as error:
            item["error"] = error
            return None
        return tensor

    def _groups(self, taken: list[tuple[dict[str, Any], torch.Tensor]]) -> list[list[Any]]:
        groups: dict[Any, list[Any]] = defaultdict(list)
        for index, (item, tensor) in enumerate(taken):
            is_stackable = self.stacks and tensor.is_cuda
            key = (tensor.shape, tensor.dtype, tensor.device) if is_stackable else index
            groups[key].append((item, tensor))
        parts = []
        for group in groups.values():
            size = max(1, MAX_STACKED_ELEMENTS // max(1, group[0][1].numel()))
            parts += [group[start : start + size] for start in range(0, len(group), size)]
        return parts

    def _run_stacked(self, group: list[tuple[dict[str, Any], torch.Tensor]]) -> bool:
        """Work on equal tensors as one. False where that fails: each may then tell its own error."""
        items = [item for item, _ in group]
        try:
            results = self.apply_stacked(torch.stack([tensor for _, tensor in group]), items)
        except RuntimeError as error:
            if is_fatal(error):
                raise
            return False
        for item, result in zip(items, results, strict=True):
            item["result"] = result
        return True

    def _run_alone(self, item: dict[str, Any], tensor: torch.Tensor) -> None:
        try:
            item["result"] = self.apply(tensor, item)
        except (RequestError, torch.cuda.OutOfMemoryError) as error:
            item["error"] = error
        except (RuntimeError, IndexError, TypeError) as error:
            if is_fatal(error):
                raise
            message = f"`{type(self).__name__}` cannot work on `{describe(tensor)}`: {error}"
            item["error"] = RequestError(message, code="tensor-unsuitable")


def is_fatal(error: Exception) -> bool:
    """Say whether an error is about the device, in a state that nobody knows, rather than about one item."""
    return isinstance(error, getattr(torch, "AcceleratorError", ())) or "CUDA error" in str(error)
