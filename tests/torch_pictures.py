"""Pictures for the tests of `DecodeTensor`, and the pixels that `DecodeImage` makes of them."""

from __future__ import annotations

import numpy as np
from image_samples import encoded, quarters, saved, smooth, without_adobe_marker
from image_samples import result_of as picture_of

from hami.backends.image import DecodeImage

GOOD = saved(smooth(), "JPEG", quality=95, subsampling=0)

# name -> file; the levels by which nvJPEG may differ from OpenCV: at most, and on average
JPEGS = {
    "444": (GOOD, 4, 1.0),
    "422": (saved(smooth(), "JPEG", quality=95, subsampling=1), 16, 2.0),
    "420": (saved(smooth(), "JPEG", quality=95, subsampling=2), 16, 2.0),
    "progressive": (saved(smooth(), "JPEG", quality=95, progressive=True), 16, 2.0),
    "restarts": (saved(smooth(), "JPEG", quality=95, subsampling=0, restart_marker_rows=1), 4, 1.0),
    "gray": (saved(smooth(), "JPEG", "L", quality=95), 4, 1.0),
    "cmyk": (saved(smooth(), "JPEG", "CMYK", quality=95), 16, 2.0),
    "cmyk without marker": (without_adobe_marker(saved(smooth(), "JPEG", "CMYK", quality=95)), 16, 2.0),
}
OTHERS = {
    "png": saved(smooth(), "PNG"),
    "png gray": saved(smooth(), "PNG", "L"),
    "png palette": saved(quarters(), "PNG", "P"),
    "png alpha": saved(smooth(), "PNG", "RGBA"),
    "png 16 bits": encoded((smooth()[:, :, 0].astype(np.uint16) << 8) + 37, ".png"),
    "webp": saved(smooth(), "WEBP", lossless=True),
    "gif": saved(quarters(), "GIF", "P"),
    "bmp": saved(smooth(), "BMP"),
    "tiff": saved(smooth(), "TIFF"),
    "pnm": saved(smooth(), "PPM"),
}
HTML = b"<!DOCTYPE html><html><head><title>404 Not Found</title></head><body>no page.jpg here</body></html>"


def expected_of(data: bytes, color: str = "rgb", exif: bool = True) -> np.ndarray:
    """Return the pixels of `DecodeImage` as 3xHxW."""
    return picture_of(DecodeImage, data, color=color, exif=exif).transpose(2, 0, 1)
