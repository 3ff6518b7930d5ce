"""`ResizeImage`, `LetterBox`, `TopLeftResize`: pictures of any size to the size that a model wants."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from hami.backend import param, register

from .picture import INTERPOLATIONS, Picture, PictureBackend, as_picture


class ToSize(PictureBackend):
    """Bring a picture to `height` x `width` pixels."""

    height = param(type=int, min=1, unit="px", doc="rows of the result")
    width = param(type=int, min=1, unit="px", doc="columns of the result")
    interpolation = param(
        "linear", choices=list(INTERPOLATIONS), doc="how pixels are made from their neighbours"
    )

    def resize(self, picture: Picture, height: int, width: int) -> Picture:
        """Return the picture at that size; the third axis stays where there was one."""
        if picture.shape[:2] == (height, width):
            return picture
        resized = cv2.resize(picture, (width, height), interpolation=INTERPOLATIONS[self.interpolation])
        return resized if resized.ndim == picture.ndim else resized[:, :, np.newaxis]


@register
class ResizeImage(ToSize):
    """Resize a picture to `height` x `width`, whatever its own proportions."""

    def apply(self, data: Any, item: dict[str, Any]) -> Picture:
        """Return HxWxC of the same dtype."""
        return self.resize(as_picture(data), self.height, self.width)


class KeepProportions(ToSize):
    """Resize until one side fits and fill the rest with `pad_value`.

    Writes `to_source`, a 2x3 float64 matrix: (x, y, 1) in the result -> (x, y) in the picture that came in.
    """

    pad_value = param(0, min=0, max=255, doc="value of the added pixels")

    def apply(self, data: Any, item: dict[str, Any]) -> Picture:
        """Return HxWxC of the same dtype."""
        picture = as_picture(data)
        rows, columns = picture.shape[:2]
        scale = min(self.height / rows, self.width / columns)
        inner_height = max(1, min(self.height, round(rows * scale)))
        inner_width = max(1, min(self.width, round(columns * scale)))
        top, left = self.corner(self.height - inner_height, self.width - inner_width)
        result = np.full((self.height, self.width, *picture.shape[2:]), self.pad_value, picture.dtype)
        inner = self.resize(picture, inner_height, inner_width)
        result[top : top + inner_height, left : left + inner_width] = inner
        per_column, per_row = columns / inner_width, rows / inner_height
        item["to_source"] = np.array([[per_column, 0.0, -left * per_column], [0.0, per_row, -top * per_row]])
        return result

    def corner(self, spare_height: int, spare_width: int) -> tuple[int, int]:
        """Return the top and left of the resized picture inside the result."""
        raise NotImplementedError


@register
class LetterBox(KeepProportions):
    """Resize with proportions kept, the picture in the middle."""

    def corner(self, spare_height: int, spare_width: int) -> tuple[int, int]:
        """Return half of the spare pixels."""
        return spare_height // 2, spare_width // 2


@register
class TopLeftResize(KeepProportions):
    """Resize with proportions kept, the picture in the top left corner."""

    def corner(self, spare_height: int, spare_width: int) -> tuple[int, int]:
        """Return the origin."""
        return 0, 0
