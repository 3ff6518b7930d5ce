"""`DecodeImage` on whole pictures of every kind: pixels, turning, transparency, sources of bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from image_samples import (
    HEIGHT,
    WIDTH,
    encoded,
    quarters,
    result_of,
    run,
    saved,
    smooth,
    upright,
    with_orientation,
    without_adobe_marker,
)
from PIL import Image

from hami.backends.image import DecodeImage
from hami.errors import RequestError

GRAY = np.stack([np.asarray(Image.fromarray(smooth()).convert("L"))] * 3, 2)
SIXTEEN_BITS = (GRAY[:, :, 0].astype(np.uint16) << 8) + 37


def frames(kind: str, **options: object) -> bytes:
    """Return an animation whose first frame is the smooth picture."""
    others = [Image.fromarray(255 - smooth())] * 2
    return saved(smooth(), kind, save_all=True, append_images=others, duration=40, **options)


# name -> file, the RGB pixels that must come out, the levels that a lossy kind may differ by
KINDS = {
    "jpeg-444": (saved(smooth(), "JPEG", quality=95, subsampling=0), smooth(), 6),
    "jpeg-420": (saved(smooth(), "JPEG", quality=95, subsampling=2), smooth(), 12),
    "jpeg-progressive": (saved(smooth(), "JPEG", quality=95, progressive=True), smooth(), 12),
    "jpeg-gray": (saved(smooth(), "JPEG", "L", quality=95), GRAY, 4),
    "jpeg-cmyk-adobe": (saved(smooth(), "JPEG", "CMYK", quality=95), smooth(), 14),
    "jpeg-cmyk-no-marker": (without_adobe_marker(saved(smooth(), "JPEG", "CMYK", quality=95)), smooth(), 14),
    "png": (saved(smooth(), "PNG"), smooth(), 0),
    "png-gray": (saved(smooth(), "PNG", "L"), GRAY, 0),
    "png-gray-alpha": (saved(smooth(), "PNG", "LA"), GRAY, 0),
    "png-palette": (saved(quarters(), "PNG", "P"), quarters(), 0),
    "png-1-bit": (saved(np.where(GRAY > 127, 255, 0).astype(np.uint8), "PNG", "1"), None, 0),
    "png-rgba": (saved(smooth(), "PNG", "RGBA"), smooth(), 0),
    "png-16-bit": (encoded(SIXTEEN_BITS, ".png"), GRAY, 0),
    "apng": (frames("PNG"), smooth(), 0),
    "tiff": (saved(smooth(), "TIFF"), smooth(), 0),
    "tiff-lzw": (saved(smooth(), "TIFF", compression="tiff_lzw"), smooth(), 0),
    "tiff-16-bit": (encoded(SIXTEEN_BITS, ".tiff"), GRAY, 0),
    "webp": (saved(smooth(), "WEBP", quality=95), smooth(), 16),
    "webp-lossless": (saved(smooth(), "WEBP", lossless=True), smooth(), 0),
    "webp-animated": (frames("WEBP", lossless=True), smooth(), 0),
    "gif": (saved(quarters(), "GIF", "P"), quarters(), 0),
    "bmp": (saved(smooth(), "BMP"), smooth(), 0),
    "pnm": (saved(smooth(), "PPM"), smooth(), 0),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_gives_the_pixels_that_were_stored(name: str) -> None:
    data, expected, tolerance = KINDS[name]

    picture = result_of(DecodeImage, data, color="rgb")

    assert picture.shape == (HEIGHT, WIDTH, 3) and picture.dtype == np.uint8
    if expected is not None:
        difference = np.abs(picture.astype(int) - expected).max()
        assert difference <= tolerance


def test_one_bit_pictures_hold_black_and_white_only() -> None:
    picture = result_of(DecodeImage, KINDS["png-1-bit"][0])

    assert set(np.unique(picture)) == {0, 255}


def test_channels_are_bgr_by_default() -> None:
    picture = result_of(DecodeImage, saved(quarters(), "PNG"))

    assert picture[0, 0].tolist() == [0, 0, 255]


@pytest.mark.parametrize("orientation", range(2, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_every_exif_orientation_is_applied(kind: str, orientation: int) -> None:
    options = {"WEBP": {"lossless": True}, "JPEG": {"quality": 95, "subsampling": 0}}.get(kind, {})

    picture = result_of(DecodeImage, with_orientation(kind, orientation, **options), color="rgb")

    assert picture.shape == upright(orientation).shape
    # quarter centres: a lossy kind may differ at the edges
    rows, columns = picture.shape[0] // 4, picture.shape[1] // 4
    for y in (rows, 3 * rows):
        for x in (columns, 3 * columns):
            assert np.abs(picture[y, x].astype(int) - upright(orientation)[y, x]).max() <= 4


def test_exif_false_leaves_the_pixels_as_stored() -> None:
    picture = result_of(DecodeImage, with_orientation("PNG", 6), color="rgb", exif=False)

    assert np.array_equal(picture, quarters())


@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_a_transparent_picture_is_turned_like_an_opaque_one(kind: str, orientation: int) -> None:
    exif = Image.Exif()
    exif[274] = orientation
    options = {"lossless": True} if kind == "WEBP" else {}
    data = saved(quarters(), kind, "RGBA", exif=exif, **options)

    picture = result_of(DecodeImage, data, color="rgb", alpha="white")

    assert np.array_equal(picture, upright(orientation))


@pytest.mark.parametrize(("alpha", "expected"), [("drop", 0), ("white", 191), ("black", 0)])
@pytest.mark.parametrize("kind", ["PNG", "WEBP"])
def test_transparency_follows_the_alpha_parameter(kind: str, alpha: str, expected: int) -> None:
    quarter_opaque = np.dstack([np.zeros((8, 8, 3), np.uint8), np.full((8, 8), 64, np.uint8)])
    options = {"lossless": True, "exact": True} if kind == "WEBP" else {}

    picture = result_of(DecodeImage, saved(quarter_opaque, kind, **options), alpha=alpha)

    assert (picture == expected).all()


@pytest.mark.parametrize(
    "data",
    [
        saved(Image.new("LA", (8, 8), (0, 0)), "PNG"),
        saved(Image.new("P", (8, 8), 0), "PNG", transparency=0),
        saved(Image.new("P", (8, 8), 0), "GIF", transparency=0),
        encoded(np.zeros((8, 8, 4), np.uint16), ".png"),
        saved(Image.new("RGBA", (8, 8), (0, 0, 0, 0)), "TIFF"),
    ],
    ids=["gray-alpha", "palette", "gif", "16-bit", "tiff"],
)
def test_every_kind_of_transparency_shows_the_background(data: bytes) -> None:
    assert (result_of(DecodeImage, data, alpha="white") == 255).all()


def test_an_opaque_picture_is_the_same_under_every_alpha_policy() -> None:
    for data in (saved(smooth(), "PNG", "RGBA"), saved(smooth(), "BMP"), saved(quarters(), "GIF", "P")):
        dropped = result_of(DecodeImage, data)
        assert np.array_equal(result_of(DecodeImage, data, alpha="white"), dropped)


def test_the_name_of_a_file_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "page.jpg"
    path.write_bytes(saved(smooth(), "PNG"))

    assert np.array_equal(result_of(DecodeImage, path, color="rgb"), smooth())


def test_a_path_may_hold_any_letters(tmp_path: Path) -> None:
    path = tmp_path / "Straße 画像 é.png"
    path.write_bytes(saved(smooth(), "PNG"))

    assert result_of(DecodeImage, path).shape == (HEIGHT, WIDTH, 3)


@pytest.mark.parametrize("size", [(1, 1), (1, 4000), (4000, 1)])
@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF"])
def test_extreme_proportions_are_decoded(kind: str, size: tuple[int, int]) -> None:
    picture = result_of(DecodeImage, saved(Image.new("RGB", size, (9, 9, 9)), kind))

    assert picture.shape == (size[1], size[0], 3)


@pytest.mark.parametrize("wrap", [bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)])
def test_any_holder_of_bytes_is_accepted(wrap: type) -> None:
    data = saved(smooth(), "PNG")

    assert np.array_equal(result_of(DecodeImage, wrap(data)), result_of(DecodeImage, data))


@pytest.mark.parametrize("data", ["page.png", 7, None, smooth(), [1, 2]])
def test_other_inputs_are_refused_with_what_was_expected(data: object) -> None:
    with pytest.raises(RequestError, match="expected") as caught:
        result_of(DecodeImage, data)

    assert caught.value.code == "image-expected"


def test_a_missing_file_is_the_error_of_its_item(tmp_path: Path) -> None:
    missing, good = run(DecodeImage, tmp_path / "none.png", saved(smooth(), "PNG"))

    assert isinstance(missing["error"], FileNotFoundError)
    assert "result" in good
