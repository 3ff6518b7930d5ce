"""What the tensor operations share: items become tensors, the stream of the instance, errors kept apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch

from hami.backend import Backend, data_of
from hami.errors import RequestError

from .arrays import as_tensor, describe, from_numpy
from .stream import OwnStreams

# Elements that are stacked at most, below what the kernels count with 32 bits.
MAX_STACKED_ELEMENTS = 2**28
# Arrays on the CPU are stacked up to this size: beyond it the copy takes longer than the calls that it saves.
MAX_ELEMENTS_ON_CPU = 2**14

# Items with their arrays.
Group = list[tuple[dict[str, Any], torch.Tensor]]


class TensorBackend(Backend):
    """Run `apply` on each item's `data` as a tensor, on the device where it is; the result is complete.

    Arrays of any shapes share a batch. With `stacks`, equal ones on a GPU are worked on as one with a further
    axis 0, with `stacks_on_cpu` small ones on the CPU too: only for operations that compute each element in
    the same way in any company. Each call of torch gives the GIL away, and a thread that wants it back stands
    in line: one call for a batch is worth more than its kernel.
    """

    batch_range: ClassVar[tuple[int, int | None]] = (1, None)
    group_by: ClassVar[str] = "none"
    stacks: ClassVar[bool] = False
    stacks_on_cpu: ClassVar[bool] = False

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

    def apply_to_rows(self, rows: np.ndarray, items: list[dict[str, Any]]) -> list[Any]:
        """Return the results, tensors all the same, for items whose numpy arrays are `rows`."""
        return self.apply_stacked(from_numpy(rows), items)

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` or `error` of every item."""
        if self.stacks_on_cpu and self._run_as_one(batch):
            return
        taken = [(item, tensor) for item in batch if (tensor := self._take(item)) is not None]
        with torch.no_grad(), self.streams.complete_on(tensor.device for _, tensor in taken):
            self.run_groups(self._groups(taken))

    def run_groups(self, groups: list[Group]) -> None:
        """Work on the tensors of each group, which are equal in shape, as one."""
        for group in groups:
            if len(group) == 1 or not self._run_stacked(group):
                for item, tensor in group:
                    self._run_alone(item, tensor)

    def _run_as_one(self, batch: list[dict[str, Any]]) -> bool:
        """Work on equal numpy arrays as one, which is made by numpy at once. False where that is not so."""
        arrays = [item.get("data") for item in batch]
        first = arrays[0]
        if type(first) is not np.ndarray or len(batch) == 1 or first.size > MAX_ELEMENTS_ON_CPU:
            return False
        if not all(
            type(array) is np.ndarray and array.shape == first.shape and array.dtype == first.dtype
            for array in arrays
        ):
            return False
        try:
            self.check(from_numpy(first))
            rows = np.stack(arrays)
            with torch.no_grad():
                return self._set_results(self.apply_to_rows, rows, batch)
        except RequestError:
            return False  # each tells its own

    def _take(self, item: dict[str, Any]) -> torch.Tensor | None:
        try:
            tensor = as_tensor(data_of(item))
            self.check(tensor)
        except RequestError as error:
            item["error"] = error
            return None
        return tensor

    def _groups(self, taken: list[tuple[dict[str, Any], torch.Tensor]]) -> list[Group]:
        groups: dict[Any, Group] = defaultdict(list)
        for index, (item, tensor) in enumerate(taken):
            is_stackable = self.stacks and (
                tensor.is_cuda or (self.stacks_on_cpu and tensor.numel() <= MAX_ELEMENTS_ON_CPU)
            )
            key = (tensor.shape, tensor.dtype, tensor.device) if is_stackable else index
            groups[key].append((item, tensor))
        parts: list[Group] = []
        for group in groups.values():
            size = max(1, MAX_STACKED_ELEMENTS // max(1, group[0][1].numel()))
            parts += [group[start : start + size] for start in range(0, len(group), size)]
        return parts

    def _run_stacked(self, group: Group) -> bool:
        """Work on equal tensors as one. False where that fails: each may then tell its own error."""
        items = [item for item, _ in group]
        try:
            whole = torch.stack([tensor for _, tensor in group])
        except RuntimeError as error:
            if is_fatal(error):
                raise
            return False
        return self._set_results(self.apply_stacked, whole, items)

    def _set_results(self, apply: Callable[..., list[Any]], whole: Any, items: list[dict[str, Any]]) -> bool:
        try:
            results = apply(whole, items)
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
