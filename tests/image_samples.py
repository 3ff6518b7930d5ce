"""Pictures of every kind, made on the spot, and `run`, which hands them to one backend without a pipeline."""

from __future__ import annotations

import io
import struct
import zlib
from typing import Any

import cv2
import numpy as np
from PIL import Image

from hami.instances import instantiate

WIDTH, HEIGHT = 96, 64


def run(backend: type, *data: Any, **params: Any) -> list[dict[str, Any]]:
    """Give each of `data` as one item of a batch to a fresh instance, and return the items."""
    batch = [{"data": value} for value in data]
    instantiate(backend, params, {}).forward(batch)
    return batch


def result_of(backend: type, data: Any, **params: Any) -> Any:
    """Return the result of one item, or raise its error."""
    item = run(backend, data, **params)[0]
    if "error" in item:
        raise item["error"]
    return item["result"]


def quarters() -> np.ndarray:
    """Return an RGB picture whose quarters are red, green, blue and white: turning it shows."""
    picture = np.full((HEIGHT, WIDTH, 3), 255, np.uint8)
    picture[: HEIGHT // 2, : WIDTH // 2] = (255, 0, 0)
    picture[: HEIGHT // 2, WIDTH // 2 :] = (0, 255, 0)
    picture[HEIGHT // 2 :, : WIDTH // 2] = (0, 0, 255)
    return picture


def smooth() -> np.ndarray:
    """Return an RGB picture without sharp edges, which lossy kinds keep within a few levels."""
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    return np.stack([x * 2, y * 3, 255 - x - y], 2).astype(np.uint8)


def saved(picture: np.ndarray | Image.Image, kind: str, mode: str | None = None, **options: Any) -> bytes:
    """Return the picture as a file of that kind, converted to a Pillow mode first."""
    image = picture if isinstance(picture, Image.Image) else Image.fromarray(picture)
    buffer = io.BytesIO()
    (image.convert(mode) if mode else image).save(buffer, kind, **options)
    return buffer.getvalue()


def with_orientation(kind: str, orientation: int, **options: Any) -> bytes:
    """Return the quarters with an EXIF orientation."""
    exif = Image.Exif()
    exif[274] = orientation
    return saved(quarters(), kind, exif=exif, **options)


def upright(orientation: int) -> np.ndarray:
    """Return what a viewer shows of the quarters stored with that orientation (EXIF standard, tag 274)."""
    stored = quarters()
    shown = {
        1: stored,
        2: stored[:, ::-1],
        3: stored[::-1, ::-1],
        4: stored[::-1],
        5: stored.transpose(1, 0, 2),
        6: np.rot90(stored, -1),
        7: stored[::-1, ::-1].transpose(1, 0, 2),
        8: np.rot90(stored),
    }
    return shown[orientation]


def encoded(picture: np.ndarray, extension: str) -> bytes:
    """Return the picture as OpenCV writes it: for 16-bit samples, which Pillow does not write."""
    is_written, buffer = cv2.imencode(extension, picture)
    assert is_written
    return bytes(buffer)


def png_chunk(name: bytes, body: bytes) -> bytes:
    """Return one PNG chunk."""
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def png_of(width: int, height: int, rows: bytes = b"") -> bytes:
    """Return a 1-bit gray PNG that says it has that size."""
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    body = zlib.compress(rows, 9)
    return (
        b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", body) + png_chunk(b"IEND", b"")
    )


def bomb_png(width: int = 20_000, height: int = 20_000) -> bytes:
    """Return a whole, valid PNG of a few dozen KB that holds 400 million pixels."""
    row = bytes(1 + (width + 7) // 8)
    packer = zlib.compressobj(9)
    body = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + png_chunk(b"IDAT", body) + png_chunk(b"IEND", b"")
    )


def without_adobe_marker(jpeg: bytes) -> bytes:
    """Return a CMYK JPEG without the segment by which Adobe says that its inks are inverted."""
    start = jpeg.index(b"\xff\xee")
    size = struct.unpack_from(">H", jpeg, start + 2)[0]
    return jpeg[:start] + jpeg[start + 2 + size :]


def jpeg_with_height(height: int) -> bytes:
    """Return a JPEG whose frame header was given another height."""
    jpeg = bytearray(saved(smooth(), "JPEG"))
    frame = jpeg.index(b"\xff\xc0")
    struct.pack_into(">H", jpeg, frame + 5, height)
    return bytes(jpeg)
