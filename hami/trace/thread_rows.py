"""The rows of the threads: one track for each, those of instances first, whose slices are what ran there."""

from __future__ import annotations

from collections.abc import Iterator

from .recording import Record, Run, Thread
from .timeline import (
    CALLERS,
    INSTANCES,
    PIPELINE,
    REQUESTS,
    Event,
    Timeline,
    metadata,
    natural,
    process,
)

# How the scheduler came to run a batch, by its number in a record.
_RELEASES = ("full", "timeout", "everyone_here", "in_place")


def tracks(timeline: Timeline) -> Iterator[Event]:
    """Yield the names of all processes and tracks, but those of the GPUs."""
    name = timeline.recording.pipeline or "pipeline"
    shown = {PIPELINE: name, INSTANCES: "instances", CALLERS: "other threads", REQUESTS: "requests"}
    for pid, text in shown.items():
        yield from process(pid, text)
    yield metadata(PIPELINE, 1, "thread_name", name="parse and plan")
    ordered = sorted(timeline.tracks.values(), key=lambda track: (track.pid, natural(track.name)))
    for position, track in enumerate(ordered):
        yield metadata(track.pid, track.tid, "thread_name", name=track.name)
        yield metadata(track.pid, track.tid, "thread_sort_index", sort_index=position)


def making(timeline: Timeline) -> Iterator[Event]:
    """Yield how the pipeline was made: true lengths, moved to right before the recording."""
    begin = timeline.origin
    for made in timeline.recording.made:
        end = begin + made.end - made.begin
        args = {"ago_ms": (timeline.recording.begin - made.begin) / 1e6}
        yield timeline.slice(begin, end, made.name, made.name, {"pid": PIPELINE, "tid": 1}, args)
        begin = end


def slices(timeline: Timeline, thread: Thread) -> Iterator[Event]:
    """Yield what one thread did."""
    recording = timeline.recording
    place = timeline.tracks[thread.number].place
    decisions: dict[tuple[int, int], Event] = {}
    started: set[int] = set()

    def station(record: Record, name: str, **args: object) -> Event:
        return timeline.slice(record.begin, record.end, name, record.kind, place, args)

    for record in thread.records:
        if record.kind == "batch" and record.batch not in started:
            started.add(record.batch)
            yield _run(timeline, timeline.runs[record.batch], place)
        elif record.kind == "dispatch":
            # One decision may send several requests on, or one to several nodes.
            args = decisions.setdefault((record.begin, record.end), {"requests": [], "to": []})
            args["requests"].append(record.request)
            args["to"].append(recording.node_name(record))
        elif record.kind in ("submit", "return"):
            yield station(record, record.kind, request=record.request)
        elif record.kind == "notify":
            yield station(record, "notify", batch=record.batch)
        elif record.kind == "gil_wait":
            yield station(record, "wait for the GIL", node=recording.node_name(record))
        elif record.kind == "python":
            yield station(record, "python", node=recording.node_name(record))
        elif (failure := failure_of(timeline, record)) is not None:
            instant = {"name": failure, "cat": "failure", "ph": "i", "s": "t", **place}
            yield timeline.at(record.begin, {**instant, "args": {"request": record.request}})
    for (begin, end), args in decisions.items():
        yield timeline.slice(begin, end, "dispatch", "dispatch", place, args)


def failure_of(timeline: Timeline, record: Record) -> str | None:
    """Return how a request failed, if the record says so."""
    if record.kind == "refuse":
        return "refused"
    if record.kind != "answer" or timeline.recording.outcomes[record.detail] == "ok":
        return None
    return timeline.recording.outcomes[record.detail].replace("_", " ")


def _run(timeline: Timeline, run: Run, place: Event) -> Event:
    args = {
        "batch": run.first.batch,
        "items": run.num_items,
        "rows": run.num_rows,
        "released": _RELEASES[run.first.detail],
        "requests": run.requests,
    }
    if run.end is None:
        args["outcome"] = "unfinished"
    end = timeline.recording.end if run.end is None else run.end
    return timeline.slice(run.begin, end, timeline.recording.node_name(run.first), "forward", place, args)
