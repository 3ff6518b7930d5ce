"""Laws of the form: what is typed, dropped or chosen becomes a request, and its answer is shown."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs fastapi: pip install hami-core[serve]")
pytest.importorskip("uvicorn", reason="needs uvicorn: pip install hami-core[serve]")

from monitored import send, small_png, text_of, wait_for

import hami

pytestmark = pytest.mark.usefixtures("backends")

GRAPH = {"first": {"backend": "Double", "next": "second"}, "second": {"backend": "Echo"}}
PNG = small_png()


@pytest.mark.parametrize(
    ("typed", "result"),
    [("7", "14"), ('{"data": 4, "more": 1}', "8"), ("ab", '"abab"'), ("[1, 2]", "[1, 2, 1, 2]")],
)
def test_what_is_typed_becomes_a_request(serve: Any, visit: Any, typed: str, result: str) -> None:
    page = visit(serve("Double")).page
    send(page, typed)
    assert text_of(page.locator("#answer pre")) == result
    assert re.fullmatch(r"200\s+[\d.]+ (µs|ms|s)", text_of(page.locator("#answer .verdict")))


def test_enter_with_control_sends(serve: Any, visit: Any) -> None:
    page = visit(serve("Double")).page
    page.fill("#data", "21")
    page.press("#data", "Control+Enter")
    page.wait_for_selector("#answer .verdict")
    assert "42" in text_of(page.locator("#answer pre"))


def drop(page: Any, content: bytes, kind: str) -> None:
    """Drop a file from outside."""
    page.evaluate(
        """([bytes, type]) => {
            const transfer = new DataTransfer();
            transfer.items.add(new File([new Uint8Array(bytes)], "scan.png", { type }));
            const options = { dataTransfer: transfer, bubbles: true, cancelable: true };
            for (const kind of ["dragenter", "dragover", "drop"])
                document.querySelector("#data").dispatchEvent(new DragEvent(kind, options));
        }""",
        [list(content), kind],
    )


def test_a_dropped_picture_gives_its_answer(serve: Any, visit: Any) -> None:
    page = visit(serve("Size")).page
    drop(page, PNG, "image/png")
    assert text_of(page.locator("#picture span")) == f"scan.png · {len(PNG)} B"
    assert page.locator("#data").is_hidden()
    page.click("#send")
    page.wait_for_selector("#answer .verdict")
    assert f'"bytes": {len(PNG)}' in text_of(page.locator("#answer pre"))
    assert '"png": true' in text_of(page.locator("#answer pre"))
    page.click("#picture button")
    assert page.locator("#data").is_visible() and page.locator("#picture").is_hidden()


def test_a_chosen_file_is_sent(serve: Any, visit: Any, tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    path.write_bytes(PNG)
    page = visit(serve("Size")).page
    page.set_input_files("#file", path)
    page.click("#send")
    page.wait_for_selector("#answer .verdict")
    assert f'"bytes": {len(PNG)}' in text_of(page.locator("#answer pre"))


@pytest.mark.parametrize("is_json", [False, True], ids=["bytes", "data URL"])
def test_a_picture_in_the_answer_is_shown(serve: Any, visit: Any, is_json: bool) -> None:
    picture: Any = f"data:image/png;base64,{base64.b64encode(PNG).decode()}" if is_json else PNG
    hami.register("Draw", lambda batch: [picture for _ in batch])
    page = visit(serve("Draw")).page
    send(page, "anything")
    wait_for(page, "document.querySelector('#answer img').naturalWidth === 2")


def test_bytes_that_are_no_picture_can_be_kept(serve: Any, visit: Any, tmp_path: Path) -> None:
    hami.register("Bytes", lambda batch: [b"\x00\x01 no picture" for _ in batch])
    page = visit(serve("Bytes")).page
    send(page, "anything")
    with page.expect_download() as download:
        page.click("#answer a")
    download.value.save_as(tmp_path / "kept")
    assert (tmp_path / "kept").read_bytes() == b"\x00\x01 no picture"


def test_a_node_can_be_asked_alone(serve: Any, visit: Any) -> None:
    site = serve(GRAPH)
    page = visit(site).page
    assert page.locator("#target option").all_inner_texts() == [
        "Whole pipeline",
        *(f"Node {n}" for n in GRAPH),
    ]
    page.select_option("#target", "first")
    with page.expect_response("**/v1/nodes/first") as answered:
        send(page, "3")
    assert answered.value.headers["x-node"] == "first"


def test_an_answer_that_is_an_error_is_shown_as_one(serve: Any, visit: Any) -> None:
    opened = visit(serve("Fails"))
    opened.allowed.append("422")
    send(opened.page, "page 3")
    assert "422" in text_of(opened.page.locator("#answer .verdict.is-bad"))
    assert "cannot read page 3" in text_of(opened.page.locator("#answer pre"))
