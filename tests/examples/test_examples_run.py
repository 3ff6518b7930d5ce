"""Every example's script runs from any folder and prints what its README says."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest
from example_files import EXAMPLES, module_at, run_script
from example_readmes import check_output
from PIL import Image

import hami

NEED_TORCH = {"05_classification", "06_detect_crop_classify"}
FOLDERS = sorted(folder.name for folder in EXAMPLES.iterdir() if (folder / "pipeline.toml").is_file())
pages = module_at("pages.py")
needs_language_model = pytest.mark.skipif(
    importlib.util.find_spec("tokenizers") is None, reason="needs hami-core[llm]"
)


def test_examples_are_numbered_without_gaps() -> None:
    assert [int(name[:2]) for name in FOLDERS] == list(range(1, len(FOLDERS) + 1))


@pytest.mark.parametrize("name", FOLDERS)
def test_every_example_is_in_the_list_of_examples(name: str) -> None:
    assert f"({name}/README.md)" in (EXAMPLES / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FOLDERS)
def test_every_example_has_a_readme_that_names_its_command(name: str) -> None:
    readme = (EXAMPLES / name / "README.md").read_text(encoding="utf-8")

    assert f"python examples/{name}/run.py" in readme
    assert (EXAMPLES / name / "run.py").is_file()


def test_the_ocr_demo_prints_the_text_and_draws_the_boxes(tmp_path: Path) -> None:
    output = run_script(
        "01_ocr/run.py", "--rounds", "0", "--output", str(tmp_path / "drawn.png"), folder=tmp_path
    )

    for text in (*pages.LINES, "Region-based segmentation", "a page without text: []", "image-damaged"):
        assert text in output
    assert "ANOTHER TEXT" not in output
    check_output("01_ocr", output)
    drawn = Image.open(tmp_path / "drawn.png").convert("RGB")
    assert (200, 30, 60) in {colour for _, colour in drawn.getcolors(maxcolors=1 << 24)}


def test_the_ocr_demo_reads_pictures_of_the_caller(tmp_path: Path) -> None:
    picture = tmp_path / "mine.png"
    picture.write_bytes(pages.drawn_page(["Only one line stands here"], upside_down=None))

    output = run_script(
        "01_ocr/run.py",
        str(picture),
        "--rounds",
        "0",
        "--output",
        str(tmp_path / "drawn.png"),
        folder=tmp_path,
    )

    assert "mine.png" in output and "Only one line stands here" in output


def test_the_comparison_has_a_row_for_each_number_of_callers(tmp_path: Path) -> None:
    output = run_script(
        "01_ocr/run.py",
        "--rounds",
        "1",
        "--calls",
        "2",
        "--output",
        str(tmp_path / "drawn.png"),
        folder=tmp_path,
    )

    for callers in ("1 caller", "4 callers", "8 callers"):
        assert re.search(rf"hami, {callers}\b.*\d+\.\d\d", output)
    has_peer = importlib.util.find_spec("rapidocr_onnxruntime") is not None
    assert (re.search(r"rapidocr-onnxruntime .*1\.00x", output) is not None) == has_peer
    assert ("no row for the package" in output) != has_peer


def test_page_orientation_is_right_eight_times(tmp_path: Path) -> None:
    check_output("02_page_orientation", run_script("02_page_orientation/run.py", folder=tmp_path))


def test_pages_of_all_sizes_share_a_batch_and_get_their_own_angle() -> None:
    angles = [0, 90, 180, 270] * 2
    requests = [{"data": pages.turned(pages.photographed_page(), angle)} for angle in angles]

    with hami.pipe(EXAMPLES / "02_page_orientation" / "pipeline.toml") as pipe:
        pipe(requests)

    assert [request["result"]["angle"] for request in requests] == angles
    assert all(request["result"]["score"] > 0.8 for request in requests)


def test_the_python_backend_finds_the_near_duplicates_in_batches(tmp_path: Path) -> None:
    output = run_script("03_python_backend/run.py", folder=tmp_path)

    duplicates = output.split("near duplicates:")[1].strip().splitlines()
    assert len(duplicates) == 3 * 6  # all pairs of four versions, of three photographs
    assert all(len(set(re.findall("astronaut|chelsea|coffee", line))) == 1 for line in duplicates)
    assert max(int(size) for size in re.findall(r"batch of (\d+)", output)) > 1
    check_output("03_python_backend", output)


def test_a_picture_that_cannot_be_hashed_fails_alone() -> None:
    requests = [{"data": pages.blank_page()}, {"data": b"no picture"}, {"data": pages.drawn_page()}]

    with (
        hami.pipe(EXAMPLES / "03_python_backend" / "pipeline.toml") as pipe,
        pytest.raises(hami.RequestError),
    ):
        pipe(requests)

    assert ["result" in request for request in requests] == [True, False, True]


def test_the_node_built_by_hand_answers_like_the_default_one(tmp_path: Path) -> None:
    check_output("04_node_entrypoint", run_script("04_node_entrypoint/run.py", folder=tmp_path))


@pytest.mark.parametrize("name", FOLDERS)
def test_every_pipeline_can_be_closed_and_made_again(name: str) -> None:
    if name in NEED_TORCH and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed, which writes the classifier")
    for _ in range(2):
        hami.pipe(EXAMPLES / name / "pipeline.toml").close()


@needs_language_model
def test_the_language_model_answers_and_streams(tmp_path: Path) -> None:
    check_output("07_language_model", run_script("07_language_model/run.py", folder=tmp_path))


@needs_language_model
def test_the_language_model_in_parts_gives_the_same(tmp_path: Path) -> None:
    check_output(
        "08_language_model_in_parts", run_script("08_language_model_in_parts/run.py", folder=tmp_path)
    )


@needs_language_model
def test_a_page_is_asked(tmp_path: Path) -> None:
    output = run_script("09_ask_a_page/run.py", folder=tmp_path)

    check_output("09_ask_a_page", output)
    assert "Berlin" in output.split("Where does the train go?")[1]
