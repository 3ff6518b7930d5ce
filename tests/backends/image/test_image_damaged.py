"""`DecodeImage` on what is no whole picture: one typed error of that item, and its batch mates go on."""

from __future__ import annotations

import resource
import struct

import numpy as np
import pytest
from image_samples import (
    HEIGHT,
    WIDTH,
    bomb_png,
    jpeg_with_height,
    png_of,
    result_of,
    run,
    saved,
    smooth,
)

from hami.backends.image import DecodeImage, read_header
from hami.errors import RequestError

FILES = {
    "JPEG": saved(smooth(), "JPEG"),
    "JPEG-progressive": saved(smooth(), "JPEG", progressive=True),
    "PNG": saved(smooth(), "PNG"),
    "GIF": saved(smooth(), "GIF", "P"),
    "BMP": saved(smooth(), "BMP"),
    "WebP": saved(smooth(), "WEBP"),
    "WebP-lossless": saved(smooth(), "WEBP", lossless=True),
    "TIFF": saved(smooth(), "TIFF"),
}
HTML = b"<!DOCTYPE html><html><head><title>404 Not Found</title></head><body>no page.jpg here</body></html>"


def error_of(data: object, **params: object) -> RequestError:
    """Return the error that decoding `data` gives."""
    with pytest.raises(RequestError) as caught:
        result_of(DecodeImage, data, **params)
    return caught.value


@pytest.mark.parametrize("fraction", [0.3, 0.5, 0.75, 0.98])
@pytest.mark.parametrize("name", FILES)
def test_a_picture_cut_in_its_pixels_is_damaged(name: str, fraction: float) -> None:
    whole = FILES[name]

    error = error_of(whole[: int(len(whole) * fraction)])

    assert error.code == "image-damaged"
    assert name.split("-")[0] in error.message


@pytest.mark.parametrize("size", [12, 18, 22])
@pytest.mark.parametrize("name", FILES)
def test_a_picture_cut_in_its_header_is_damaged(name: str, size: int) -> None:
    assert error_of(FILES[name][:size]).code == "image-damaged"


@pytest.mark.parametrize("name", FILES)
def test_every_length_of_a_cut_picture_is_an_error_of_ours_or_a_picture(name: str) -> None:
    whole = FILES[name]
    for size in range(0, len(whole), max(1, len(whole) // 60)):
        item = run(DecodeImage, whole[:size])[0]
        assert isinstance(item.get("error"), RequestError) or item["result"].shape == (HEIGHT, WIDTH, 3)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "image-empty"),
        (np.random.default_rng(0).bytes(5000), "image-unknown-format"),
        (HTML, "image-unknown-format"),
        (b"\xff\xd8\xff", "image-damaged"),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "image-unknown-format"),
        (jpeg_with_height(0), "image-damaged"),
        (png_of(0, 10), "image-damaged"),
        (png_of(10, 0), "image-damaged"),
        (png_of(10, 10, b"no rows"), "image-damaged"),
        (b"P6 ten ten 255\n", "image-damaged"),
        (b"BM" + bytes(60), "image-damaged"),
    ],
    ids=[
        "no-bytes",
        "random",
        "html",
        "three-bytes",
        "riff-sound",
        "jpeg-zero-height",
        "png-zero-width",
        "png-zero-height",
        "png-few-rows",
        "pnm-words",
        "bmp-zeros",
    ],
)
def test_what_is_no_picture_gets_its_own_code(data: bytes, code: str) -> None:
    assert error_of(data).code == code


def test_a_bomb_is_refused_before_its_pixels_are_made() -> None:
    bomb = bomb_png()
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    error = error_of(bomb)

    assert error.code == "image-too-large"
    assert "20000 x 20000" in error.message and "64000000" in error.message
    assert len(bomb) < 200_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 50_000


def sized(name: str, width: int, height: int) -> bytes:
    """Return a picture of that kind whose header tells another size."""
    data = bytearray(FILES[name])
    if name.startswith("JPEG"):
        frame = data.index(b"\xff\xc2" if "progressive" in name else b"\xff\xc0")
        struct.pack_into(">HH", data, frame + 5, height, width)
    elif name == "GIF":
        struct.pack_into("<HH", data, 6, width, height)
    elif name == "BMP":
        struct.pack_into("<ii", data, 18, width, height)
    elif name == "WebP":
        struct.pack_into("<HH", data, data.index(b"\x9d\x01\x2a") + 3, width & 0x3FFF, height & 0x3FFF)
    else:
        struct.pack_into(">II", data, data.index(b"IHDR") + 4, width, height)
    return bytes(data)


