"""Pictures on the CPU through OpenCV, which releases the GIL: decode, resize, convert, to tensor, encode.

Importing this package registers the backends; the policies (EXIF, transparency, size) are in README.md.
"""

from hami.picture_header import Header, read_header

from .color import CvtColor
from .decode import DecodeImage
from .encode import EncodeImage
from .geometry import LetterBox, ResizeImage, TopLeftResize
from .tensor import Normalize, ToTensor

__all__ = [
    "CvtColor",
    "DecodeImage",
    "EncodeImage",
    "Header",
    "LetterBox",
    "Normalize",
    "ResizeImage",
    "ToTensor",
    "TopLeftResize",
    "read_header",
]
