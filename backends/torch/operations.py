"""`SoftmaxTensor`, `ArgMaxTensor`, `IndexSelectTensor`: what stands behind a model that scores."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch

from hami.backend import param, register
from hami.errors import ConfigError, RequestError

from .arrays import as_tensor, describe, from_numpy
from .tensor_backend import TensorBackend


class AlongAxis(TensorBackend):
    """Work along one axis of an array."""

    axis = param(-1, doc="the axis; negative ones count from the last")

    def check(self, tensor: torch.Tensor) -> None:
        """Refuse a tensor that has no such axis."""
        if not -max(1, tensor.ndim) <= self.axis < max(1, tensor.ndim):
            raise RequestError(
                f"`{describe(tensor)}` has no axis `{self.axis}`",
                code="tensor-shape",
                help="set `axis` to one that the array has",
            )
        if tensor.is_complex():
            raise RequestError(
                f"`{type(self).__name__}` takes real numbers, got `{describe(tensor)}`", code="tensor-dtype"
            )


@register
class SoftmaxTensor(AlongAxis):
    """Turn scores into probabilities: exp(x) divided by the sum of exp(x) along `axis`; the type stays."""

    def check(self, tensor: torch.Tensor) -> None:
        """Refuse what are no floats."""
        super().check(tensor)
        if not tensor.is_floating_point():
            raise RequestError(
                f"`SoftmaxTensor` takes floats, got `{describe(tensor)}`",
                code="tensor-dtype",
                help="convert the array to float32",
            )

    def apply(self, tensor: torch.Tensor, item: dict[str, Any]) -> torch.Tensor:
        """Return a tensor of the same shape and type."""
        return torch.softmax(tensor, self.axis)


@register
class ArgMaxTensor(AlongAxis):
    """Find the largest along `axis`: `result` is its index, int64, and `score` its value, without that axis.

    With `top` = k > 1 the k largest, the best first, on that axis. Of equal values the first counts as the
    larger, and NaN is larger than every number.
    """

    # Comparing gives the same in any company, unlike adding up.
    stacks: ClassVar[bool] = True
    stacks_on_cpu: ClassVar[bool] = True

    top = param(1, min=1, doc="how many of the largest; above 1 the axis stays")

    def check(self, tensor: torch.Tensor) -> None:
        """Refuse an axis with fewer than `top` elements."""
        super().check(tensor)
        extent = tensor.shape[self.axis] if tensor.ndim else 1
        if extent < self.top:
            raise RequestError(
                f"axis `{self.axis}` of `{describe(tensor)}` has fewer than {self.top} elements",
                code="tensor-shape",
                help="lower `top`, or choose another axis",
            )

    def apply(self, tensor: torch.Tensor, item: dict[str, Any]) -> torch.Tensor:
        """Return the indices, and write the values to `score`."""
        indices, item["score"] = self.largest(tensor, self.axis)
        return indices

    def apply_stacked(self, tensor: torch.Tensor, items: list[dict[str, Any]]) -> list[torch.Tensor]:
        """Return the indices of each item, and write its `score`."""
        if tensor.ndim == 1:
            return [self.apply(one, item) for one, item in zip(tensor.unbind(0), items, strict=True)]
        indices, scores = self.largest(tensor, self.axis if self.axis < 0 else self.axis + 1)
        for item, score in zip(items, scores.unbind(0), strict=True):
            item["score"] = score
        return list(indices.unbind(0))

    def apply_to_rows(self, rows: np.ndarray, items: list[dict[str, Any]]) -> list[torch.Tensor]:
        """Do it in numpy, whose `argmax` keeps to one thread: that of torch waits for others."""
        if self.top > 1 or rows.ndim == 1 or rows.dtype.kind not in "biuf" or not rows.dtype.isnative:
            return super().apply_to_rows(rows, items)
        axis = self.axis if self.axis < 0 else self.axis + 1
        indices = rows.argmax(axis, keepdims=True)
        scores = from_numpy(np.take_along_axis(rows, indices, axis).squeeze(axis))
        for item, score in zip(items, scores.unbind(0), strict=True):
            item["score"] = score
        return list(from_numpy(indices.squeeze(axis)).unbind(0))

    def largest(self, tensor: torch.Tensor, axis: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return indices and values of the `top` largest."""
        if self.top == 1 and tensor.ndim and tensor.dtype != torch.bool:
            values, indices = torch.max(tensor, axis)  # of equal values the first
            return indices, values
        comparable = tensor.to(torch.uint8) if tensor.dtype == torch.bool else tensor
        if self.top == 1:
            indices = torch.argmax(comparable, axis, keepdim=True)
            values = torch.gather(tensor, axis, indices) if tensor.ndim else tensor
            return (indices.squeeze(axis), values.squeeze(axis)) if tensor.ndim else (indices, values)
        # A stable sort, since `topk` leaves open which of equal values comes first.
        indices = torch.sort(comparable, dim=axis, descending=True, stable=True).indices
        indices = indices.narrow(axis, 0, self.top).contiguous()
        return indices, torch.gather(tensor, axis, indices)


