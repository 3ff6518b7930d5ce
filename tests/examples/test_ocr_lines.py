"""orientation.py and recogniser.py without a model: what goes into the networks, how answers are read."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import numpy as np
import pytest
from example_files import EXAMPLES, backends_of

from hami.instances import instantiate

MODEL = str(EXAMPLES / "01_ocr" / "models" / "ch_PP-OCRv4_rec_infer.onnx")
LETTERS = ["", "a", "b", "c", " "]


@pytest.fixture(scope="module")
def orientation(models: None) -> ModuleType:
    """Return the module."""
    return backends_of("01_ocr", "orientation.py")


@pytest.fixture(scope="module")
def recogniser(models: None) -> ModuleType:
    """Return the module."""
    return backends_of("01_ocr", "recogniser.py")


def line_of(height: int, width: int) -> dict[str, Any]:
    """Return a line whose left half is white."""
    image = np.zeros((height, width, 3), np.uint8)
    image[:, : width // 2] = 255
    return {"image": image, "box": [[0, 0], [width, 0], [width, height], [0, height]]}


def steps(*best: int, probability: float = 0.8) -> np.ndarray:
    """Return the probabilities of a network that is this sure of these classes, one for each step."""
    result = np.full((len(best), len(LETTERS)), (1 - probability) / (len(LETTERS) - 1), np.float32)
    result[np.arange(len(best)), list(best)] = probability
    return result


@pytest.mark.parametrize(
    ("height", "width", "filled"), [(20, 60, 144), (20, 400, 192), (48, 10, 10), (48, 192, 192)]
)
def test_orientation_input_keeps_proportions_up_to_its_width(
    orientation: ModuleType, height: int, width: int, filled: int
) -> None:
    item: dict[str, Any] = {"data": {"image": np.full((height, width, 3), 255, np.uint8), "box": []}}
    instantiate(orientation.OrientationInput, {}, {}).forward([item])

    assert item["result"].shape == (3, 48, 192)
    assert (item["result"][:, :, :filled] == 1).all() and (item["result"][:, :, filled:] == 0).all()


@pytest.mark.parametrize(
    ("probabilities", "is_turned"),
    [([0.05, 0.95], True), ([0.2, 0.8], False), ([0.1, 0.9], False), ([1, 0], False)],
)
def test_a_line_is_turned_only_where_the_network_is_sure(
    orientation: ModuleType, probabilities: list[float], is_turned: bool
) -> None:
    line = line_of(20, 100)
    item: dict[str, Any] = {"data": np.float32(probabilities), "line": line}

    instantiate(orientation.TurnUpright, {}, {}).forward([item])

    assert (item["result"]["image"][0, 0, 0] == 0) == is_turned
    assert item["result"]["box"] == line["box"] and "line" not in item
    assert line["image"][0, 0, 0] == 255  # the caller's crop is not written to


@pytest.mark.parametrize(
    ("size", "bucket", "columns", "filled"),
    [
        ((48, 100), 1, 320, 100),
        ((48, 320), 1, 320, 320),
        ((24, 200), 1, 400, 400),
        ((24, 200), 32, 416, 400),
        ((31, 400), 1, 619, 619),
        ((31, 400), 32, 640, 619),
        ((48, 416), 32, 416, 416),
        ((31, 100), 1, 320, 155),
    ],
)
def test_recogniser_input_is_as_wide_as_the_line_and_never_narrower_than_320(
    recogniser: ModuleType, size: tuple[int, int], bucket: int, columns: int, filled: int
) -> None:
    item: dict[str, Any] = {"data": {"image": np.full((*size, 3), 255, np.uint8), "box": []}}
    instantiate(recogniser.RecogniserInput, {"bucket": bucket}, {}).forward([item])

    assert item["result"].shape == (3, 48, columns)
    assert (item["result"][:, :, :filled] == 1).all() and (item["result"][:, :, filled:] == 0).all()


@pytest.mark.parametrize(
    ("best", "text"),
    [
        ((1, 1, 0, 1, 2), "aab"),
        ((0, 0, 0), ""),
        ((3, 4, 3), "c c"),
        ((2, 2, 2, 2), "b"),
        ((0, 1, 0, 0, 1, 0), "aa"),
    ],
)
def test_ctc_drops_repetitions_and_blanks(recogniser: ModuleType, best: tuple[int, ...], text: str) -> None:
    assert recogniser.ctc_text(steps(*best), LETTERS)[0] == text


def test_the_score_is_the_mean_over_the_kept_steps_only(recogniser: ModuleType) -> None:
    probabilities = np.concatenate(
        [steps(1, probability=0.9), steps(0, probability=0.3), steps(2, probability=0.7)]
    )

    assert recogniser.ctc_text(probabilities, LETTERS)[1] == pytest.approx(0.8)
    assert recogniser.ctc_text(steps(0, 0), LETTERS) == ("", 0.0)


def test_the_letters_come_out_of_the_model(recogniser: ModuleType) -> None:
    letters = recogniser.read_letters(MODEL)

    assert len(letters) == 6625
    assert letters[0] == "" and letters[-1] == " " and "A" in letters


def test_text_box_and_score_make_a_line(recogniser: ModuleType) -> None:
    letters = recogniser.read_letters(MODEL)
    probabilities = np.zeros((3, len(letters)), np.float32)
    for step, letter in enumerate("Tea"):
        probabilities[step, letters.index(letter)] = 1
    item: dict[str, Any] = {"data": probabilities, "box": [[1, 2]]}

    instantiate(recogniser.CtcText, {"model": MODEL}, {}).forward([item])

    assert item["result"] == {"text": "Tea", "box": [[1, 2]], "score": 1.0} and "box" not in item


def test_join_keeps_the_order_and_drops_doubtful_lines(recogniser: ModuleType) -> None:
    lines = [{"text": str(number), "score": score} for number, score in enumerate((0.9, 0.49, 0.5))]
    item: dict[str, Any] = {"data": lines}

    instantiate(recogniser.JoinLines, {}, {}).forward([item])

    assert [line["text"] for line in item["result"]] == ["0", "2"]


def test_join_of_nothing_is_an_empty_list(recogniser: ModuleType) -> None:
    item: dict[str, Any] = {"data": []}
    instantiate(recogniser.JoinLines, {}, {}).forward([item])

    assert item["result"] == []
