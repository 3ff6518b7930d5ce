"""Example 13: pictures pass two models, all other files one, and a damaged picture fails alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from example_files import EXAMPLES, module_at, run_script
from example_readmes import check_output

import hami

PIPELINE = EXAMPLES / "13_route_by_type" / "pipeline.toml"
pages = module_at("pages.py")


def test_the_demo_prints_what_its_page_says(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn", reason="needs uvicorn: pip install hami-core[serve]")

    check_output("13_route_by_type", run_script("13_route_by_type/run.py", folder=tmp_path))


def test_only_pictures_reach_the_second_model() -> None:
    text = Path(__file__).read_bytes()
    with hami.pipe(PIPELINE) as pipe:
        answers = pipe([{"data": text}, {"data": pages.turned(pages.drawn_page(), 270)}, {"data": text}])
        items = {row["node"]: row["items"] for row in pipe.stats()}

    assert [answer["result"].get("angle") for answer in answers] == [None, 270, None]
    assert [answer["result"]["label"] for answer in answers] == ["python", "png", "python"]
    assert (items["kind"], items["angle"], items["report"]) == (3, 1, 3)


def test_a_damaged_picture_fails_alone() -> None:
    page = pages.drawn_page()
    good, bad = {"data": page}, {"data": page[:4000]}

    with hami.pipe(PIPELINE) as pipe, pytest.raises(hami.RequestError, match="damaged"):
        pipe([good, bad])

    assert good["result"]["angle"] == 0 and "result" not in bad
