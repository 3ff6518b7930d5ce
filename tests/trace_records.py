"""Recordings made by hand, in the layout of the core: for tests of what becomes of them."""

from __future__ import annotations

import struct
from typing import Any

from hami.trace.recording import Interval, Recording

LAYOUT = "<BBxxii4xqqQQq"
KINDS = [
    "submit",
    "refuse",
    "dispatch",
    "batch",
    "forward",
    "notify",
    "hold",
    "gil_wait",
    "python",
    "settle",
    "partial",
    "answer",
    "return",
    "queue",
]
OUTCOMES = ["ok", "error", "deadline_exceeded", "cancelled", "closed"]
NODES = ["decode", "detect"]
BEGIN, END = 1_000, 100_000
HANDLE = 0x7F00_8000_0000
"""Of a thread without a number; half of such handles are negative in 32 bits."""

Row = tuple[int, ...]


def row(
    kind: str,
    begin: int,
    end: int | None = None,
    *,
    detail: int = 0,
    node: int = -1,
    instance: int = -1,
    request: int = 0,
    batch: int = 0,
    value: int = 0,
) -> Row:
    """Return one record as the numbers that the core writes; a moment without an end."""
    ended = begin if end is None else end
    return (KINDS.index(kind), detail, node, instance, begin, ended, request, batch, value)


def core_rows(*threads: list[Row], nodes: list[str] = NODES, dropped: int = 0) -> dict[str, Any]:
    """Return what the core returns for these threads, numbered from 1, with native ids from 101."""
    return {
        "threads": [
            (
                number,
                100 + number,
                HANDLE + number,
                f"thread{number}",
                b"".join(struct.pack(LAYOUT, *one) for one in rows),
            )
            for number, rows in enumerate(threads, start=1)
        ],
        "layout": LAYOUT,
        "kinds": KINDS,
        "outcomes": OUTCOMES,
        "nodes": nodes,
        "dropped": dropped,
        "begin_ns": BEGIN,
        "end_ns": END,
    }


def recording_of(
    *threads: list[Row],
    nodes: list[str] = NODES,
    dropped: int = 0,
    made: tuple[Interval, ...] = (),
) -> Recording:
    """Return the recording of these threads."""
    return Recording.of(core_rows(*threads, nodes=nodes, dropped=dropped), "pipeline.toml", made)


def one_request(request: int = 1, batch: int = 7, start: int = 2_000) -> tuple[list[Row], list[Row]]:
    """Return a request of one node, as its caller's thread and the instance's have recorded it.

    Its stations take 100, 50, 350, 400, 60 and 90 nanoseconds.
    """
    caller = [
        row("submit", start, start + 80, request=request, value=1),
        row("dispatch", start + 100, start + 150, node=0, request=request),
        row("return", start + 990, start + 1_050, request=request),
    ]
    instance = [
        row("batch", start + 160, start + 500, node=0, instance=0, request=request, batch=batch, value=1),
        row("gil_wait", start + 510, start + 600, node=0),
        row("python", start + 600, start + 880, node=0),
        row("forward", start + 500, start + 900, node=0, instance=0, batch=batch, value=1),
        row("settle", start + 940, node=0, request=request),
        row("answer", start + 960, request=request),
        row("notify", start + 900, start + 980, node=0, batch=batch),
    ]
    return caller, instance
