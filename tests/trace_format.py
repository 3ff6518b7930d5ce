"""A strict check of files in Chrome's trace format, and small questions about the events in them.

`violations` returns sentences; nothing means that a viewer can draw every event in its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hami.trace import Trace

Event = dict[str, Any]

PHASES = {"X", "b", "n", "e", "s", "t", "f", "C", "M", "i"}
_NEEDED = {
    "X": {"name", "cat", "ts", "dur", "pid", "tid"},
    "b": {"name", "cat", "id", "ts", "pid", "tid"},
    "n": {"name", "cat", "id", "ts", "pid", "tid"},
    "e": {"name", "cat", "id", "ts", "pid", "tid"},
    "s": {"name", "cat", "id", "ts", "pid", "tid"},
    "t": {"name", "cat", "id", "ts", "pid", "tid"},
    "f": {"name", "cat", "id", "ts", "pid", "tid", "bp"},
    "C": {"name", "ts", "pid", "args"},
    "M": {"name", "pid", "tid", "args"},
    "i": {"name", "ts", "pid", "tid", "s"},
}


def ns(microseconds: float) -> int:
    """Return a time of a file in the nanoseconds that it was made of."""
    return round(microseconds * 1000)


def violations(events: list[Event]) -> list[str]:
    """Return what is wrong with the events of a file."""
    found = list(_forms(events))
    if not found:
        for check in (_times, _slices, _spans, _arrows, _names, _counters):
            found += check(events)
    return found


def _forms(events: Iterable[Event]) -> Iterator[str]:
    for event in events:
        phase = event.get("ph")
        if phase not in PHASES:
            yield f"unknown phase: {event}"
        elif missing := _NEEDED[phase] - set(event):
            yield f"without {sorted(missing)}: {event}"


def _times(events: Iterable[Event]) -> Iterator[str]:
    last = 0.0
    for event in events:
        if event["ph"] == "M":
            continue
        if event["ts"] < last:
            yield f"earlier than the event before it: {event}"
        if event.get("dur", 0) < 0:
            yield f"ends before it begins: {event}"
        last = event["ts"]


def _slices(events: Iterable[Event]) -> Iterator[str]:
    """Slices of one track nest: one that begins inside another ends inside it."""
    open_ends: dict[tuple[int, int], list[int]] = {}
    for event in events:
        if event["ph"] != "X":
            continue
        begin = ns(event["ts"])
        end = begin + ns(event["dur"])
        stack = open_ends.setdefault((event["pid"], event["tid"]), [])
        while stack and stack[-1] <= begin:
            stack.pop()
        if stack and end > stack[-1]:
            yield f"reaches out of the slice around it: {event}"
        stack.append(end)


def _spans(events: Iterable[Event]) -> Iterator[str]:
    """Every `b` has its `e`, the innermost first, and nothing stands outside."""
    stacks: dict[tuple[Any, ...], list[str]] = {}
    for event in events:
        if event["ph"] not in "bne":
            continue
        stack = stacks.setdefault((event["pid"], event["cat"], event["id"]), [])
        if event["ph"] == "b":
            stack.append(event["name"])
        elif event["ph"] == "e" and (not stack or stack.pop() != event["name"]):
            yield f"ends what is not the innermost open span: {event}"
    for key, stack in stacks.items():
        if stack:
            yield f"never ends: {stack} of {key}"


def _arrows(events: list[Event]) -> Iterator[str]:
    """Each arrow has one beginning and one end, and every point of it lies in a slice of its track."""
    slices: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for event in events:
        if event["ph"] == "X":
            begin = ns(event["ts"])
            track = slices.setdefault((event["pid"], event["tid"]), [])
            track.append((begin, begin + ns(event["dur"])))
    arrows: dict[tuple[Any, Any], list[str]] = {}
    for event in events:
        if event["ph"] not in "stf":
            continue
        arrows.setdefault((event["cat"], event["id"]), []).append(event["ph"])
        time = ns(event["ts"])
        track = slices.get((event["pid"], event["tid"]), [])
        if not any(begin <= time <= end for begin, end in track):
            yield f"lies in no slice: {event}"
    for key, phases in arrows.items():
        if phases[0] != "s" or phases[-1] != "f" or set(phases[1:-1]) - {"t"}:
            yield f"arrow {key} goes {phases}"


def _names(events: list[Event]) -> Iterator[str]:
    """Each process, and each track of slices, has one name."""
    processes: dict[int, int] = {}
    threads: dict[tuple[int, int], int] = {}
    for event in events:
        if event["ph"] == "M" and event["name"] == "process_name":
            processes[event["pid"]] = processes.get(event["pid"], 0) + 1
        elif event["ph"] == "M" and event["name"] == "thread_name":
            key = (event["pid"], event["tid"])
            threads[key] = threads.get(key, 0) + 1
    for event in events:
        if event["ph"] != "M" and processes.get(event["pid"]) != 1:
            yield f"of a process that has no name, or several: {event}"
        if event["ph"] == "X" and threads.get((event["pid"], event["tid"])) != 1:
            yield f"on a track that has no name, or several: {event}"


def _counters(events: Iterable[Event]) -> Iterator[str]:
    for event in events:
        if event["ph"] == "C" and any(value < 0 for value in event["args"].values()):
            yield f"counts below zero: {event}"


# --- questions ---


def checked_events(trace: Trace) -> list[Event]:
    """Return the events of a trace, which keep every rule of the format."""
    events = trace.events()
    assert violations(events) == []
    return events


def select(events: Iterable[Event], phase: str, name: str | None = None) -> list[Event]:
    """Return the events of that phase, and of that name if there is one."""
    return [event for event in events if event["ph"] == phase and name in (None, event["name"])]


def track_name(events: Iterable[Event], event: Event) -> str:
    """Return what the track of a slice is called."""
    for named in select(events, "M", "thread_name"):
        if (named["pid"], named["tid"]) == (event["pid"], event["tid"]):
            return str(named["args"]["name"])
    raise AssertionError(f"no track of {event}")


class Span:
    """A span of an asynchronous track with those inside it."""

    def __init__(self, event: Event) -> None:
        self.name: str = event["name"]
        self.args: dict[str, Any] = event.get("args", {})
        self.begin = ns(event["ts"])
        self.end = self.begin
        self.parts: list[Span] = []

    @property
    def length(self) -> int:
        """In nanoseconds."""
        return self.end - self.begin

    def names(self) -> list[Any]:
        """Return the names inside, each with those inside it if there are any."""
        return [part.name if not part.parts else (part.name, part.names()) for part in self.parts]

    def find(self, accepts: Callable[[Span], bool]) -> list[Span]:
        """Return all spans inside that are accepted."""
        inside = [span for part in self.parts for span in part.find(accepts)]
        return [span for span in self.parts if accepts(span)] + inside


def request_spans(events: Iterable[Event], lane: int = 0) -> list[Span]:
    """Return the outermost span of each request, or of its further branch, in the order of time."""
    spans: list[Span] = []
    stacks: dict[str, list[Span]] = {}
    for event in events:
        if event["ph"] not in "be" or not str(event["id"]).endswith(f".{lane}"):
            continue
        stack = stacks.setdefault(event["id"], [])
        if event["ph"] == "b":
            span = Span(event)
            (stack[-1].parts if stack else spans).append(span)
            stack.append(span)
        else:
            stack.pop().end = ns(event["ts"])
    return spans
