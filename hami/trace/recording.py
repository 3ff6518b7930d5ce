"""What the core recorded, read from its own layout: threads with their records, in nanoseconds.

`Recording.of` takes what `_core.Pipeline._stop_trace` returns; `journeys` sorts the records by request.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Record(NamedTuple):
    """One record of the core (`csrc/core/trace.h`); its times are nanoseconds of the monotonic clock."""

    kind: str
    detail: int
    node: int
    instance: int
    begin: int
    end: int
    request: int
    batch: int
    value: int
    thread: int


class Interval(NamedTuple):
    """Something that took time before there was anything to record it; nanoseconds of the same clock."""

    name: str
    begin: int
    end: int


@dataclass(frozen=True)
class Thread:
    """A thread that passed some station; its records by their beginnings, of equals the longer first."""

    number: int
    native_id: int
    handle: int
    name: str
    records: list[Record]


@dataclass(frozen=True)
class Recording:
    """Everything that was recorded from `begin` to `end`; `made` is how the pipeline came about before."""

    nodes: list[str]
    outcomes: list[str]
    threads: list[Thread]
    begin: int
    end: int
    num_dropped: int = 0
    pipeline: str = ""
    made: tuple[Interval, ...] = ()

    @classmethod
    def of(cls, rows: Mapping[str, Any], pipeline: str, made: tuple[Interval, ...]) -> Recording:
        """Read what the core returns. What had begun before the recording is left out."""
        kinds = rows["kinds"]
        threads = []
        for number, native_id, handle, name, content in rows["threads"]:
            read = (
                Record._make((kinds[kind], *rest, number))
                for kind, *rest in struct.iter_unpack(rows["layout"], content)
            )
            records = sorted(
                (record for record in read if record.kind == "batch" or record.begin >= rows["begin_ns"]),
                key=lambda record: (record.begin, -record.end),
            )
            threads.append(Thread(number, native_id, handle, name, records))
        return cls(
            rows["nodes"],
            rows["outcomes"],
            threads,
            rows["begin_ns"],
            rows["end_ns"],
            rows["dropped"],
            pipeline,
            made,
        )

    def records(self, kind: str) -> Iterator[Record]:
        """Yield all records of that kind, thread by thread."""
        for thread in self.threads:
            for record in thread.records:
                if record.kind == kind:
                    yield record

    def node_name(self, record: Record) -> str:
        """Return the name of the node of a record."""
        return self.nodes[record.node] if record.node >= 0 else "?"


@dataclass
class Run:
    """One run of a batch on one instance, or in place; `end` is None while it lasts."""

    first: Record
    end: int | None = None
    requests: list[int] = field(default_factory=list)
    num_items: int = 0
    num_rows: int = 0

    @property
    def begin(self) -> int:
        """When its items stopped waiting."""
        return self.first.end


def runs_of(recording: Recording) -> dict[int, Run]:
    """Return the runs by number. Their items tell that they began, a record of their own that they ended."""
    runs: dict[int, Run] = {}
    for record in recording.records("batch"):
        run = runs.setdefault(record.batch, Run(record))
        run.num_items += 1
        run.num_rows += record.value
        if record.request:
            run.requests.append(record.request)
    for record in recording.records("forward"):
        if record.batch in runs:
            runs[record.batch].end = record.end
    return runs


@dataclass
class Journey:
    """The records of one request, each kind in the order of time."""

    submit: Record
    dispatches: list[Record] = field(default_factory=list)
    batches: list[Record] = field(default_factory=list)
    holds: list[Record] = field(default_factory=list)
    settles: list[Record] = field(default_factory=list)
    partials: list[Record] = field(default_factory=list)
    refuse: Record | None = None
    answer: Record | None = None
    returned: Record | None = None

    @property
    def request(self) -> int:
        """Its number."""
        return self.submit.request

    @property
    def answered(self) -> int | None:
        """When it was answered or refused, or None."""
        end = self.answer or self.refuse
        return None if end is None else end.begin

    def end(self, horizon: int) -> int:
        """Return when it was over for its caller; `horizon` for one that is not."""
        if self.returned is not None:
            return self.returned.end
        return horizon if self.answered is None else self.answered


_LISTS = {
    "dispatch": "dispatches",
    "batch": "batches",
    "hold": "holds",
    "settle": "settles",
    "partial": "partials",
}
_SINGLES = {"refuse": "refuse", "answer": "answer", "return": "returned"}


def journeys_of(recording: Recording) -> list[Journey]:
    """Return the requests that were submitted during the recording, in the order of their submission."""
    found = {record.request: Journey(record) for record in recording.records("submit")}
    for thread in recording.threads:
        for record in thread.records:
            journey = found.get(record.request)
            if journey is None:
                continue
            if record.kind in _LISTS:
                getattr(journey, _LISTS[record.kind]).append(record)
            elif record.kind in _SINGLES and getattr(journey, _SINGLES[record.kind]) is None:
                setattr(journey, _SINGLES[record.kind], record)
    for journey in found.values():
        for name in _LISTS.values():
            getattr(journey, name).sort(key=lambda record: record.end)
    return sorted(found.values(), key=lambda journey: journey.submit.begin)


def by_node(records: Iterable[Record]) -> dict[int, deque[Record]]:
    """Return the records of each node, in the same order."""
    sorted_out: dict[int, deque[Record]] = {}
    for record in records:
        sorted_out.setdefault(record.node, deque()).append(record)
    return sorted_out
