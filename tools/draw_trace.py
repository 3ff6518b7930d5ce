"""Draw a part of a trace as an SVG picture: `docs/images/trace.svg` shows what a viewer shows of such a file.

Usage: draw_trace.py [TRACE] [--out FILE] [--begin MS] [--length MS] [--requests COUNT]
Without TRACE it records one: five callers of a small pipeline with a node in Python and a batching one.
"""

from __future__ import annotations

import argparse
import gzip
import json
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

import hami

Event = dict[str, Any]

ROOT = Path(__file__).resolve().parent.parent
WIDTH_PX, LABEL_PX, LINE_PX, TRACK_GAP_PX, TOP_PX = 1000.0, 150.0, 16.0, 5.0, 24.0
CHARACTER_PX = 5.9
MIN_WIDTH_PX = 0.4
COLOURS = {
    "forward": "#3f6fb5",
    "batch": "#d9a441",
    "gil_wait": "#c0453c",
    "python": "#6b93cf",
    "notify": "#5b9a68",
    "dispatch": "#8a6fb0",
    "submit": "#7d8b99",
    "return": "#4f9a9a",
    "request": "#c9d2db",
    "stay": "#aab8c5",
}
_DARK_TEXT = {"request", "stay", "batch"}


@dataclass
class Bar:
    """One rectangle: times in microseconds, its depth within the track, and what colours it."""

    name: str
    kind: str
    begin: float
    end: float
    depth: int


@dataclass
class Row:
    """One track."""

    name: str
    bars: list[Bar] = field(default_factory=list)

    @property
    def num_lines(self) -> int:
        """How many lines its nested slices take."""
        return 1 + max((bar.depth for bar in self.bars), default=0)


def rows_of(events: Iterable[Event], begin: float, end: float, num_requests: int) -> list[Row]:
    """Return the tracks of threads in the order of a viewer, then the first requests of that time."""
    events = list(events)
    rows = [row for row in _thread_rows(events, begin, end) if row.bars]
    requests = [row for row in _request_rows(events) if begin <= row.bars[0].begin < end]
    return rows + requests[:num_requests]


def _thread_rows(events: list[Event], begin: float, end: float) -> list[Row]:
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events
        if event["ph"] == "M" and event["name"] == "thread_name"
    }
    order = {
        (event["pid"], event["tid"]): event["args"]["sort_index"]
        for event in events
        if event["ph"] == "M" and event["name"] == "thread_sort_index"
    }
    rows: dict[tuple[int, int], Row] = {key: Row(names[key]) for key in sorted(order, key=order.__getitem__)}
    open_ends: dict[tuple[int, int], list[float]] = {}
    for event in events:
        key = (event["pid"], event["tid"]) if event["ph"] == "X" else None
        if key not in rows:
            continue
        stack = open_ends.setdefault(key, [])
        # Sums of fractions: to the nanosecond, what follows does not overlap.
        while stack and round(stack[-1] * 1000) <= round(event["ts"] * 1000):
            stack.pop()
        stack.append(event["ts"] + event["dur"])
        if stack[-1] > begin and event["ts"] < end:
            bar = Bar(event["name"], event["cat"], event["ts"], stack[-1], len(stack) - 1)
            rows[key].bars.append(bar)
    return list(rows.values())


def _request_rows(events: list[Event]) -> list[Row]:
    rows: dict[str, Row] = {}
    stacks: dict[str, list[Bar]] = {}
    for event in events:
        if event["ph"] == "b":
            stack = stacks.setdefault(event["id"], [])
            name = event["name"]
            kind = name if name in COLOURS else "stay"
            bar = Bar(name, kind, event["ts"], event["ts"], len(stack))
            stack.append(bar)
            row = rows.setdefault(event["id"], Row(f"request {event['id'].split('.')[0]}"))
            row.bars.append(bar)
        elif event["ph"] == "e":
            stacks[event["id"]].pop().end = event["ts"]
    return sorted(rows.values(), key=lambda row: row.bars[0].begin)


def draw(rows: list[Row], begin: float, end: float) -> str:
    """Return the picture of what happened between two times, in microseconds."""
    scale = (WIDTH_PX - LABEL_PX) / (end - begin)
    parts: list[str] = []
    top = TOP_PX
    for row in rows:
        height = row.num_lines * LINE_PX
        parts.append(f'<text class="track" x="4" y="{top + 12:g}">{escape(row.name)}</text>')
        for bar in row.bars:
            parts += _bar(bar, begin, end, scale, top)
        top += height + TRACK_GAP_PX
        line = top - TRACK_GAP_PX / 2
        parts.append(f'<path class="line" d="M0 {line:g}H{WIDTH_PX:g}"/>')
    return "\n".join([_head(top + 4), *_axis(begin, end, scale, top), *parts, "</svg>", ""])


