"""Picture headers: kind, size, orientation and transparency, read from the first bytes without decoding.

`DecodeImage` and `DecodeTensor` use it to refuse a decompression bomb before a pixel is allocated. A 48 KB
PNG can hold 400 million of them. Kinds: PNG, JPEG, GIF, BMP, WebP, TIFF (classic and big) and binary or plain
PNM.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from .errors import RequestError

TIFF_WIDTH, TIFF_HEIGHT, TIFF_ORIENTATION, TIFF_EXTRA_SAMPLES = 256, 257, 274, 338
# TIFF field type -> struct code; only these types can hold a size.
TIFF_INTEGERS = {1: "B", 3: "H", 4: "I", 16: "Q"}


class Header(NamedTuple):
    """What a picture's first bytes say: `width` and `height` in stored pixels, before EXIF turns them.

    `orientation` is the EXIF value 1 to 8 of JPEG, PNG and WebP; `num_channels` is that of a JPEG.
    """

    kind: str
    width: int
    height: int
    orientation: int = 1
    has_alpha: bool = False
    num_channels: int = 3


def read_header(data: bytes | memoryview) -> Header:
    """Read the header of an encoded picture.

    Raises RequestError `image-empty`, `image-unknown-format`, or `image-damaged` where the header is cut.
    """
    data = bytes(data) if not isinstance(data, bytes) else data
    if not data:
        raise RequestError("the picture has no bytes", code="image-empty", help="send the encoded picture")
    for signature, kind, read in READERS:
        if data.startswith(signature) and (kind != "WebP" or data[8:12] == b"WEBP"):
            try:
                header = read(data)
            except (struct.error, IndexError) as error:
                raise damaged(kind, "its header is cut") from error
            if header.width < 1 or header.height < 1:
                raise damaged(kind, f"its size is {header.width} x {header.height}")
            return header
    raise RequestError(
        f"the data is no picture of a known kind; it starts with `{data[:16]!r}`",
        code="image-unknown-format",
        help="send PNG, JPEG, GIF, BMP, WebP, TIFF or PNM",
    )


def encoded_bytes(data: Any) -> bytes:
    """Return the encoded picture that `data` holds, or read it where `data` is a `pathlib.Path`.

    Text is refused: a request that comes from outside must not choose a file of this machine.
    """
    if isinstance(data, bytes):
        return data
    if isinstance(data, Path):
        return data.read_bytes()
    is_array = str(getattr(data, "dtype", "")) == "uint8" and hasattr(data, "__array_interface__")
    if isinstance(data, (bytearray, memoryview)) or is_array:
        if is_array and data.ndim != 1:
            raise RequestError(
                f"expected encoded bytes, got an array of shape `{data.shape}`: it looks decoded already",
                code="image-expected",
                help="leave the decoder out for arrays of pixels",
            )
        return bytes(data)
    raise RequestError(
        f"expected the bytes of an encoded picture, got `{type(data).__name__}`",
        code="image-expected",
        help="pass `pathlib.Path(...)` to read a file, or bytes",
    )


def check_pixels(header: Header, max_pixels: int) -> None:
    """Raise RequestError `image-too-large` for a picture of more pixels."""
    if header.width * header.height > max_pixels:
        raise RequestError(
            f"the {header.kind} picture has {header.width} x {header.height} pixels, "
            f"more than `max_pixels` = {max_pixels}",
            code="image-too-large",
            help="send a smaller picture, or raise `max_pixels`",
        )


def damaged(kind: str, why: str) -> RequestError:
    """Return the error of a picture that cannot be decoded."""
    return RequestError(
        f"the {kind} picture is damaged: {why}", code="image-damaged", help="send it again, whole"
    )


def read_png(data: bytes) -> Header:
    """Read the IHDR chunk, and what the other chunks tell of transparency and orientation.

    Every chunk must end inside the data: OpenCV first allocates what a chunk says it holds, up to 4 GB.
    """
    if data[12:16] != b"IHDR":
        raise damaged("PNG", "it does not start with an `IHDR` chunk")
    width, height, _, color_type = struct.unpack_from(">IIBB", data, 16)
    orientation, has_alpha, position, name = 1, bool(color_type & 4), 8, b""
    while name != b"IEND" and position + 8 <= len(data):
        size, name = struct.unpack_from(">I4s", data, position)
        if position + 12 + size > len(data):
            raise damaged("PNG", f"its `{name!r}` chunk ends after the data")
        if name == b"tRNS":
            has_alpha = True
        elif name == b"eXIf":
            orientation = read_orientation(data[position + 8 : position + 8 + size])
        position += size + 12
    return Header("PNG", width, height, orientation, has_alpha)


def read_jpeg(data: bytes) -> Header:
    """Walk the segments to the first start-of-frame; the orientation stands in one before it."""
    position, orientation = 2, 1
    while True:
        while data[position] == 0xFF:  # any number of fill bytes may stand before a marker
            position += 1
        marker = data[position]
        size = data[position + 1] << 8 | data[position + 2]
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width, num_channels = struct.unpack_from(">HHB", data, position + 4)
            return Header("JPEG", width, height, orientation, num_channels=num_channels)
        if marker == 0xE1 and data[position + 3 : position + 9] == b"Exif\0\0":
            orientation = read_orientation(data[position + 3 : position + 1 + size])
        position += 1 + size
        if data[position] != 0xFF or size < 2:
            raise damaged("JPEG", "a segment does not end where it says")


def read_gif(data: bytes) -> Header:
    """Read the logical screen."""
    width, height = struct.unpack_from("<HH", data, 6)
    return Header("GIF", width, height, has_alpha=True)


def read_bmp(data: bytes) -> Header:
    """Read the core or the info header; a negative height means top-down rows."""
    if struct.unpack_from("<I", data, 14)[0] == 12:
        width, height = struct.unpack_from("<HH", data, 18)
    else:
        width, height = struct.unpack_from("<ii", data, 18)
    return Header("BMP", width, abs(height))


def read_webp(data: bytes) -> Header:
    """Read the simple, the lossless or the extended layout."""
    layout = data[12:16]
    if layout == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return Header("WebP", width & 0x3FFF, height & 0x3FFF)
    if layout == b"VP8L":
        bits = struct.unpack_from("<I", data, 21)[0]
        return Header("WebP", (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1, has_alpha=bool(bits >> 28 & 1))
    if layout != b"VP8X":
        raise damaged("WebP", f"its first chunk is `{layout!r}`")
    if len(data) < 30:
        raise IndexError("cut")
    flags = data[20]
    width = int.from_bytes(data[24:27], "little") + 1
    height = int.from_bytes(data[27:30], "little") + 1
    orientation = read_orientation(webp_chunk(data, b"EXIF")) if flags & 8 else 1
    return Header("WebP", width, height, orientation, has_alpha=bool(flags & 16))


def webp_chunk(data: bytes, wanted: bytes) -> bytes:
    """Return the body of the first chunk of that name, or nothing."""
    position = 12
    while position + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, position)
        if name == wanted:
            return data[position + 8 : position + 8 + size]
        position += 8 + size + size % 2
    return b""


def read_tiff(data: bytes) -> Header:
    """Read the first directory; OpenCV turns a TIFF itself, so its orientation is not told."""
    tags = dict(tiff_tags(data))
    if TIFF_WIDTH not in tags or TIFF_HEIGHT not in tags:
        raise damaged("TIFF", "its first directory has no size")
    return Header("TIFF", tags[TIFF_WIDTH], tags[TIFF_HEIGHT], has_alpha=TIFF_EXTRA_SAMPLES in tags)


def tiff_tags(data: bytes) -> Iterator[tuple[int, int]]:
    """Yield tag and first value of the integer fields of the first directory."""
    order = "<" if data[:2] == b"II" else ">"
    is_big = struct.unpack_from(order + "H", data, 2)[0] == 43
    start = struct.unpack_from(order + ("Q" if is_big else "I"), data, 8 if is_big else 4)[0]
    count_code, entry_size = ("Q", 20) if is_big else ("H", 12)
    count = struct.unpack_from(order + count_code, data, start)[0]
    first = start + struct.calcsize(count_code)
    inline = 8 if is_big else 4
    for position in range(first, first + min(count, 4096) * entry_size, entry_size):
        tag, code, num_values = struct.unpack_from(order + "HH" + ("Q" if is_big else "I"), data, position)
        value_code = TIFF_INTEGERS.get(code)
        if value_code is None or num_values * struct.calcsize(value_code) > inline:
            continue
        yield tag, struct.unpack_from(order + value_code, data, position + entry_size - inline)[0]


def read_orientation(exif: bytes) -> int:
    """Return the EXIF orientation 1 to 8; 1 where the block says nothing sensible."""
    body = exif[6:] if exif.startswith(b"Exif\0\0") else exif
    if body[:2] not in (b"II", b"MM"):
        return 1
    try:
        value = dict(tiff_tags(body)).get(TIFF_ORIENTATION, 1)
    except struct.error:
        return 1
    return value if 1 <= value <= 8 else 1


def read_pnm(data: bytes) -> Header:
    """Read the two numbers after the magic, with comments skipped."""
    numbers: list[int] = []
    for line in data[2:4096].split(b"\n"):
        for word in line.split(b"#")[0].split():
            if not word.isdigit():
                raise damaged("PNM", "its size is not a number")
            numbers.append(int(word))
            if len(numbers) == 2:
                return Header("PNM", numbers[0], numbers[1])
    raise damaged("PNM", "its header is cut")


READERS = (
    (b"\x89PNG\r\n\x1a\n", "PNG", read_png),
    (b"\xff\xd8\xff", "JPEG", read_jpeg),
    (b"GIF87a", "GIF", read_gif),
    (b"GIF89a", "GIF", read_gif),
    (b"BM", "BMP", read_bmp),
    (b"RIFF", "WebP", read_webp),
    (b"II*\0", "TIFF", read_tiff),
    (b"MM\0*", "TIFF", read_tiff),
    (b"II+\0", "TIFF", read_tiff),
    (b"MM\0+", "TIFF", read_tiff),
    *((b"P%d" % digit, "PNM", read_pnm) for digit in range(1, 7)),
)
