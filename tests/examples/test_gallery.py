"""The pages of the examples: each has a picture that is up to date, its output, and what to change next."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from example_files import EXAMPLES
from example_readmes import expected_output, is_as_expected, pictures_of

from hami.cli.svg import draw
from hami.plan import plan

FOLDERS = sorted(folder.parent.name for folder in EXAMPLES.glob("*/pipeline.toml"))
GALLERY = EXAMPLES / "README.md"


@pytest.fixture(autouse=True)
def no_choice_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draw what the files say, without an engine or a model that somebody chose."""
    for name in ("ENGINE", "MODEL"):
        monkeypatch.setenv(name, "unset")
        monkeypatch.delenv(name)


@pytest.mark.parametrize("name", FOLDERS)
def test_the_picture_of_an_example_is_up_to_date(name: str) -> None:
    drawn = (EXAMPLES / name / "pipeline.svg").read_text(encoding="utf-8")

    assert draw(plan(EXAMPLES / name / "pipeline.toml")) == drawn, "run `python tools/draw_examples.py`"


@pytest.mark.parametrize("name", FOLDERS)
def test_the_page_of_an_example_has_a_picture_its_output_and_what_to_change_next(name: str) -> None:
    page = EXAMPLES / name / "README.md"
    text = page.read_text(encoding="utf-8")

    assert pictures_of(page)[0] == "pipeline.svg"
    assert expected_output(name).strip()
    assert re.search(r"^## What to change next\n\n(- .+\n)+", text, re.MULTILINE)
    assert (
        text.index("pipeline.svg")
        < text.index(f"python examples/{name}/run.py")
        < text.index('title="output"')
    )


def test_the_gallery_shows_every_example_in_order() -> None:
    text = GALLERY.read_text(encoding="utf-8")

    assert [Path(picture).parent.name for picture in pictures_of(GALLERY)] == FOLDERS
    assert re.findall(r"^## \[(\d+)\. .+\]\((.+)/README\.md\)$", text, re.MULTILINE) == [
        (str(int(name[:2])), name) for name in FOLDERS
    ]


def test_there_are_examples_enough() -> None:
    assert len(FOLDERS) >= 13


# --- the comparison of outputs ---


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("a  b", "a b\n"),
        ("score 0.98", "score 0.97"),
        ("first after 447 ms", "first after 9 ms"),
        ("in a batch of 3", "in a batch of 1"),
        ("12 chunks in runs: 5", "12 chunks in runs: 12"),
        ("one\n...\nthree", "one\ntwo\nand more\nthree"),
        ("one\n...\nthree", "one\nthree"),
        ("The train leaves …", "The train leaves at nine."),
        ("boxes drawn: …\n...\nnothing", "boxes drawn:\n/tmp/drawn.png\n\nnothing"),
        ("(a+b)*", "(a+b)*"),
    ],
)
def test_figures_that_change_and_what_is_left_out_may_differ(expected: str, printed: str) -> None:
    assert is_as_expected(expected, printed)


@pytest.mark.parametrize(
    ("expected", "printed"),
    [
        ("a", "b"),
        ("one\ntwo", "one"),
        ("one", "one\ntwo"),
        ("found  90", "found 180"),
        ("8 of 8 right", "7 of 8 right"),
        ("12 chunks in runs: 5", "11 chunks in runs: 5"),
        ("The train leaves …", "The bus leaves at nine."),
        ("one\n...\nthree", "one\ntwo"),
        ("a.c", "abc"),
    ],
)
def test_another_output_is_found(expected: str, printed: str) -> None:
    assert not is_as_expected(expected, printed)
