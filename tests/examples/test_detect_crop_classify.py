"""Example 06: photographs on a page are found and named, each in its place; the code around the detector."""

from __future__ import annotations

import importlib.util
import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from example_files import EXAMPLES, backends_of, module_at, run_script
from example_readmes import check_output
from PIL import Image

import hami
from hami.instances import instantiate

PIPELINE = EXAMPLES / "06_detect_crop_classify" / "pipeline.toml"
GRIDS = ((8, 7600), (16, 1900), (32, 475), (64, 130))  # stride in pixels, number of cells
NUM_BINS = 8

pages = module_at("pages.py")
photos = module_at("photos.py")
example = module_at("06_detect_crop_classify/run.py")

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed, which writes the classifier"
)


@pytest.fixture(scope="module")
def layout(models: None) -> ModuleType:
    """Return the module `layout.py`."""
    return backends_of("06_detect_crop_classify", "layout.py")


@pytest.fixture(scope="module")
def pipe(models: None) -> Iterator[Any]:
    """Return the pipeline."""
    with hami.pipe(PIPELINE) as made:
        yield made


def figures(regions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the regions that are figures."""
    return [region for region in regions if region["kind"] == "figure"]


def page_with(name: str, left: int, top: int, width: int) -> bytes:
    """Return a page with two paragraphs and one photograph between them."""
    page = Image.new("RGB", photos.PAGE_SIZE_PX, "white")
    pen = photos.ImageDraw.Draw(page)
    for paragraph_top in (120, 800):
        photos.draw_paragraph(pen, paragraph_top, photos.TEXT * 2)
    picture = photos.photo(name)
    page.paste(picture.resize((width, round(width * picture.height / picture.width))), (left, top))
    return bytes(photos.jpeg_bytes(page))


# --- the pipeline ----------------------------------------------------------------------------------


def test_both_photographs_are_found_in_their_place_with_the_right_label(pipe: Any) -> None:
    regions = pipe({"data": photos.photo_page()})["result"]

    assert len(figures(regions)) == 2
    for name in photos.PLACES:
        assert example.is_found(name, regions), regions


def test_the_text_around_them_is_found_and_has_no_labels(pipe: Any) -> None:
    regions = pipe({"data": photos.photo_page()})["result"]

    assert {region["kind"] for region in regions} == {"title", "text", "figure"}
    assert all(("labels" in region) == (region["kind"] == "figure") for region in regions)


def test_regions_come_from_top_to_bottom_as_plain_values(pipe: Any) -> None:
    regions = pipe({"data": photos.photo_page()})["result"]

    tops = [region["box"][1] for region in regions]
    assert tops == sorted(tops)
    for region in regions:
        assert [type(edge) for edge in region["box"]] == [float] * 4
        assert type(region["score"]) is float and 0.5 <= region["score"] <= 1
        assert 0 <= region["box"][0] < region["box"][2] <= 1
        assert 0 <= region["box"][1] < region["box"][3] <= 1


@pytest.mark.parametrize(
    ("name", "left", "top", "width"), [("coffee", 120, 330, 600), ("chelsea", 400, 420, 360)]
)
def test_a_photograph_is_found_wherever_it_stands(
    pipe: Any, name: str, left: int, top: int, width: int
) -> None:
    (figure,) = figures(pipe({"data": page_with(name, left, top, width)})["result"])

    columns, rows = photos.PAGE_SIZE_PX
    picture = photos.photo(name)
    bottom = top + width * picture.height / picture.width
    place = [left / columns, top / rows, (left + width) / columns, bottom / rows]
    assert example.overlap(figure["box"], place) > 0.7
    assert photos.is_expected(name, figure["labels"][0]["label"])


def test_a_page_without_figures_has_regions_and_no_labels(pipe: Any) -> None:
    regions = pipe({"data": pages.photographed_page()})["result"]

    assert not any("labels" in region for region in regions)


def test_an_empty_page_gives_an_empty_list(pipe: Any) -> None:
    assert pipe({"data": pages.png_bytes(Image.new("RGB", (640, 400), "white"))})["result"] == []


def test_figures_of_several_pages_share_runs_and_keep_their_places() -> None:
    both = photos.photo_page()
    wanted = {both: 2, page_with("coffee", 200, 350, 450): 1, page_with("chelsea", 200, 350, 450): 1}
    requests = [{"data": page} for page in wanted]

    with hami.pipe(PIPELINE) as pipe:
        alone = [pipe({"data": page})["result"] for page in wanted]
        pipe(requests)
        stats = {row["node"]: row for row in pipe.stats()}

    for request, expected, count in zip(requests, alone, wanted.values(), strict=True):
        assert len(figures(request["result"])) == count
        for found, before in zip(request["result"], expected, strict=True):
            assert (found["kind"], found["box"]) == (before["kind"], before["box"])
            if "labels" in found:
                assert found["labels"][0]["label"] == before["labels"][0]["label"]
    assert stats["classify"]["items"] == 2 * sum(wanted.values())


def test_many_callers_get_the_answers_of_one(pipe: Any) -> None:
    page = photos.photo_page()
    expected = pipe({"data": page})["result"]

    with ThreadPoolExecutor(4) as callers:
        answers = list(callers.map(lambda _: pipe({"data": page})["result"], range(8)))

    for answer in answers:
        assert [region["box"] for region in answer] == [region["box"] for region in expected]
        assert all(example.is_found(name, answer) for name in photos.PLACES)


def test_the_caller_keeps_data_and_gets_no_inner_keys(pipe: Any) -> None:
    request = {"data": photos.photo_page(), "mine": 7}

    pipe(request)

    assert isinstance(request["data"], bytes) and request["mine"] == 7
    assert not {"page", "regions"} & set(request)


def test_a_damaged_page_fails_alone(pipe: Any) -> None:
    good, bad = {"data": photos.photo_page()}, {"data": photos.photo_page()[:9000]}

    with pytest.raises(hami.RequestError, match="damaged"):
        pipe([good, bad])

    assert len(figures(good["result"])) == 2 and "result" not in bad


@pytest.mark.parametrize("size", [(1, 1), (3000, 2), (2, 3000)])
def test_extreme_pages_are_no_error(pipe: Any, size: tuple[int, int]) -> None:
    assert isinstance(pipe({"data": pages.png_bytes(Image.new("RGB", size, "white"))})["result"], list)


def test_the_demo_finds_both_and_draws_the_boxes(tmp_path: Path) -> None:
    output = run_script(
        "06_detect_crop_classify/run.py", "--output", str(tmp_path / "new" / "page.png"), folder=tmp_path
    )

    check_output("06_detect_crop_classify", output)
    drawn = Image.open(tmp_path / "new" / "page.png").convert("RGB")
    assert (200, 30, 60) in {colour for _, colour in drawn.getcolors(maxcolors=1 << 24)}


def test_the_demo_looks_at_pages_of_the_caller(tmp_path: Path) -> None:
    (tmp_path / "mine.jpg").write_bytes(page_with("coffee", 200, 350, 450))

    output = run_script(
        "06_detect_crop_classify/run.py", "mine.jpg", "--output", str(tmp_path / "page.png"), folder=tmp_path
    )

    assert "mine.jpg:" in output and "espresso" in output and "photographs found" not in output


# --- the output of the detector --------------------------------------------------------------------


def raw_output(*found: tuple[int, int, int, float, tuple[float, ...]]) -> dict[str, np.ndarray]:
    """Return what the network gives for regions, each (grid, cell, kind, score, strides to the four sides).

    The distance of a side is a distribution with all its weight on two neighbouring strides.
    """
    scores = [np.full((1, cells, 10), 0.01, np.float32) for _, cells in GRIDS]
    distances = [np.zeros((1, cells, 4 * NUM_BINS), np.float32) for _, cells in GRIDS]
    for grid, cell, kind, score, strides in found:
        scores[grid][0, cell, kind] = score
        weights = np.full((4, NUM_BINS), 1e-9)
        for side, distance in enumerate(strides):
            low = int(distance)
            weights[side, low] += 1 - (distance - low)
            weights[side, min(low + 1, NUM_BINS - 1)] += distance - low
        distances[grid][0, cell] = np.log(weights).reshape(-1)
    arrays = [*distances, *scores]  # the order of the outputs must not matter
    return {str(number): array for number, array in enumerate(arrays)}


def regions_of(layout: ModuleType, output: dict[str, np.ndarray], **params: Any) -> list[dict[str, Any]]:
    """Return the regions of one page."""
    item: dict[str, Any] = {"data": output}
    instantiate(layout.LayoutRegions, params, {}).forward([item])
    result: list[dict[str, Any]] = item["result"]
    return result


@pytest.mark.parametrize("grid", range(4))
def test_a_cell_and_its_distances_make_a_box(layout: ModuleType, grid: int) -> None:
    stride, _ = GRIDS[grid]
    columns = -(-608 // stride)
    row, column = 3, 4
    output = raw_output((grid, row * columns + column, 2, 0.9, (1.5, 2.0, 3.25, 1.0)))

    (region,) = regions_of(layout, output)

    x, y = (column + 0.5) * stride, (row + 0.5) * stride
    box = [x - 1.5 * stride, y - 2 * stride, x + 3.25 * stride, y + stride]
    assert region["kind"] == "figure" and region["score"] == pytest.approx(0.9)
    assert np.allclose(np.array(region["box"]) * [608, 800, 608, 800], box, atol=1e-2)


def test_boxes_end_at_the_edges_of_the_page(layout: ModuleType) -> None:
    (region,) = regions_of(layout, raw_output((3, 0, 0, 0.9, (5.0, 5.0, 2.0, 2.0))))

    assert region["box"][:2] == [0, 0] and 0 < region["box"][2] < 1


def test_of_two_boxes_at_one_place_the_better_stays(layout: ModuleType) -> None:
    sides = (3.0, 3.0, 3.0, 3.0)
    neighbours = [(2, 100, 2, 0.7, sides), (2, 101, 4, 0.8, sides), (2, 300, 0, 0.6, sides)]

    found = regions_of(layout, raw_output(*neighbours))

    assert [region["kind"] for region in found] == ["table", "text"]


def test_doubtful_regions_are_dropped_and_the_threshold_is_a_parameter(layout: ModuleType) -> None:
    output = raw_output((2, 100, 2, 0.45, (2.0,) * 4))

    assert regions_of(layout, output) == []
    assert len(regions_of(layout, output, threshold=0.4)) == 1


def test_boxes_that_touch_both_stay(layout: ModuleType) -> None:
    sides = (2.0, 2.0, 2.0, 2.0)

    found = regions_of(layout, raw_output((2, 100, 0, 0.9, sides), (2, 104, 0, 0.8, sides)))

    assert len(found) == 2


def boxes(*rows: tuple[float, ...]) -> np.ndarray:
    """Return an Nx4 array."""
    return np.array(rows, np.float32)


def test_overlap_is_the_shared_part_of_both(layout: ModuleType) -> None:
    one = boxes((0, 0, 2, 2))[0]

    shares = layout.overlap(one, boxes((0, 0, 2, 2), (1, 0, 3, 2), (2, 0, 4, 2), (5, 5, 6, 6), (1, 1, 1, 1)))

    assert np.allclose(shares, [1, 1 / 3, 0, 0, 0])


def test_nothing_found_is_nothing_kept(layout: ModuleType) -> None:
    assert layout.keep_best(np.empty((0, 4), np.float32), np.empty(0, np.float32), 0.5) == []


# --- crops and report ------------------------------------------------------------------------------


def crops_of(layout: ModuleType, page: np.ndarray, *found: dict[str, Any]) -> list[np.ndarray]:
    """Return the pictures that are cut out of a page."""
    item: dict[str, Any] = {"data": list(found), "page": page}
    instantiate(layout.CropFigures, {}, {}).forward([item])
    pictures: list[np.ndarray] = item["result"]
    return pictures


def region(kind: str, *box: float) -> dict[str, Any]:
    """Return a region."""
    return {"kind": kind, "box": list(box), "score": 0.9}


def test_figures_are_cut_out_in_order_and_nothing_else(layout: ModuleType) -> None:
    page = np.arange(100 * 200 * 3, dtype=np.uint32).astype(np.uint8).reshape(100, 200, 3)

    cut = crops_of(
        layout,
        page,
        region("figure", 0.5, 0, 1, 0.5),
        region("text", 0, 0, 1, 1),
        region("figure", 0, 0, 0.1, 1),
    )

    assert [picture.shape for picture in cut] == [(50, 100, 3), (100, 20, 3)]
    assert (cut[0] == page[:50, 100:]).all()


def test_a_crop_does_not_keep_the_page_alive(layout: ModuleType) -> None:
    page = np.zeros((100, 200, 3), np.uint8)

    (cut,) = crops_of(layout, page, region("figure", 0, 0, 0.5, 0.5))

    assert not np.shares_memory(cut, page)


@pytest.mark.parametrize("box", [(0.5, 0.5, 0.5, 0.5), (1, 1, 1, 1), (0, 0, 0, 0)])
def test_a_box_without_area_gives_one_pixel(layout: ModuleType, box: tuple[float, ...]) -> None:
    (cut,) = crops_of(layout, np.zeros((10, 10, 3), np.uint8), region("figure", *box))

    assert cut.shape == (1, 1, 3)


def test_labels_go_to_the_figures_in_their_order(layout: ModuleType) -> None:
    found = [region("figure", 0, 0, 1, 0.1), region("text", 0, 0.2, 1, 0.3), region("figure", 0, 0.4, 1, 1)]
    item: dict[str, Any] = {"data": ["first", "second"], "regions": found}

    instantiate(layout.PageReport, {}, {}).forward([item])

    assert [one.get("labels") for one in item["result"]] == ["first", None, "second"]
    assert all("labels" not in one for one in found)  # what other nodes see is not written to


# --- what the tests measure with -------------------------------------------------------------------


def test_the_page_shows_the_photographs_where_it_says() -> None:
    page = np.asarray(Image.open(io.BytesIO(photos.photo_page())).convert("RGB"), np.float32)
    rows, columns = page.shape[:2]

    for name in photos.PLACES:
        x1, y1, x2, y2 = photos.photo_box(name)
        inside = page[round(y1 * rows) : round(y2 * rows), round(x1 * columns) : round(x2 * columns)]
        size = (inside.shape[1], inside.shape[0])
        expected = np.asarray(photos.photo(name).resize(size), np.float32)
        assert np.abs(inside - expected).mean() < 8


@pytest.mark.parametrize(
    ("name", "label", "fits"),
    [
        ("coffee", "espresso", True),
        ("coffee", "espresso maker", False),
        ("coffee", "cup", False),
        ("chelsea", "tabby, tabby cat", True),
        ("chelsea", "Egyptian cat", True),
        ("chelsea", "cathedral", False),
    ],
)
def test_only_the_right_labels_fit(name: str, label: str, fits: bool) -> None:
    assert photos.is_expected(name, label) == fits
