"""What the image backends share: one picture in, one value out, and a failure that stays with its item."""

from __future__ import annotations

from typing import Any, ClassVar

import cv2
import numpy as np
import numpy.typing as npt

from hami.backend import Backend, data_of
from hami.errors import RequestError

Picture = npt.NDArray[Any]

INTERPOLATIONS = {
    "linear": cv2.INTER_LINEAR,
    "nearest": cv2.INTER_NEAREST,
    "area": cv2.INTER_AREA,
    "cubic": cv2.INTER_CUBIC,
    "lanczos": cv2.INTER_LANCZOS4,
}


class PictureBackend(Backend):
    """Run `apply` on each item's `data`; pictures of any sizes share a batch, for each is worked on alone."""

    batch_range: ClassVar[tuple[int, int | None]] = (1, None)
    group_by: ClassVar[str] = "none"

    def apply(self, data: Any, item: dict[str, Any]) -> Any:
        """Return the result for `data`; `item` is there for further keys."""
        raise NotImplementedError

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` or `error` of every item."""
        for item in batch:
            try:
                item["result"] = self.apply(data_of(item), item)
            except MemoryError:
                raise
            except cv2.error as error:
                name = type(self).__name__
                item["error"] = RequestError(
                    f"`{name}` cannot work on this picture: {error}", code="image-unsuitable"
                )
            except Exception as error:  # the batch mates must not pay for this item
                item["error"] = error


def as_picture(value: Any, *, allow_float: bool = True) -> Picture:
    """Return `value` as a contiguous HxW or HxWxC array (C = 1, 3 or 4) of uint8, uint16 or float32.

    Raises RequestError `image-expected` for anything else, zero-sized pictures included.
    """
    if isinstance(value, (str, bytes, bytearray, memoryview)) or not hasattr(value, "__array__"):
        raise RequestError(
            f"expected a picture as an array, got `{type(value).__name__}`",
            code="image-expected",
            help="put `DecodeImage` before this backend",
        )
    picture = np.asarray(value)
    if (
        picture.ndim not in (2, 3)
        or (picture.ndim == 3 and picture.shape[2] not in (1, 3, 4))
        or not picture.size
    ):
        raise RequestError(
            f"expected a picture of shape HxW or HxWxC, got shape `{picture.shape}`", code="image-expected"
        )
    known = (np.uint8, np.uint16, np.float32) if allow_float else (np.uint8, np.uint16)
    if picture.dtype not in known:
        names = ", ".join(f"`{dtype.__name__}`" for dtype in known)
        raise RequestError(f"expected a picture of {names}, got `{picture.dtype}`", code="image-expected")
    return np.ascontiguousarray(picture)


def numbers(value: Any, name: str) -> list[float]:
    """Return a parameter that is one number, a list of numbers, or text such as `0.5,0.4,0.3` as a list."""
    parts = (
        value.split(",") if isinstance(value, str) else value if isinstance(value, (list, tuple)) else [value]
    )
    try:
        result = [float(part) for part in parts]
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must be a number or a list of numbers, got `{value!r}`") from error
    if len(result) not in (1, 3, 4):
        raise ValueError(f"`{name}` must have 1, 3 or 4 numbers, got {len(result)}")
    return result
