"""`Normalize` and `ToTensor`: pixels to the floats that a network reads.

A uint8 pixel has 256 values, so each channel goes through a table of 256 floats: one pass, each value rounded
once, and the GIL is free while OpenCV makes it.
"""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from hami.backend import param, register
from hami.errors import RequestError

from .picture import Picture, PictureBackend, as_picture, numbers

Table = npt.NDArray[np.float32]


def tables(scale: float, mean: list[float], std: list[float]) -> list[Table]:
    """Return one table (value * scale - mean) / std of 256 float32 per channel, or one for all of them."""
    if 0 in std:
        raise ValueError("`std` must not hold a zero")
    count = max(len(mean), len(std))
    if len({len(mean), len(std), 1}) > 2:
        raise ValueError(f"`mean` has {len(mean)} numbers and `std` {len(std)}")
    values = np.arange(256, dtype=np.float64) * scale
    means, stds = (list_ * count if len(list_) == 1 else list_ for list_ in (mean, std))
    return [((values - m) / s).astype(np.float32) for m, s in zip(means, stds, strict=True)]


def tables_for(picture: Picture, by_channel: list[Table]) -> list[Table]:
    """Return one table for each channel of the picture. RequestError where there are others than these."""
    num_channels = 1 if picture.ndim == 2 else picture.shape[2]
    if len(by_channel) not in (1, num_channels):
        raise RequestError(
            f"`mean` and `std` are for {len(by_channel)} channels, the picture has {num_channels}",
            code="image-expected",
        )
    return by_channel * num_channels if len(by_channel) == 1 else by_channel


def planes(picture: npt.NDArray[np.uint8], by_channel: list[Table]) -> npt.NDArray[np.float32]:
    """Return the picture (HxW or HxWxC) as CxHxW float32, each channel looked up in its table."""
    channels = [picture] if picture.ndim == 2 else list(cv2.split(picture))
    result = np.empty((len(channels), *picture.shape[:2]), np.float32)
    for plane, channel, table in zip(result, channels, tables_for(picture, by_channel), strict=True):
        cv2.LUT(channel, table, dst=plane)
    return result


class Scaled(PictureBackend):
    """(value * scale - mean) / std; `mean` and `std` are one number, or one for each channel in its order."""

    mean = param(0.0, type="any", doc="subtracted after scaling: one number or one for each channel")
    std = param(1.0, type="any", doc="divides last: one number or one for each channel")

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Make the tables."""
        mean, std = numbers(self.mean, "mean"), numbers(self.std, "std")
        self.by_channel = tables(1 / 255, mean, std)
        self.mean_values, self.std_values = np.array(mean, np.float32), np.array(std, np.float32)

    def scale_floats(self, picture: Picture) -> Picture:
        """Return a uint16 or float32 picture as float32, the former divided by 65535, less mean, over std."""
        tables_for(picture, self.by_channel)
        unscaled = picture.astype(np.float32) / 65535 if picture.dtype == np.uint16 else picture
        scaled: Picture = (unscaled - self.mean_values) / self.std_values
        return scaled


@register
class Normalize(Scaled):
    """Scale pixels to float32 HxWxC: (value / 255 - mean) / std; float32 pixels are not divided by 255."""

    def apply(self, data: Any, item: dict[str, Any]) -> Picture:
        """Return float32 of the same shape."""
        picture = as_picture(data)
        if picture.dtype == np.uint8:
            table = np.stack(tables_for(picture, self.by_channel), 1)[np.newaxis]
            return cv2.LUT(picture, table).reshape(picture.shape)
        return self.scale_floats(picture)


@register
class ToTensor(Scaled):
    """Turn a picture into a float32 CxHxW tensor: (value / 255 - mean) / std."""

    def apply(self, data: Any, item: dict[str, Any]) -> Picture:
        """Return contiguous CxHxW float32; float32 pixels are not divided by 255."""
        picture = as_picture(data)
        if picture.dtype == np.uint8:
            return planes(picture, self.by_channel)
        return np.ascontiguousarray(np.atleast_3d(self.scale_floats(picture)).transpose(2, 0, 1))
