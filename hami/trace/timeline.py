"""What the rows of a timeline share: where its time begins, its tracks, and how an event is put down."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .recording import Recording, journeys_of, runs_of

Event = dict[str, Any]

# What a viewer shows as processes, in this order.
PIPELINE, INSTANCES, CALLERS, REQUESTS, FIRST_GPU = 1, 2, 3, 4, 10


class Track(NamedTuple):
    """The row of one thread: its process and number within the file, and what it is called."""

    pid: int
    tid: int
    name: str

    @property
    def place(self) -> Event:
        """The keys that put an event on it."""
        return {"pid": self.pid, "tid": self.tid}


class Timeline:
    """A recording together with what every row of it needs. Times in events are microseconds from 0 on."""

    def __init__(self, recording: Recording, thread_names: Mapping[int, str]) -> None:
        """`thread_names`: what Python calls threads, by their native ids."""
        self.recording = recording
        self.runs = runs_of(recording)
        self.journeys = journeys_of(recording)
        # The pipeline was made before, be it long before: that is shown right before the rest.
        self.origin = recording.begin - sum(made.end - made.begin for made in recording.made)
        self.tracks = dict(self._tracks(thread_names))

    def _tracks(self, thread_names: Mapping[int, str]) -> Iterator[tuple[int, Track]]:
        for tid, thread in enumerate(self.recording.threads, start=1):
            instance = next((record for record in thread.records if record.instance >= 0), None)
            if instance is not None:
                name = f"{self.recording.node_name(instance)}, instance {instance.instance}"
                yield thread.number, Track(INSTANCES, tid, name)
            else:
                name = thread_names.get(thread.native_id, f"{thread.name} {thread.native_id}")
                yield thread.number, Track(CALLERS, tid, name)

    def microseconds(self, time_ns: int) -> float:
        """Return a time of the monotonic clock as the file has it."""
        return (time_ns - self.origin) / 1000

    def at(self, time_ns: int, event: Event) -> Event:
        """Return the event at that time."""
        return {"ts": self.microseconds(time_ns), **event}

    def slice(self, begin: int, end: int, name: str, category: str, place: Event, args: Event) -> Event:
        """Return a slice of a track."""
        event = {"name": name, "cat": category, "ph": "X", "dur": (max(begin, end) - begin) / 1000}
        return self.at(begin, {**event, **place, "args": args})


def metadata(pid: int, tid: int, kind: str, **args: Any) -> Event:
    """Return an event that names or orders a process or a track."""
    return {"name": kind, "ph": "M", "pid": pid, "tid": tid, "args": args}


def process(pid: int, name: str) -> Iterator[Event]:
    """Yield what names a process and puts it in its place."""
    yield metadata(pid, 0, "process_name", name=name)
    yield metadata(pid, 0, "process_sort_index", sort_index=pid)


def natural(text: str) -> list[tuple[int, str]]:
    """Return a key that puts `b, instance 10` behind `b, instance 9`."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", text)]
