"""`DecodeTensor`: encoded pictures to tensors, JPEG by nvJPEG on the GPU, the rest by OpenCV.

The policies are those of `DecodeImage`: the size is checked in the header, EXIF turns the picture, and a
damaged one is an error of its item.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import numpy as np
import torch

from hami.backend import Backend, data_of, param, register
from hami.errors import BuildError, RequestError
from hami.picture_header import Header, check_pixels, damaged, encoded_bytes, read_header

from .device import find_device
from .move import to_gpu
from .stream import OwnStreams
from .tensor_backend import is_fatal

with warnings.catch_warnings():
    # torch says once in a process that bytes may not be written to. Decoders only read them.
    warnings.simplefilter("ignore")
    torch.frombuffer(b"bytes", dtype=torch.uint8)

START_OF_SCAN, END_OF_IMAGE = b"\xff\xda", b"\xff\xd9"

# EXIF orientation -> what brings stored pixels (...xHxW) upright.
TURNS: dict[int, Callable[[torch.Tensor], torch.Tensor]] = {
    2: lambda p: p.flip(-1),
    3: lambda p: p.flip(-2, -1),
    4: lambda p: p.flip(-2),
    5: lambda p: p.transpose(-2, -1),
    6: lambda p: p.transpose(-2, -1).flip(-1),
    7: lambda p: p.transpose(-2, -1).flip(-2, -1),
    8: lambda p: p.transpose(-2, -1).flip(-2),
}


@dataclass
class Encoded:
    """One item's picture before decoding."""

    item: dict[str, Any]
    data: bytes
    header: Header

    @property
    def suits_gpu(self) -> bool:
        """Whether nvJPEG decodes it as OpenCV would: three channels, some pixels, and not cut."""
        if self.header.kind != "JPEG" or self.header.num_channels != 3:
            return False
        # A scan before the last end and none behind it: both are found without a look at the pixels.
        end = self.data.rfind(END_OF_IMAGE)
        return end > 0 and self.data.find(START_OF_SCAN, 0, end) >= 0 > self.data.find(START_OF_SCAN, end)