def _bar(bar: Bar, begin: float, end: float, scale: float, top: float) -> list[str]:
    left = LABEL_PX + (max(bar.begin, begin) - begin) * scale
    width = max((min(bar.end, end) - max(bar.begin, begin)) * scale, MIN_WIDTH_PX)
    if bar.end <= begin or bar.begin >= end:
        return []
    y = top + bar.depth * LINE_PX
    colour = COLOURS.get(bar.kind, COLOURS["stay"])
    place = f'x="{left:.2f}" y="{y:g}" width="{width:.2f}" height="{LINE_PX - 1:g}"'
    title = f"<title>{escape(bar.name)}: {(bar.end - bar.begin) / 1000:.3f} ms</title>"
    drawn = [f'<rect {place} fill="{colour}">{title}</rect>']
    if len(bar.name) * CHARACTER_PX + 6 <= width:
        kind = ' class="dark"' if bar.kind in _DARK_TEXT else ""
        drawn.append(f'<text{kind} x="{left + 3:.2f}" y="{y + 11.5:g}">{escape(bar.name)}</text>')
    return drawn


def _head(height: float) -> str:
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX:g} {height:g}" role="img">
<title>A part of a trace</title>
<style>
  text {{ font: 10px ui-sans-serif, system-ui, sans-serif; fill: #ffffff; }}
  .dark, .track, .time {{ fill: #1c2733; }}
  .line {{ stroke: #d5dce3; stroke-width: 0.6; }}
</style>
<rect width="{WIDTH_PX:g}" height="{height:g}" fill="#ffffff"/>"""


def _axis(begin: float, end: float, scale: float, bottom: float) -> list[str]:
    step = next(
        step
        for step in (50, 100, 200, 500, 1000, 2000, 5000, 10**4, 10**5, 10**9)
        if (end - begin) / step <= 10
    )
    drawn = []
    for index in range(int((end - begin) / step) + 1):
        x = LABEL_PX + index * step * scale
        drawn.append(f'<path class="line" d="M{x:.2f} {TOP_PX - 6:g}V{bottom:g}"/>')
        drawn.append(f'<text class="time" x="{x + 2:.2f}" y="12">{index * step / 1000:g} ms</text>')
    return drawn


def record() -> list[Event]:
    """Return the events of a small pipeline under five callers: a node in Python, one that fills batches."""

    @hami.register
    class Prepare(hami.Backend):
        """Python that keeps the GIL for a while."""

        def forward(self, batch: list[Event]) -> None:
            for item in batch:
                item["result"] = sum(i * item["data"] for i in range(6000))

    @hami.register
    class Model(hami.Backend):
        """Work that needs no GIL, and is worth a batch."""

        batch_range = (1, 4)

        def forward(self, batch: list[Event]) -> None:
            time.sleep(0.002)
            for item in batch:
                item["result"] = item["data"]

    nodes = {
        "prepare": {"backend": "Prepare", "instance_num": 2, "next": "model"},
        "model": {"backend": "Model", "max": 4},
    }
    with hami.pipe(nodes) as pipe:

        def call() -> None:
            for i in range(40):
                pipe({"data": i})

        callers = [threading.Thread(target=call, name=f"caller {index}") for index in range(5)]
        with pipe.trace() as trace:
            for caller in callers:
                caller.start()
            for caller in callers:
                caller.join()
            names = {caller.native_id: caller.name for caller in callers}
        events = trace.events()
    for event in events:  # the callers have ended, and so have lost their names
        text = event.get("args", {}).get("name", "")
        if event["name"] == "thread_name" and text.rsplit(" ", 1)[-1].isdigit():
            event["args"]["name"] = names.get(int(text.rsplit(" ", 1)[-1]), text)
    return events


def main() -> None:
    """Draw it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("trace", nargs="?", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "docs/images/trace.svg")
    parser.add_argument("--begin", type=float, default=40.0, help="milliseconds after the first submit")
    parser.add_argument("--length", type=float, default=12.0, help="milliseconds")
    parser.add_argument("--requests", type=int, default=4)
    options = parser.parse_args()
    if options.trace is None:
        events = record()
    else:
        content = options.trace.read_bytes()
        content = gzip.decompress(content) if options.trace.suffix == ".gz" else content
        events = json.loads(content)["traceEvents"]
    # The making of the pipeline stands before, and may be long.
    first = min(event["ts"] for event in events if event["ph"] == "X" and event["name"] == "submit")
    begin = first + options.begin * 1000
    end = begin + options.length * 1000
    options.out.write_text(draw(rows_of(events, begin, end, options.requests), begin, end), encoding="utf-8")
    print(options.out)


if __name__ == "__main__":
    main()
