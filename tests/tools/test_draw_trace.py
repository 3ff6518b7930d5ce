"""Check tools/draw_trace.py, which draws the picture of docs/tracing.md."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from trace_records import one_request, recording_of

from hami.trace.chrome import chrome_trace

TOOLS = Path(__file__).resolve().parents[2] / "tools"
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    import draw_trace

    return draw_trace


@pytest.fixture
def events() -> list[dict[str, Any]]:
    """Return a request of one node, from 1 to 2.05 microseconds, in a file."""
    content = chrome_trace(recording_of(*one_request()), {101: "caller <1>"})
    return list(content["traceEvents"])


def test_threads_come_before_requests(tool: ModuleType, events: Any) -> None:
    rows = tool.rows_of(events, 0.0, 10.0, 5)

    assert [row.name for row in rows] == ["decode, instance 0", "caller <1>", "request 1"]


def test_what_lies_inside_is_a_line_below(tool: ModuleType, events: Any) -> None:
    instance, caller, request = tool.rows_of(events, 0.0, 10.0, 5)

    depths = {bar.name: bar.depth for bar in instance.bars}
    assert depths == {"decode": 0, "wait for the GIL": 1, "python": 1, "notify": 0}
    assert {bar.depth for bar in caller.bars} == {0}
    assert [(bar.name, bar.depth) for bar in request.bars][:4] == [
        ("request", 0),
        ("submit", 1),
        ("dispatch", 1),
        ("decode", 1),
    ]


def test_what_happened_at_other_times_is_left_out(tool: ModuleType, events: Any) -> None:
    assert tool.rows_of(events, 50.0, 60.0, 5) == []


def test_only_so_many_requests_are_drawn(tool: ModuleType, events: Any) -> None:
    assert len(tool.rows_of(events, 0.0, 10.0, 0)) == 2


def test_the_picture_is_svg_with_a_bar_for_each_slice(tool: ModuleType, events: Any) -> None:
    rows = tool.rows_of(events, 0.0, 10.0, 5)

    picture = ElementTree.fromstring(tool.draw(rows, 0.0, 10.0))

    bars = picture.findall(f"{SVG}rect")
    assert len(bars) == 1 + sum(len(row.bars) for row in rows)  # and the paper
    texts = {text.text for text in picture.findall(f"{SVG}text")}
    assert {"caller <1>", "request 1"} <= texts


def test_bars_are_cut_off_at_the_edges(tool: ModuleType, events: Any) -> None:
    rows = tool.rows_of(events, 1.6, 1.7, 5)

    picture = ElementTree.fromstring(tool.draw(rows, 1.6, 1.7))

    for bar in picture.findall(f"{SVG}rect")[1:]:
        left = float(bar.attrib["x"])
        assert left >= tool.LABEL_PX
        assert left + float(bar.attrib["width"]) <= tool.WIDTH_PX + 1
