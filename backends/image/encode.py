"""`EncodeImage`: pixels to a file's bytes."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from hami.backend import param, register
from hami.errors import RequestError

from .picture import PictureBackend, as_picture

QUALITIES = {"jpg": cv2.IMWRITE_JPEG_QUALITY, "webp": cv2.IMWRITE_WEBP_QUALITY}


@register
class EncodeImage(PictureBackend):
    """Encode a uint8 picture; the result is bytes."""

    format = param("jpg", choices=["jpg", "png", "webp", "bmp"], doc="kind of file")
    quality = param(95, min=1, max=100, doc="of jpg and webp")
    color = param("bgr", choices=["bgr", "rgb"], doc="order of the channels that come in")

    def apply(self, data: Any, item: dict[str, Any]) -> bytes:
        """Return the encoded bytes."""
        picture = as_picture(data, allow_float=False)
        if picture.dtype == np.uint16 and self.format != "png":
            raise RequestError(f"`{self.format}` holds 8 bits a channel, got `uint16`", code="image-expected")
        if self.color == "rgb" and picture.ndim == 3 and picture.shape[2] >= 3:
            code = cv2.COLOR_RGB2BGR if picture.shape[2] == 3 else cv2.COLOR_RGBA2BGRA
            picture = cv2.cvtColor(picture, code)
        options = [QUALITIES[self.format], self.quality] if self.format in QUALITIES else []
        is_encoded, encoded = cv2.imencode(f".{self.format}", picture, options)
        if not is_encoded:
            raise RequestError(
                f"a picture of shape `{picture.shape}` cannot be written as `{self.format}`",
                code="image-unsuitable",
            )
        return encoded.tobytes()
