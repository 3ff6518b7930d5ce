"""`ResizeImage`, `LetterBox`, `TopLeftResize`: sizes, where the pixels land, and the way back."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from image_samples import HEIGHT, WIDTH, quarters, result_of, run, smooth

from hami.backends.image import LetterBox, ResizeImage, TopLeftResize
from hami.errors import RequestError

ALL = [ResizeImage, LetterBox, TopLeftResize]


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize("shape", [(64, 96), (64, 96, 1), (64, 96, 3), (64, 96, 4)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32])
def test_shape_is_the_wanted_one_and_dtype_stays(backend: type, shape: tuple[int, ...], dtype: type) -> None:
    result = result_of(backend, np.ones(shape, dtype), height=20, width=50)

    assert result.shape == (20, 50, *shape[2:])
    assert result.dtype == dtype


def test_resize_equals_opencv() -> None:
    expected = cv2.resize(smooth(), (50, 20), interpolation=cv2.INTER_AREA)

    assert np.array_equal(
        result_of(ResizeImage, smooth(), height=20, width=50, interpolation="area"), expected
    )


@pytest.mark.parametrize("backend", ALL)
def test_a_picture_of_the_right_size_keeps_its_pixels(backend: type) -> None:
    assert np.array_equal(result_of(backend, smooth(), height=HEIGHT, width=WIDTH), smooth())


def test_letter_box_puts_the_picture_in_the_middle() -> None:
    result = result_of(LetterBox, np.full((10, 20, 3), 9, np.uint8), height=40, width=40, pad_value=114)

    assert (result[:10] == 114).all() and (result[30:] == 114).all()
    assert (result[10:30] == 9).all()


def test_top_left_resize_puts_the_picture_in_the_corner() -> None:
    result = result_of(TopLeftResize, np.full((20, 10), 9, np.uint8), height=40, width=40, pad_value=7)

    assert (result[:, :20] == 9).all()
    assert (result[:, 20:] == 7).all()


@pytest.mark.parametrize("backend", [LetterBox, TopLeftResize])
@pytest.mark.parametrize("size", [(64, 96), (301, 77), (1, 4000), (4000, 1), (1, 1)])
def test_to_source_leads_every_corner_back(backend: type, size: tuple[int, int]) -> None:
    item = run(backend, np.zeros((*size, 3), np.uint8) + 200, height=96, width=128)[0]
    ys, xs = np.nonzero(item["result"][:, :, 0])

    corners = np.array([[xs.min(), ys.min(), 1], [xs.max() + 1, ys.max() + 1, 1]]) @ item["to_source"].T

    assert np.allclose(corners, [[0, 0], [size[1], size[0]]])


@pytest.mark.parametrize("backend", [LetterBox, TopLeftResize])
def test_the_picture_fills_one_side_and_keeps_its_proportions(backend: type) -> None:
    result = result_of(backend, np.full((50, 100), 1, np.uint8), height=224, width=224)

    assert (result.sum(), (result.any(1)).sum(), (result.any(0)).sum()) == (112 * 224, 112, 224)


@pytest.mark.parametrize("backend", ALL)
def test_strided_and_read_only_pictures_are_accepted(backend: type) -> None:
    frozen = quarters()
    frozen.setflags(write=False)
    for view in (frozen, frozen[:, ::-1], frozen[::2, ::3], frozen.transpose(1, 0, 2), frozen[:, :, ::-1]):
        expected = result_of(backend, np.ascontiguousarray(view), height=30, width=30)
        assert np.array_equal(result_of(backend, view, height=30, width=30), expected)


@pytest.mark.parametrize("backend", ALL)
@pytest.mark.parametrize(
    "data",
    [
        b"bytes",
        "text",
        None,
        np.zeros((0, 3), np.uint8),
        np.zeros((4, 4, 2), np.uint8),
        np.zeros(4, np.uint8),
        np.zeros((4, 4), np.int64),
        np.zeros((1, 4, 4, 3), np.uint8),
    ],
    ids=["bytes", "text", "none", "empty", "two-channels", "rank-1", "int64", "rank-4"],
)
def test_what_is_no_picture_is_the_error_of_its_item(backend: type, data: Any) -> None:
    bad, good = run(backend, data, smooth(), height=8, width=8)

    assert isinstance(bad["error"], RequestError) and bad["error"].code == "image-expected"
    assert good["result"].shape == (8, 8, 3)


def test_pictures_of_different_sizes_share_a_batch() -> None:
    items = run(ResizeImage, smooth(), smooth()[:10], np.zeros((5, 5), np.uint8), height=16, width=16)

    assert [item["result"].shape for item in items] == [(16, 16, 3), (16, 16, 3), (16, 16)]
