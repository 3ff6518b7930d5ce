"""detector.py without a model: sizes, boxes, their order, and the way back to the caller's picture."""

from __future__ import annotations

import runpy
import sys
from types import ModuleType
from typing import Any

import cv2
import numpy as np
import pytest
from example_files import EXAMPLES, backends_of

import hami
from hami.instances import instantiate


@pytest.fixture(scope="module")
def detector(models: None) -> ModuleType:
    """Return the module."""
    return backends_of("01_ocr", "detector.py")


def box_at(left: float, top: float, width: float = 80, height: float = 20) -> np.ndarray:
    """Return an upright box."""
    right, bottom = left + width, top + height
    return np.array([[left, top], [right, top], [right, bottom], [left, bottom]], np.float32)


@pytest.mark.parametrize(
    ("size", "expected"),
    [
        ((736, 736), (736, 736)),
        ((191, 384), (736, 1472)),
        ((100, 100), (736, 736)),
        ((1000, 1500), (992, 1504)),
    ],
)
def test_the_detector_sees_sides_in_steps_of_32(
    detector: ModuleType, size: tuple[int, int], expected: tuple[int, int]
) -> None:
    assert detector.detector_size(*size, 736) == expected


@pytest.mark.parametrize(
    "size", [(1, 1), (1, 4000), (4000, 1), (29, 100), (3000, 5000), (2001, 20), (60, 900)]
)
def test_any_size_becomes_a_page_of_bounded_sides(detector: ModuleType, size: tuple[int, int]) -> None:
    page = detector.make_page(np.zeros((*size, 3), np.uint8))

    height, width = page.picture.shape[:2]
    assert 30 <= height <= 2000 and 30 <= width <= 2000
    assert width / height <= 8


def test_a_flat_picture_gets_black_bands(detector: ModuleType) -> None:
    page = detector.make_page(np.full((60, 900, 3), 255, np.uint8))

    assert page.top == 82 and page.picture.shape == (224, 900, 3)
    assert (page.picture[:82] == 0).all() and (page.picture[82:142] == 255).all()
    assert page.to_source(box_at(10, 92)) == [[10, 10], [90, 10], [90, 30], [10, 30]]


def test_to_source_scales_back_and_stays_inside(detector: ModuleType) -> None:
    page = detector.make_page(np.zeros((3000, 4000, 3), np.uint8))

    height, width = page.picture.shape[:2]
    corners = page.to_source(box_at(-5, -5, width + 50, height + 50))
    assert corners[0] == [0, 0] and corners[2] == [4000, 3000]


def test_boxes_are_read_from_top_to_bottom_and_left_to_right(detector: ModuleType) -> None:
    first, second, third, fourth = box_at(10, 50), box_at(200, 43), box_at(400, 52), box_at(0, 90)

    ordered = detector.in_reading_order([fourth, third, second, first])

    assert [box[0].tolist() for box in ordered] == [box[0].tolist() for box in (first, second, third, fourth)]


def test_boxes_ten_pixels_apart_are_two_lines(detector: ModuleType) -> None:
    upper_right, lower_left = box_at(200, 40), box_at(10, 50)

    assert detector.in_reading_order([lower_left, upper_right])[0] is upper_right


def test_corners_come_clockwise_from_the_top_left(detector: ModuleType) -> None:
    wanted = [[10, 12], [90, 10], [92, 30], [11, 33]]
    for shift in range(4):
        shuffled = np.array(wanted[shift:] + wanted[:shift], np.float32)
        assert detector.corners_clockwise(shuffled).tolist() == wanted


def test_a_bright_rectangle_of_the_map_becomes_one_grown_box(detector: ModuleType) -> None:
    probability = np.zeros((320, 640), np.float32)
    probability[100:120, 200:400] = 0.9

    (box,) = detector.find_boxes(probability, 160, 320, 0.3, 0.5, 1.6, 1000)

    grown_by = 20 * 200 * 1.6 / (2 * 220)  # area * ratio / perimeter, in the map's pixels
    assert np.allclose(box[0], [(200 - grown_by) / 2, (100 - grown_by) / 2], atol=1.5)
    assert np.allclose(box[2], [(400 + grown_by) / 2, (120 + grown_by) / 2], atol=1.5)


@pytest.mark.parametrize(
    ("height", "width", "value"),
    [(2, 2, 0.9), (20, 200, 0.29), (20, 200, 0.45)],
    ids=["tiny", "faint", "doubtful"],
)
def test_what_is_too_small_or_too_faint_is_no_box(
    detector: ModuleType, height: int, width: int, value: float
) -> None:
    probability = np.zeros((320, 640), np.float32)
    probability[100 : 100 + height, 200 : 200 + width] = value

    assert detector.find_boxes(probability, 320, 640, 0.3, 0.5, 1.6, 1000) == []


def test_max_boxes_bounds_the_work(detector: ModuleType) -> None:
    probability = np.zeros((640, 640), np.float32)
    for top in range(20, 600, 60):
        probability[top : top + 20, 50:300] = 0.9

    assert len(detector.find_boxes(probability, 640, 640, 0.3, 0.5, 1.6, 1000)) == 10
    assert len(detector.find_boxes(probability, 640, 640, 0.3, 0.5, 1.6, 4)) == 4


def test_a_tilted_line_is_laid_flat(detector: ModuleType) -> None:
    picture = np.zeros((200, 300, 3), np.uint8)
    box = np.array([[50, 60], [250, 100], [244, 130], [44, 90]], np.float32)
    cv2.fillPoly(picture, [box.astype(np.int32)], (255, 255, 255))

    line = detector.crop(picture, box)

    assert line.shape[:2] == (30, 203)
    assert line[3:-3, 3:-3].min() > 200


def test_a_column_of_text_is_turned_to_a_row(detector: ModuleType) -> None:
    picture = np.zeros((200, 100, 3), np.uint8)
    picture[:50] = 255

    line = detector.crop(picture, box_at(20, 20, 30, 150))

    assert line.shape[:2] == (30, 150)
    assert (line[:, :25] == 255).all() and (line[:, 35:] == 0).all()


def test_the_detector_input_is_the_picture_between_minus_one_and_one(detector: ModuleType) -> None:
    item: dict[str, Any] = {"data": np.full((736, 768, 3), (0, 255, 128), np.uint8)}
    instantiate(detector.DetectorInput, {}, {}).forward([item])

    assert item["result"].shape == (3, 736, 768) and item["result"].dtype == np.float32
    assert [float(plane[0, 0]) for plane in item["result"]] == pytest.approx([-1, 1, 128 / 255 * 2 - 1])


def test_an_empty_map_gives_no_lines_and_leaves_no_page_behind(detector: ModuleType) -> None:
    item: dict[str, Any] = {"data": np.full((736, 768, 3), 255, np.uint8)}
    instantiate(detector.DetectorInput, {}, {}).forward([item])
    item["data"] = np.zeros((1, 736, 768), np.float32)
    instantiate(detector.TextBoxes, {}, {}).forward([item])

    assert item["result"] == [] and "page" not in item


@pytest.mark.parametrize("package", ["pyclipper", "cv2"])
def test_without_a_package_the_error_names_the_extra(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(hami.ConfigError) as caught:
        runpy.run_path(str(EXAMPLES / "01_ocr" / "detector.py"))

    assert package in str(caught.value)
    assert caught.value.help == "pip install hami-core[ocr]"
