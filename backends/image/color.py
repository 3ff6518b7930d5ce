"""`CvtColor`: one order or meaning of channels to another."""

from __future__ import annotations

from typing import Any

import cv2

from hami.backend import param, register
from hami.errors import RequestError

from .picture import Picture, PictureBackend, as_picture

# name -> OpenCV's code and the channels that it takes
CONVERSIONS = {
    "bgr2rgb": (cv2.COLOR_BGR2RGB, 3),
    "rgb2bgr": (cv2.COLOR_RGB2BGR, 3),
    "bgr2gray": (cv2.COLOR_BGR2GRAY, 3),
    "rgb2gray": (cv2.COLOR_RGB2GRAY, 3),
    "gray2bgr": (cv2.COLOR_GRAY2BGR, 1),
    "gray2rgb": (cv2.COLOR_GRAY2RGB, 1),
    "bgra2bgr": (cv2.COLOR_BGRA2BGR, 4),
    "rgba2rgb": (cv2.COLOR_RGBA2RGB, 4),
    "bgr2hsv": (cv2.COLOR_BGR2HSV, 3),
    "rgb2hsv": (cv2.COLOR_RGB2HSV, 3),
    "hsv2bgr": (cv2.COLOR_HSV2BGR, 3),
    "hsv2rgb": (cv2.COLOR_HSV2RGB, 3),
}


@register
class CvtColor(PictureBackend):
    """Convert a picture's channels; a gray result has shape HxW."""

    code = param(type=str, choices=list(CONVERSIONS), doc="from and to, for example `bgr2rgb`")

    def apply(self, data: Any, item: dict[str, Any]) -> Picture:
        """Return the converted picture of the same dtype."""
        picture = as_picture(data)
        code, wanted = CONVERSIONS[self.code]
        channels = 1 if picture.ndim == 2 else picture.shape[2]
        if channels != wanted:
            raise RequestError(
                f"`{self.code}` takes a picture of {wanted} channels, got {channels}", code="image-expected"
            )
        return cv2.cvtColor(picture, code)
