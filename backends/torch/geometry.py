"""`ResizeTensor` and `CropTensor`: pictures as tensors, ...xHxW, to another size, and parts of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any, ClassVar

import torch
from torch.nn.functional import interpolate

from hami.backend import param, register
from hami.errors import ConfigError, RequestError

from .arrays import as_tensor, describe
from .tensor_backend import Group, TensorBackend, is_fatal

# names as `ResizeImage` has them -> torch's
MODES = {"linear": "bilinear", "nearest": "nearest", "area": "area", "cubic": "bicubic"}
SMOOTH = ("linear", "cubic")

Box = tuple[int, int, int, int]


class PictureTensorBackend(TensorBackend):
    """Work on the last two axes, rows and columns."""

    def check(self, tensor: torch.Tensor) -> None:
        """Refuse a tensor without two axes, or without elements."""
        if tensor.ndim < 2 or tensor.numel() == 0:
            raise RequestError(
                f"expected a picture of shape CxHxW or NxCxHxW, got `{describe(tensor)}`",
                code="tensor-shape",
                help="put `ToTensor` or `DecodeTensor` before this backend",
            )


@register
class ResizeTensor(PictureTensorBackend):
    """Resize CxHxW or NxCxHxW to `height` x `width`, whatever its own proportions; the type stays.

    Pixels are areas, as in OpenCV: the outer edges of the picture stay its edges.
    """

    # A pixel is made from its neighbours in the same way in any company.
    stacks: ClassVar[bool] = True

    height = param(type=int, min=1, max=2**20, unit="px", doc="rows of the result")
    width = param(type=int, min=1, max=2**20, unit="px", doc="columns of the result")
    interpolation = param("linear", choices=list(MODES), doc="how pixels are made from their neighbours")
    antialias = param(
        False, doc="let `linear` and `cubic` take every pixel into account when they make smaller"
    )

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Check that the parameters go together."""
        if self.antialias and self.interpolation not in SMOOTH:
            raise ConfigError(
                f"`antialias` does not go with `interpolation={self.interpolation}`",
                code="tensor-antialias",
                help="choose `linear` or `cubic`, or leave `antialias` out",
            )

    def check(self, tensor: torch.Tensor) -> None:
        """Refuse element types that cannot be interpolated."""
        super().check(tensor)
        if tensor.dtype != torch.uint8 and not tensor.is_floating_point():
            raise RequestError(
                f"`ResizeTensor` takes uint8 and floats, got `{describe(tensor)}`",
                code="tensor-dtype",
                help="convert the array to float32",
            )

    def apply(self, tensor: torch.Tensor, item: dict[str, Any]) -> torch.Tensor:
        """Return the tensor at that size; one that has it already is returned as it is."""
        return self.resize(tensor)

    def apply_stacked(self, tensor: torch.Tensor, items: list[dict[str, Any]]) -> list[torch.Tensor]:
        """Return the resized tensor of each item."""
        return list(self.resize(tensor).unbind(0))

    def run_groups(self, groups: list[Group]) -> None:
        """Resize pictures of each size as one, and round and hand out those of all sizes together."""
        pictures = [group for group in groups if is_picture_on_gpu(group[0][1])]
        if len(pictures) > 1 and self._resize_together(pictures):
            groups = [group for group in groups if not is_picture_on_gpu(group[0][1])]
        super().run_groups(groups)

    def _resize_together(self, groups: list[Group]) -> bool:
        """False where that fails: they may differ in channels, or be too many for the memory."""
        try:
            sizes = [self._interpolated(torch.stack([tensor for _, tensor in group])) for group in groups]
            resized = self._rounded(torch.cat(sizes), torch.uint8)
        except RuntimeError as error:
            if is_fatal(error):
                raise
            return False
        for (item, _), result in zip(chain.from_iterable(groups), resized.unbind(0), strict=True):
            item["result"] = result
        return True

    def resize(self, tensor: torch.Tensor) -> torch.Tensor:
        """Resize the last two axes. Types of less than 32 bits are worked on as float32 and rounded once."""
        if tensor.shape[-2:] == (self.height, self.width):
            return tensor
        return self._rounded(self._interpolated(tensor), tensor.dtype)

    def _interpolated(self, tensor: torch.Tensor) -> torch.Tensor:
        *leading, rows, columns = tensor.shape
        work_type = torch.float64 if tensor.dtype == torch.float64 else torch.float32
        if (rows, columns) == (self.height, self.width):
            return tensor.to(work_type)
        # One memory order for all, since torch has kernels that round differently for another.
        tensor = tensor if tensor.is_contiguous() else tensor.contiguous()
        is_batch = tensor.is_cuda and len(leading) == 2 and leading[1] > 1
        planes = (tensor if is_batch else tensor.view(1, -1, rows, columns)).to(work_type)
        resized = interpolate(
            planes,
            (self.height, self.width),
            mode=MODES[self.interpolation],
            align_corners=False if self.interpolation in SMOOTH else None,
            antialias=self.antialias,
        )
        return resized if is_batch else resized.view(*leading, self.height, self.width)

    def _rounded(self, resized: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        if dtype == torch.uint8:
            resized = resized.round_()
            if self.interpolation == "cubic":  # the others stay between the pixels that they are made from
                resized = resized.clamp_(0, 255)
        return resized.to(dtype)


def is_picture_on_gpu(tensor: torch.Tensor) -> bool:
    """Say whether it is one that decoders give."""
    return tensor.is_cuda and tensor.ndim == 3 and tensor.dtype == torch.uint8


@register
class CropTensor(PictureTensorBackend):
    """Cut boxes out of ...xHxW: `box` gives one tensor, `boxes` a list of tensors, for `ForEach` for example.

    A box is [x1, y1, x2, y2] in pixels, x2 and y2 exclusive; edges are rounded to whole pixels and clipped
    to the picture. The request's `boxes` or `box` wins over the parameter. The results are copies.
    """

    box = param(None, type="any", doc="the window x1, y1, x2, y2 of requests that bring none, in pixels")

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Read the window."""
        self.window = None if self.box is None else read_window(self.box)

    def apply(self, tensor: torch.Tensor, item: dict[str, Any]) -> torch.Tensor | list[torch.Tensor]:
        """Return one contiguous tensor, or a list of them. RequestError for a box without a pixel inside."""
        rows, columns = tensor.shape[-2:]
        if "boxes" in item:
            given = numbers_of(item["boxes"], "boxes")
            boxes = [pixels_of(box, rows, columns, f"box {index}") for index, box in enumerate(given)]
            return [cut(tensor, box) for box in boxes]
        if "box" in item:
            (given_box,) = numbers_of([item["box"]], "box")
            return cut(tensor, pixels_of(given_box, rows, columns, "the box"))
        if self.window is None:
            raise RequestError(
                "the request has neither `box` nor `boxes`",
                code="request-missing-key",
                help="put [x1, y1, x2, y2] under `box`, or set the parameter `box`",
            )
        return cut(tensor, pixels_of(self.window, rows, columns, "the box"))


def cut(tensor: torch.Tensor, box: Box) -> torch.Tensor:
    """Return a copy of the pixels inside the box, so that it does not keep the picture alive."""
    left, top, right, bottom = box
    return tensor[..., top:bottom, left:right].clone(memory_format=torch.contiguous_format)


def read_window(value: Any) -> Sequence[float]:
    """Return the parameter `box`: four numbers, or text such as `0,0,224,224`."""
    text = value.strip().removeprefix("[").removesuffix("]") if isinstance(value, str) else None
    parts = text.split(",") if text is not None else value
    try:
        numbers = [float(part) for part in parts]
    except (TypeError, ValueError):
        numbers = []
    is_box = len(numbers) == 4 and all(map(math.isfinite, numbers))
    if not is_box or numbers[2] <= numbers[0] or numbers[3] <= numbers[1]:
        raise ConfigError(
            f"`box` must be x1, y1, x2, y2 with x1 < x2 and y1 < y2, got `{value}`",
            code="tensor-box",
            help='write `box="0,0,224,224"`',
        )
    return numbers


def numbers_of(boxes: Any, name: str) -> list[list[float]]:
    """Return the boxes of a request as rows of four numbers, from wherever they are."""
    if isinstance(boxes, (list, tuple)):
        rows = [as_tensor(box) for box in boxes]
        bad = next((row for row in rows if row.shape != (4,) or row.is_complex()), None)
    else:
        whole = as_tensor(boxes)
        is_table = (whole.ndim == 2 and whole.shape[1] == 4 and not whole.is_complex()) or whole.shape == (0,)
        rows, bad = ([whole[:0]], whole) if not is_table else ([], None)
        if is_table:
            return [[float(number) for number in row] for row in whole.tolist()]
    if bad is not None:
        raise RequestError(
            f"`{name}` must hold four numbers for each box, got `{describe(bad)}`",
            code="tensor-box",
            help="pass [x1, y1, x2, y2] for `box`, and a list or an Nx4 array of them for `boxes`",
        )
    return [[float(number) for number in row.tolist()] for row in rows]


def pixels_of(box: Sequence[float], rows: int, columns: int, what: str) -> Box:
    """Return the box in whole pixels inside the picture. Raises RequestError where it holds none."""
    if not all(map(math.isfinite, box)):
        raise RequestError(f"{what} is `{list(box)}`", code="tensor-box", help="pass finite numbers")
    x1, y1, x2, y2 = (math.floor(edge + 0.5) for edge in box)
    left, right = (min(max(edge, 0), columns) for edge in (x1, x2))
    top, bottom = (min(max(edge, 0), rows) for edge in (y1, y2))
    if right <= left or bottom <= top:
        raise RequestError(
            f"{what} `{list(box)}` holds no pixel of a picture of {columns} x {rows}",
            code="tensor-box",
            help="pass x1 < x2 and y1 < y2, in pixels, inside the picture",
        )
    return left, top, right, bottom
