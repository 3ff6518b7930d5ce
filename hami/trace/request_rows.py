"""The rows of the requests: a track for each with its stations, arrows between threads, and counters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from .recording import Journey
from .stations import Span, spans_of, stays_of
from .thread_rows import failure_of
from .timeline import PIPELINE, REQUESTS, Event, Timeline


def stations(timeline: Timeline, journey: Journey) -> Iterator[Event]:
    """Yield the spans of one request: nested, and in the order of time on each of its lanes."""
    for lane, span in enumerate(spans_of(journey, timeline.recording, timeline.runs)):
        place = {"cat": "request", "id": f"{journey.request}.{lane}", "pid": REQUESTS, "tid": 1}
        yield from _nested(timeline, span, place)
    place = {"cat": "request", "id": f"{journey.request}.0", "pid": REQUESTS, "tid": 1}
    for partial in journey.partials:
        yield timeline.at(partial.begin, {"name": "partial result", "ph": "n", **place})
    end = journey.answer or journey.refuse
    if end is not None and (failure := failure_of(timeline, end)) is not None:
        yield timeline.at(end.begin, {"name": failure, "ph": "n", **place})


def _nested(timeline: Timeline, span: Span, place: Event) -> Iterator[Event]:
    args = {"args": span.args} if span.args else {}
    yield timeline.at(span.begin, {"name": span.name, "ph": "b", **place, **args})
    for part in span.parts:
        yield from _nested(timeline, part, place)
    yield timeline.at(span.end, {"name": span.name, "ph": "e", **place})


def arrows(timeline: Timeline, journey: Journey) -> Iterator[Event]:
    """Lead from the slice that submitted a request to each that ran it, and to the one that returned it."""
    stops = [(journey.submit.begin, journey.submit.thread)]
    for record in journey.batches:
        run = timeline.runs[record.batch]
        stops.append((run.begin, run.first.thread))
    if journey.returned is not None:
        stops.append((journey.returned.begin, journey.returned.thread))
    if len(stops) == 1:
        return
    stops.sort()
    for position, (time, thread) in enumerate(stops):
        is_last = position == len(stops) - 1
        phase = "s" if position == 0 else "f" if is_last else "t"
        event: Event = {"name": "request", "cat": "request", "ph": phase, "id": journey.request}
        if is_last:
            event["bp"] = "e"  # it ends in the slice around it, not in the next one
        yield timeline.at(time, {**event, **timeline.tracks[thread].place})


def counters(timeline: Timeline) -> Iterator[Event]:
    """Yield how many requests are inside, in all and at each node, and how many wait in its queue.

    Those that were inside before the recording count in the queues alone.
    """
    end = timeline.recording.end
    stays: dict[int, list[tuple[int, int]]] = {node: [] for node in range(len(timeline.recording.nodes))}
    whole = []
    for journey in timeline.journeys:
        over = end if journey.answered is None else journey.answered
        if not journey.submit.batch:  # elements stand in the place of their request
            whole.append((journey.submit.begin, over))
        for stay in stays_of(journey, end):
            stays[stay.node].append((stay.begin, min(stay.end, max(over, stay.begin))))
    yield from _counter(timeline, "requests inside", _levels(whole))
    for node, name in enumerate(timeline.recording.nodes):
        waiting = [
            (record.begin, record.value)
            for record in timeline.recording.records("queue")
            if record.node == node
        ]
        yield from _counter(timeline, f"inside: {name}", _levels(stays[node]))
        yield from _counter(timeline, f"waiting: {name}", sorted(waiting))


def _levels(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return how many intervals hold at a time, for each time when that changes."""
    changes: Counter[int] = Counter()
    for begin, end in intervals:
        changes[begin] += 1
        changes[end] -= 1
    level = 0
    return [(time, level := level + changes[time]) for time in sorted(changes)]


def _counter(timeline: Timeline, name: str, values: Iterable[tuple[int, int]]) -> Iterator[Event]:
    for time, value in values:
        event = {"name": name, "ph": "C", "pid": PIPELINE, "tid": 0, "args": {"requests": value}}
        yield timeline.at(time, event)
