"""`DecodeImage`: encoded bytes to pixels, with the size checked before a pixel is allocated."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import cv2
import numpy as np

from hami.backend import param, register
from hami.picture_header import Header, check_pixels, damaged, encoded_bytes, read_header

from .picture import Picture, PictureBackend

# A damaged picture is a typed error of its item here; OpenCV's own lines on stderr add nothing to it.
if "OPENCV_LOG_LEVEL" not in os.environ:
    logging = getattr(cv2.utils, "logging", cv2)  # where OpenCV 4.13 and later have it
    logging.setLogLevel(0)

# EXIF orientation -> what brings the stored pixels upright.
TURNS: dict[int, Callable[[Picture], Picture]] = {
    2: lambda p: cv2.flip(p, 1),
    3: lambda p: cv2.rotate(p, cv2.ROTATE_180),
    4: lambda p: cv2.flip(p, 0),
    5: cv2.transpose,
    6: lambda p: cv2.rotate(p, cv2.ROTATE_90_CLOCKWISE),
    7: lambda p: cv2.rotate(cv2.transpose(p), cv2.ROTATE_180),
    8: lambda p: cv2.rotate(p, cv2.ROTATE_90_COUNTERCLOCKWISE),
}
BACKGROUNDS = {"white": 255, "black": 0}


@register
class DecodeImage(PictureBackend):
    """Decode an encoded picture to HxWx3 uint8."""

    color = param("bgr", choices=["bgr", "rgb"], doc="order of the three channels")
    alpha = param(
        "drop",
        choices=["drop", "white", "black"],
        doc="drop transparency, or lay the picture on a background",
    )
    exif = param(True, doc="turn the picture upright as its EXIF orientation says")
    max_pixels = param(64_000_000, min=1, doc="largest width x height, checked in the header before decoding")

    def apply(self, data: Any, item: dict[str, Any]) -> Picture:
        """Return the pixels of `data`: bytes, a one-dimensional uint8 array, or a `pathlib.Path` to read."""
        encoded = encoded_bytes(data)
        header = read_header(encoded)
        check_pixels(header, self.max_pixels)
        if header.has_alpha and self.alpha != "drop":
            picture = self.lay_on_background(encoded, header)
        else:
            turn = 0 if self.exif else cv2.IMREAD_IGNORE_ORIENTATION
            picture = decode(encoded, header, cv2.IMREAD_COLOR | turn)
        return cv2.cvtColor(picture, cv2.COLOR_BGR2RGB) if self.color == "rgb" else picture

    def lay_on_background(self, encoded: bytes, header: Header) -> Picture:
        """Return BGR pixels with the transparent ones blended into the background."""
        picture = decode(encoded, header, cv2.IMREAD_UNCHANGED)
        if picture.dtype == np.uint16:
            picture = (picture >> 8).astype(np.uint8)
        if picture.ndim == 2:
            picture = cv2.cvtColor(picture, cv2.COLOR_GRAY2BGR)
        if picture.shape[2] == 4:
            opacity = picture[:, :, 3:].astype(np.float32) / 255
            background = BACKGROUNDS[self.alpha]
            picture = np.rint(picture[:, :, :3] * opacity + background * (1 - opacity)).astype(np.uint8)
        return TURNS[header.orientation](picture) if self.exif and header.orientation > 1 else picture


def decode(encoded: bytes, header: Header, flags: int) -> Picture:
    """Decode with OpenCV, whose None and whose exception mean the same: this picture is damaged."""
    try:
        picture = cv2.imdecode(np.frombuffer(encoded, np.uint8), flags)
    except cv2.error as error:
        raise damaged(header.kind, "its pixels cannot be decoded") from error
    if picture is None:
        raise damaged(header.kind, "its pixels cannot be decoded")
    return picture