@register
class DecodeTensor(Backend):
    """Decode an encoded picture to uint8 3xHxW on `device`: JPEG on the GPU, all of a batch at once."""

    batch_range: ClassVar[tuple[int, int | None]] = (1, None)
    group_by: ClassVar[str] = "none"

    device = param("cuda", type="any", doc="`cuda`, `cuda:1` for the second GPU, or `cpu`")
    color = param("rgb", choices=["rgb", "bgr"], doc="order of the three channels")
    exif = param(True, doc="turn the picture upright as its EXIF orientation says")
    max_pixels = param(64_000_000, min=1, doc="largest width x height, checked in the header before decoding")

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Find the device and load the decoders. BuildError where one is not there."""
        self.target = find_device(self.device)
        self.opencv = load_opencv()
        self.decode_jpegs = load_nvjpeg(self.target, self.opencv) if self.target.type == "cuda" else None
        self.streams = OwnStreams()

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Set `result` or `error` of every item."""
        pictures = [picture for item in batch if (picture := self._read(item)) is not None]
        with torch.no_grad(), self.streams.complete_on([self.target]):
            for picture in self._decode_on_gpu(pictures):
                try:
                    picture.item["result"] = self._decode_on_cpu(picture)
                except (RequestError, torch.cuda.OutOfMemoryError) as error:
                    picture.item["error"] = error

    def _read(self, item: dict[str, Any]) -> Encoded | None:
        try:
            value = data_of(item)
            is_bytes = isinstance(value, torch.Tensor) and value.dtype == torch.uint8
            data = encoded_bytes(value.cpu().numpy() if is_bytes else value)
            header = read_header(data)
            check_pixels(header, self.max_pixels)
        except (RequestError, OSError) as error:
            item["error"] = error
            return None
        return Encoded(item, data, header)

    def _decode_on_gpu(self, pictures: list[Encoded]) -> list[Encoded]:
        """Decode what the GPU can decode, and return the others, those that it refused among them."""
        if self.decode_jpegs is None:
            return pictures
        chosen: list[Encoded] = []
        others: list[Encoded] = []
        for picture in pictures:
            (chosen if picture.suits_gpu else others).append(picture)
        decoded = self._try_on_gpu(chosen)
        if decoded is None:  # one of them cannot be decoded: find out which
            alone = [(picture, self._try_on_gpu([picture])) for picture in chosen]
            others += [picture for picture, found in alone if found is None]
            chosen = [picture for picture, found in alone if found is not None]
            decoded = [found[0] for _, found in alone if found is not None]
        for picture, pixels in zip(chosen, decoded, strict=True):
            picture.item["result"] = self._finished(pixels, picture.header)
        return others

    def _try_on_gpu(self, pictures: list[Encoded]) -> list[torch.Tensor] | None:
        """Return RGB pixels as stored, or None where the decoder refuses one of the pictures."""
        if not pictures or self.decode_jpegs is None:
            return []
        encoded = [torch.frombuffer(picture.data, dtype=torch.uint8) for picture in pictures]
        try:
            return self.decode_jpegs(encoded)
        except RuntimeError as error:
            if is_fatal(error):
                raise
            return None

    def _finished(self, pixels: torch.Tensor, header: Header) -> torch.Tensor:
        if self.color == "bgr":
            pixels = pixels.flip(0)
        if self.exif and header.orientation > 1:
            pixels = TURNS[header.orientation](pixels)
        return pixels if pixels.is_contiguous() else pixels.contiguous()

    def _decode_on_cpu(self, picture: Encoded) -> torch.Tensor:
        cv2, kind = self.opencv, picture.header.kind
        flags = cv2.IMREAD_COLOR if self.exif else cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION
        try:
            pixels = cv2.imdecode(np.frombuffer(picture.data, np.uint8), flags)
        except cv2.error as error:
            raise damaged(kind, "its pixels cannot be decoded") from error
        if pixels is None:
            raise damaged(kind, "its pixels cannot be decoded")
        if self.color == "rgb":
            pixels = cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB)
        planes = torch.from_numpy(pixels).permute(2, 0, 1)
        return planes.contiguous() if self.target.type == "cpu" else to_gpu(planes, self.target)


def load_opencv() -> Any:
    """Return the module `cv2`. BuildError where OpenCV is not installed."""
    try:
        import cv2
    except ImportError as error:
        raise BuildError(
            f"`DecodeTensor` decodes on the CPU with OpenCV, which cannot be loaded: {error}",
            code="decoder-missing",
            help="pip install hami-core[image]",
        ) from error
    # A damaged picture is a typed error of its item here; OpenCV's own lines on stderr add nothing to it.
    if "OPENCV_LOG_LEVEL" not in os.environ:
        getattr(cv2.utils, "logging", cv2).setLogLevel(0)
    return cv2


def load_nvjpeg(device: torch.device, opencv: Any) -> Callable[[list[torch.Tensor]], list[torch.Tensor]]:
    """Return a function that decodes JPEGs on a GPU to RGB 3xHxW, after a first picture has gone through it.

    Raises BuildError where torchvision is missing, or was built without nvJPEG.
    """

    def decode(encoded: list[torch.Tensor]) -> list[torch.Tensor]:
        return list(io.decode_jpeg(encoded, mode=io.ImageReadMode.RGB, device=device))

    try:
        io: Any = import_module("torchvision.io")
        _, first = opencv.imencode(".jpg", np.zeros((16, 16, 3), np.uint8))
        decode([torch.from_numpy(first.reshape(-1).copy())])
    except (ImportError, OSError, AttributeError, RuntimeError) as error:  # the last three: built for the CPU
        raise BuildError(
            f"`DecodeTensor` decodes on a GPU through torchvision, which is not able to: {error}",
            code="decoder-missing",
            help="pip install hami-core[torchvision], built for the CUDA of your torch, or set `device=cpu`",
        ) from error
    return decode