@pytest.mark.parametrize("name", ["JPEG", "JPEG-progressive", "PNG", "GIF", "BMP", "WebP"])
def test_a_bomb_of_any_kind_is_refused(name: str) -> None:
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    error = error_of(sized(name, 16_000, 16_000))

    assert error.code == "image-too-large" and "16000" in error.message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 50_000


def test_a_chunk_that_ends_after_the_data_allocates_nothing() -> None:
    png = bytearray(FILES["PNG"])
    struct.pack_into(">I", png, png.index(b"IDAT") - 4, 0xF1002EB4)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    error = error_of(bytes(png))

    assert error.code == "image-damaged" and "IDAT" in error.message
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 50_000


def test_a_header_above_the_limit_of_opencv_itself_is_the_same_error() -> None:
    assert error_of(png_of(2_000_000, 2_000_000)).code == "image-too-large"
    assert error_of(png_of(70_000, 70_000), max_pixels=10**10).code == "image-damaged"


@pytest.mark.parametrize("name", FILES)
def test_max_pixels_is_exact_for_every_kind(name: str) -> None:
    assert result_of(DecodeImage, FILES[name], max_pixels=WIDTH * HEIGHT).shape == (HEIGHT, WIDTH, 3)
    assert error_of(FILES[name], max_pixels=WIDTH * HEIGHT - 1).code == "image-too-large"


def test_a_damaged_picture_fails_alone() -> None:
    good, cut = FILES["JPEG"], FILES["JPEG"][: len(FILES["JPEG"]) // 2]

    first, bad, last = run(DecodeImage, good, cut, good)

    assert bad["error"].code == "image-damaged" and "result" not in bad
    assert np.array_equal(first["result"], last["result"])


def test_the_same_instance_serves_on_after_damage() -> None:
    for _ in range(3):
        bad, good = run(DecodeImage, FILES["PNG"][:100], FILES["PNG"])
        assert "error" in bad and "result" in good


@pytest.mark.parametrize("name", FILES)
def test_flipped_bytes_never_give_another_error(name: str) -> None:
    generator = np.random.default_rng(1)
    for _ in range(60):
        data = bytearray(FILES[name])
        for position in generator.integers(0, len(data), 3):
            data[position] ^= int(generator.integers(1, 256))
        item = run(DecodeImage, bytes(data), max_pixels=1_000_000)[0]
        assert "result" in item or isinstance(item["error"], RequestError)


def test_headers_tell_the_size_of_big_and_big_endian_tiff() -> None:
    def entry(order: str, tag: int, value: int) -> bytes:
        return struct.pack(order + "HHIHH", tag, 3, 1, value, 0)

    big_endian = b"MM\0*" + struct.pack(">IH", 8, 2) + entry(">", 256, 30) + entry(">", 257, 20) + bytes(4)
    entries = b"".join(
        struct.pack("<HHQQ", tag, 4, 1, value) for tag, value in ((256, 70_000), (257, 80_000))
    )
    big = b"II+\0" + struct.pack("<HHQQ", 8, 0, 16, 2) + entries + bytes(8)

    assert (read_header(big_endian).width, read_header(big_endian).height) == (30, 20)
    assert (read_header(big).width, read_header(big).height) == (70_000, 80_000)


def test_a_top_down_bmp_has_a_positive_height() -> None:
    data = bytearray(FILES["BMP"])
    struct.pack_into("<i", data, 22, -HEIGHT)

    assert read_header(bytes(data)).height == HEIGHT
    assert result_of(DecodeImage, bytes(data)).shape == (HEIGHT, WIDTH, 3)


def test_a_jpeg_with_fill_bytes_before_its_frame_is_read() -> None:
    jpeg = FILES["JPEG"]
    frame = jpeg.index(b"\xff\xc0")

    assert read_header(jpeg[:frame] + b"\xff\xff\xff" + jpeg[frame:]).width == WIDTH
