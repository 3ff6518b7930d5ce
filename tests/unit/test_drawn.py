"""The checks of pictures in drawn.py can fail."""

from __future__ import annotations

from typing import Any

import drawn
import pytest
from drawn import Line, Picture, Rect


def spoilt(**more: Any) -> list[str]:
    """Return what is wrong with a picture of two boxes and something more."""
    boxes = {"a": Rect(10, 10, 50, 40), "b": Rect(100, 10, 50, 40)}
    return drawn.faults(Picture(Rect(0, 0, 300, 200), **{"boxes": boxes, **more}))


def test_a_picture_of_two_boxes_and_an_edge_is_right() -> None:
    assert spoilt(lines=[Line("edge", [(60, 30), (80, 30), (100, 30)])]) == []


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"labels": [Rect(55, 20, 20, 10)]}, "overlaps"),
        ({"ends": [Rect(250, 190, 40, 20)]}, "outside"),
        ({"lines": [Line("edge", [(0, 30), (35, 30), (200, 30)])]}, "passes through"),
        ({"lines": [Line("edge", [(60, 30), (125, 30), (100, 30)])]}, "passes through"),
        (
            {"labels": [Rect(70, 20, 20, 20)], "lines": [Line("edge", [(60, 30), (80, 25), (100, 30)])]},
            "the label",
        ),
        ({"texts": [("long", Rect(40, 20, 40, 12))]}, "leaves its box"),
        ({"texts": [("one", Rect(12, 20, 30, 12)), ("two", Rect(20, 22, 30, 12))]}, "overlaps `two`"),
        ({"lines": [Line("edge", [(60, 30), (60, 400)])]}, "leaves the picture"),
    ],
)
def test_a_spoilt_picture_is_found(more: dict[str, Any], fault: str) -> None:
    assert any(fault in one for one in spoilt(**more))


def test_lines_that_cross_are_counted() -> None:
    steps = [i / 16 for i in range(17)]
    down = Line("edge", [(100 * t, 100 * t) for t in steps])
    up = Line("edge", [(100 * t, 101 - 100 * t) for t in steps])

    assert drawn.num_crossings(Picture(Rect(0, 0, 9, 9), lines=[down, up])) == 1
    assert drawn.num_crossings(Picture(Rect(0, 0, 9, 9), lines=[down, down])) == 0
