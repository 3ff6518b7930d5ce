"""Example 01 end to end: the same text as the package that the models come from, alone and under load."""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from example_files import EXAMPLES, module_at
from PIL import Image

import hami

PIPELINE = EXAMPLES / "01_ocr" / "pipeline.toml"
pages = module_at("pages.py")

PHOTOGRAPHED = [
    "Region-based segmentation",
    "Let us first determine markers of the coins and the",
    "background.These markers are pixels that we can label",
    "unambiguously as either object or background.Here,",
    "histogram of grey values:",
]
DRAWN = [
    [
        "Reading text from pictures",
        "A pipeline is a file of nodes",
        "Sum of all items: 1,284.50",
        "Page 3 of 12",
    ],
    ["Every request is a plain dictionary", "Nothing here is upside down", "Order 4711 of 2024-05-17"],
]


@pytest.fixture(scope="module")
def pipe(models: None) -> Iterator[Any]:
    """Return the pipeline."""
    with hami.pipe(str(PIPELINE)) as made:
        yield made


@pytest.fixture(scope="module")
def peer() -> Any:
    """Return the package's own reader, one line at a time."""
    package = pytest.importorskip(
        "rapidocr_onnxruntime", reason="the package is not installed: PyPI has it for Python below 3.13"
    )
    return package.RapidOCR(rec_batch_num=1)


def texts(pipe: Any, picture: bytes) -> list[str]:
    """Return the lines of one picture."""
    return [line["text"] for line in pipe({"data": picture})["result"]]


def sample(name: str) -> bytes:
    """Return one of the pictures that are compared with the package."""
    made = {"photographed": pages.photographed_page, "drawn": pages.drawn_page, "blank": pages.blank_page}
    if name in made:
        return bytes(made[name]())
    if name.startswith("drawn-"):
        return bytes(pages.drawn_page(DRAWN[int(name[6:])], upside_down=0))
    drawn = Image.open(io.BytesIO(pages.drawn_page()))
    changed = {
        "on-its-side": lambda: drawn.rotate(90, expand=True),
        "flat": lambda: drawn.crop((0, 20, 860, 84)),
        "tilted": lambda: drawn.rotate(6, expand=True, fillcolor="white"),
        "large": lambda: drawn.resize((2580, 1200)),
        "tiny": lambda: drawn.crop((0, 20, 860, 84)).resize((280, 20)),
    }
    return bytes(pages.png_bytes(changed[name]()))


SAMPLES = [
    "photographed",
    "drawn",
    "drawn-0",
    "drawn-1",
    "on-its-side",
    "flat",
    "tilted",
    "large",
    "tiny",
    "blank",
]


@pytest.mark.parametrize("name", SAMPLES)
def test_text_boxes_order_and_scores_are_those_of_the_package(pipe: Any, peer: Any, name: str) -> None:
    picture = sample(name)

    lines = pipe({"data": picture})["result"]

    expected = peer(picture)[0] or []
    assert [line["text"] for line in lines] == [text for _, text, _ in expected]
    assert [line["box"] for line in lines] == [box for box, _, _ in expected]
    assert np.allclose([line["score"] for line in lines], [score for _, _, score in expected], atol=1e-3)


def test_the_photographed_page_is_read(pipe: Any) -> None:
    assert texts(pipe, pages.photographed_page()) == PHOTOGRAPHED


def test_a_line_upside_down_is_read_like_the_others(pipe: Any) -> None:
    assert texts(pipe, pages.drawn_page()) == pages.LINES


def test_the_answer_is_a_list_of_plain_values(pipe: Any) -> None:
    line = pipe({"data": pages.photographed_page()})["result"][0]

    assert {key: type(value) for key, value in line.items()} == {"text": str, "box": list, "score": float}
    assert [len(corner) for corner in line["box"]] == [2, 2, 2, 2]
    assert all(type(number) is float for corner in line["box"] for number in corner)


def test_the_caller_gets_result_and_keeps_data(pipe: Any) -> None:
    request = {"data": pages.drawn_page(), "mine": 7}

    answer = pipe(request)

    assert answer is request and answer["mine"] == 7
    assert isinstance(answer["data"], bytes)
    assert not {"page", "line", "box"} & set(answer)


def test_a_page_without_text_gives_an_empty_list(pipe: Any) -> None:
    assert pipe({"data": pages.blank_page()})["result"] == []


@pytest.mark.parametrize("size", [(1, 1), (4000, 1), (1, 4000), (31, 29)])
def test_extreme_pictures_give_an_empty_list(pipe: Any, size: tuple[int, int]) -> None:
    assert pipe({"data": pages.png_bytes(Image.new("RGB", size, "white"))})["result"] == []


def test_black_text_on_a_transparent_page_is_read(pipe: Any) -> None:
    drawn = Image.open(io.BytesIO(pages.drawn_page())).convert("L")
    transparent = Image.new("RGBA", drawn.size, (0, 0, 0, 0))
    transparent.putalpha(drawn.point(lambda value: 255 - value))

    assert texts(pipe, pages.png_bytes(transparent)) == pages.LINES


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (pages.photographed_page()[:3000], "image-damaged"),
        (b"<html>not found</html>", "image-unknown-format"),
        (b"", "image-empty"),
        ("page.png", "image-expected"),
    ],
    ids=["cut", "html", "empty", "name"],
)
def test_what_is_no_picture_is_an_error_of_its_own(pipe: Any, data: Any, code: str) -> None:
    with pytest.raises(hami.RequestError) as caught:
        pipe({"data": data})

    assert caught.value.code == code


def test_a_damaged_picture_does_not_touch_its_neighbours(pipe: Any) -> None:
    good = [{"data": pages.drawn_page()}, {"data": pages.photographed_page()}]
    bad = {"data": pages.drawn_page()[:2000]}

    with pytest.raises(hami.RequestError, match="damaged"):
        pipe([good[0], bad, good[1]])

    assert [line["text"] for line in good[0]["result"]] == pages.LINES
    assert [line["text"] for line in good[1]["result"]] == PHOTOGRAPHED
    assert "result" not in bad


def test_answers_are_the_same_at_any_load(pipe: Any) -> None:
    pictures = [sample(name) for name in ("photographed", "drawn", "drawn-0", "drawn-1", "blank", "flat")]
    alone = [pipe({"data": picture})["result"] for picture in pictures]

    with ThreadPoolExecutor(8) as callers:
        together = list(callers.map(lambda picture: pipe({"data": picture})["result"], pictures * 3))

    assert together == alone * 3


def test_the_pipeline_loads_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    with hami.pipe(PIPELINE) as pipe:
        assert texts(pipe, pages.drawn_page()) == pages.LINES
