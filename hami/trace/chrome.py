"""A recording as a file in Chrome's trace format, which Perfetto and chrome://tracing open.

Times are microseconds with three decimals, from 0 on. The format: "Trace Event Format", a document of the
Catapult project.
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, TextIO, cast

from .gpu import GpuProfile, gpu_rows
from .recording import Recording
from .request_rows import arrows, counters, stations
from .thread_rows import making, slices, tracks
from .timeline import PIPELINE, Event, Timeline


def chrome_trace(
    recording: Recording, thread_names: Mapping[int, str], gpus: GpuProfile | None = None
) -> dict[str, Any]:
    """Return the whole file as plain data, its events in the order of time.

    `thread_names`: what Python calls threads, by their native ids.
    """
    events = sorted(_events(Timeline(recording, thread_names), gpus), key=lambda event: event.get("ts", -1))
    other = {
        "generator": "hami",
        "pipeline": recording.pipeline,
        "dropped_records": recording.num_dropped,
        "monotonic_begin_ns": recording.begin,
    }
    return {"displayTimeUnit": "ms", "otherData": other, "traceEvents": events}


def _events(timeline: Timeline, gpus: GpuProfile | None) -> Iterator[Event]:
    """Yield all events. Of those at one moment, what is around others comes first."""
    yield from tracks(timeline)
    yield from making(timeline)
    for thread in timeline.recording.threads:
        yield from sorted(slices(timeline, thread), key=lambda event: -event.get("dur", 0))
    for journey in timeline.journeys:
        yield from stations(timeline, journey)
        yield from arrows(timeline, journey)
    yield from counters(timeline)
    if gpus is not None:
        yield from gpu_rows(timeline, gpus)
    if num_dropped := timeline.recording.num_dropped:
        name = f"{num_dropped} records dropped: `max_records` was too small"
        event = {"name": name, "ph": "i", "s": "g", "pid": PIPELINE, "tid": 1}
        yield timeline.at(timeline.recording.end, event)


def write(content: Mapping[str, Any], path: str | os.PathLike[str]) -> None:
    """Write the file, one event a line; compressed where the name ends in `.gz`. Raises OSError."""
    opener: Any = gzip.open if os.fspath(path).endswith(".gz") else open
    with cast(TextIO, opener(path, "wt", encoding="utf-8")) as file:
        head = {key: value for key, value in content.items() if key != "traceEvents"}
        file.write(json.dumps(head)[:-1] + ', "traceEvents": [\n')
        for index, event in enumerate(content["traceEvents"]):
            file.write((",\n" if index else "") + json.dumps(event))
        file.write("\n]}\n")
