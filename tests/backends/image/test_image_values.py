"""`CvtColor`, `Normalize`, `ToTensor`, `EncodeImage`: the values of pixels."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from image_samples import HEIGHT, WIDTH, quarters, result_of, run, smooth

from hami.backends.image import CvtColor, DecodeImage, EncodeImage, Normalize, ToTensor
from hami.backends.image.color import CONVERSIONS
from hami.errors import RequestError

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]


def plain_normalize(picture: np.ndarray, mean: Any = 0.0, std: Any = 1.0) -> np.ndarray:
    """Return the formula in double precision."""
    return (picture.astype(np.float64) / 255 - mean) / std


def test_to_tensor_gives_channels_first_floats_between_0_and_1() -> None:
    result = result_of(ToTensor, smooth())

    assert result.shape == (3, HEIGHT, WIDTH) and result.dtype == np.float32
    assert result.flags.c_contiguous
    assert np.array_equal(result, (smooth().transpose(2, 0, 1) / 255.0).astype(np.float32))


@pytest.mark.parametrize(
    ("mean", "std"), [(0.5, 0.5), (MEAN, STD), ("0.485,0.456,0.406", "0.229, 0.224, 0.225")]
)
def test_mean_and_std_are_applied_with_one_rounding(mean: Any, std: Any) -> None:
    as_numbers = ([float(x) for x in v.split(",")] if isinstance(v, str) else v for v in (mean, std))
    expected = plain_normalize(smooth(), *as_numbers)

    normalized = result_of(Normalize, smooth(), mean=mean, std=std)
    tensor = result_of(ToTensor, smooth(), mean=mean, std=std)

    assert normalized.dtype == np.float32 and normalized.shape == smooth().shape
    assert np.allclose(normalized, expected, rtol=1e-6, atol=1e-6)
    assert np.array_equal(tensor, normalized.transpose(2, 0, 1))


def test_normalize_then_to_tensor_does_not_scale_twice() -> None:
    normalized = result_of(Normalize, smooth(), mean=MEAN, std=STD)

    assert np.array_equal(result_of(ToTensor, normalized), normalized.transpose(2, 0, 1))


@pytest.mark.parametrize("shape", [(5, 7), (5, 7, 1)])
def test_gray_pictures_become_one_plane(shape: tuple[int, ...]) -> None:
    picture = np.full(shape, 51, np.uint8)

    assert result_of(ToTensor, picture).shape == (1, 5, 7)
    assert np.allclose(result_of(ToTensor, picture), 0.2)
    assert result_of(Normalize, picture).shape == shape


def test_sixteen_bits_are_divided_by_their_own_largest_value() -> None:
    picture = np.full((4, 4, 3), 65535, np.uint16)

    assert (result_of(ToTensor, picture) == 1).all()
    assert (result_of(Normalize, picture) == 1).all()


def test_one_pixel_and_four_channels_are_accepted() -> None:
    assert result_of(ToTensor, np.full((1, 1, 3), 255, np.uint8)).tolist() == [[[1.0]]] * 3
    assert result_of(ToTensor, np.zeros((2, 3, 4), np.uint8), mean=[1, 2, 3, 4])[:, 0, 0].tolist() == [
        -1,
        -2,
        -3,
        -4,
    ]


def test_a_mean_for_other_channels_is_the_error_of_its_item() -> None:
    for backend in (Normalize, ToTensor):
        for dtype in (np.uint8, np.uint16, np.float32):
            bad, good = run(backend, np.zeros((4, 4), dtype), smooth(), mean=MEAN, std=STD)
            assert bad["error"].code == "image-expected" and "3 channels" in bad["error"].message
            assert "result" in good


@pytest.mark.parametrize(
    ("params", "match"),
    [
        ({"mean": "a,b,c"}, "`mean`"),
        ({"std": [1, 2]}, "`std` must have 1, 3 or 4"),
        ({"std": 0}, "zero"),
        ({"mean": [1, 2, 3], "std": [1, 2, 3, 4]}, "3 numbers and `std` 4"),
    ],
)
def test_wrong_numbers_are_refused_when_the_backend_is_made(params: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match):
        run(ToTensor, smooth(), **params)


@pytest.mark.parametrize("code", CONVERSIONS)
def test_every_conversion_equals_opencv(code: str) -> None:
    opencv_code, channels = CONVERSIONS[code]
    picture = np.dstack([smooth(), smooth()[:, :, :1]])[:, :, :channels]
    picture = np.ascontiguousarray(picture[:, :, 0] if channels == 1 else picture)

    assert np.array_equal(result_of(CvtColor, picture, code=code), cv2.cvtColor(picture, opencv_code))


def test_a_conversion_refuses_other_channels_with_both_numbers() -> None:
    bad, good = run(CvtColor, smooth()[:, :, 0], smooth(), code="bgr2rgb")

    assert "3 channels, got 1" in bad["error"].message
    assert np.array_equal(good["result"], smooth()[:, :, ::-1])


@pytest.mark.parametrize("kind", ["png", "bmp"])
@pytest.mark.parametrize("color", ["bgr", "rgb"])
def test_a_lossless_kind_comes_back_the_same(kind: str, color: str) -> None:
    data = result_of(EncodeImage, quarters(), format=kind, color=color)

    assert isinstance(data, bytes)
    assert np.array_equal(result_of(DecodeImage, data, color=color), quarters())


@pytest.mark.parametrize("kind", ["jpg", "webp"])
def test_quality_changes_the_size_of_a_lossy_kind(kind: str) -> None:
    small, large = (
        len(result_of(EncodeImage, smooth(), format=kind, quality=quality)) for quality in (10, 95)
    )

    assert small < large


def test_transparency_and_sixteen_bits_survive_a_png() -> None:
    four = np.dstack([smooth(), smooth()[:, :, 0]]).astype(np.uint16) * 257
    data = result_of(EncodeImage, four, format="png", color="rgb")

    read = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)

    assert np.array_equal(cv2.cvtColor(read, cv2.COLOR_BGRA2RGBA), four)


@pytest.mark.parametrize("picture", [smooth().astype(np.float32), smooth().astype(np.uint16), b"bytes"])
def test_what_a_jpg_cannot_hold_is_the_error_of_its_item(picture: Any) -> None:
    bad, good = run(EncodeImage, picture, smooth())

    assert isinstance(bad["error"], RequestError)
    assert good["result"].startswith(b"\xff\xd8")


def test_a_picture_too_large_for_the_kind_is_the_error_of_its_item() -> None:
    bad, good = run(EncodeImage, np.zeros((1, 70_000, 3), np.uint8), smooth())

    assert bad["error"].code == "image-unsuitable"
    assert "result" in good