@register
class IndexSelectTensor(TensorBackend):
    """Pick elements along `axis`: the columns, channels or rows named by `indices`, in that order."""

    indices = param(
        None,
        type="any",
        doc="whole numbers, negative ones count from the last; default: the request's `indices`",
    )
    axis = param(0, doc="the axis; negative ones count from the last")

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Read the indices."""
        self.chosen = None if self.indices is None else whole_numbers(self.indices)

    def apply(self, tensor: torch.Tensor, item: dict[str, Any]) -> torch.Tensor:
        """Return a tensor with as many elements along the axis as there are indices."""
        if not -tensor.ndim <= self.axis < tensor.ndim:
            raise RequestError(
                f"`{describe(tensor)}` has no axis `{self.axis}`",
                code="tensor-shape",
                help="set `axis` to one that the array has",
            )
        extent = tensor.shape[self.axis]
        chosen = self.chosen if self.chosen is not None else indices_of(item)
        outside = next((index for index in chosen if not -extent <= index < extent), None)
        if outside is not None:
            raise RequestError(
                f"index `{outside}` is outside of axis `{self.axis}` of `{describe(tensor)}`",
                code="tensor-shape",
                help="choose indices below the extent of the axis",
            )
        positions = torch.tensor(
            [index % extent for index in chosen], dtype=torch.int64, device=tensor.device
        )
        return torch.index_select(tensor, self.axis, positions)


def whole_numbers(value: Any) -> list[int]:
    """Return a parameter that is one whole number, a list of them, or text such as `0,2,-1`."""
    text = value.strip().removeprefix("[").removesuffix("]") if isinstance(value, str) else None
    parts = text.split(",") if text is not None else value if isinstance(value, (list, tuple)) else [value]
    try:
        numbers = [int(part) if isinstance(part, str) else part for part in parts]
    except ValueError:
        numbers = []
    if not numbers or not all(isinstance(number, int) and not isinstance(number, bool) for number in numbers):
        raise ConfigError(
            f"`indices` must be whole numbers, got `{value}`",
            code="tensor-indices",
            help='write `indices="0,2"`',
        )
    return numbers


def indices_of(item: dict[str, Any]) -> list[int]:
    """Return the request's own indices: a whole number, or a one-dimensional array or list of them."""
    if "indices" not in item:
        raise RequestError(
            "the request has no key `indices`",
            code="request-missing-key",
            help="set the parameter `indices`, or put them into the request",
        )
    value = item["indices"]
    if isinstance(value, (list, tuple)) and not value:
        return []
    given = as_tensor(value)
    if given.ndim > 1 or given.is_floating_point() or given.is_complex() or given.dtype == torch.bool:
        raise RequestError(
            f"`indices` must be whole numbers in a row, got `{describe(given)}`",
            code="tensor-indices",
            help="pass a list such as `[0, 2]`",
        )
    return [int(index) for index in given.reshape(-1).tolist()]
