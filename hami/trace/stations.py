"""The stations of a request as spans without a gap between them: the rows of requests in a timeline.

submit, dispatch and return stand beside the stays at the nodes; a stay is divided into batch (waiting for a
run), forward and notify. Where a graph branches, stays overlap, and each further branch gets a lane.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from .recording import Journey, Record, Recording, Run, by_node, journeys_of, runs_of

STATIONS = ("submit", "dispatch", "batch", "forward", "notify", "return")


@dataclass
class Span:
    """A station, or a stay at a node, named after the node; `parts` lie inside, one after another."""

    name: str
    begin: int
    end: int
    args: dict[str, Any] = field(default_factory=dict)
    parts: list[Span] = field(default_factory=list)
    is_stay: bool = False

    @property
    def length(self) -> int:
        """How long it lasts, in nanoseconds."""
        return self.end - self.begin

    def walk(self) -> Iterator[Span]:
        """Yield the span and all that lie inside it."""
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass
class Stay:
    """A request at one node: from the decision that it goes there to the moment when it goes on."""

    node: int
    begin: int
    end: int
    is_settled: bool
    batch: Record | None = None
    hold: Record | None = None


def stays_of(journey: Journey, horizon: int) -> list[Stay]:
    """Return the stays of a request, those that never ended up to `horizon`."""
    settles, batches, holds = (
        by_node(records) for records in (journey.settles, journey.batches, journey.holds)
    )
    stays = []
    for dispatch in journey.dispatches:
        ended = settles.get(dispatch.node)
        settle = ended.popleft() if ended else None
        stay = Stay(
            dispatch.node,
            dispatch.end,
            horizon if settle is None else settle.begin,
            settle is not None,
        )
        for name, waiting in (("batch", batches.get(stay.node)), ("hold", holds.get(stay.node))):
            if waiting and waiting[0].end <= stay.end:
                setattr(stay, name, waiting.popleft())
        stays.append(stay)
    return stays


def spans_of(journey: Journey, recording: Recording, runs: Mapping[int, Run]) -> list[Span]:
    """Return one span for each lane; the first one is the request, from submit to return.

    What goes on after the answer, such as the run of a request that was cancelled, is cut off there.
    """
    end = journey.end(recording.end)
    answered = end if journey.answered is None else min(journey.answered, end)
    whole = Span("request", journey.submit.begin, end, _args(journey, recording))
    first = journey.dispatches[0].begin if journey.dispatches and journey.refuse is None else answered
    parts = [Span("submit", whole.begin, max(whole.begin, min(first, answered)))]
    if journey.refuse is None:
        parts += _walk(journey, recording, runs, answered)
    if journey.returned is not None:
        parts.append(Span("return", answered, end))
    lanes = _lanes(parts)
    whole.parts = lanes[0]
    branches = [
        Span("branch", lane[0].begin, lane[-1].end, {"request": journey.request}, lane) for lane in lanes[1:]
    ]
    return [whole, *branches]


def _args(journey: Journey, recording: Recording) -> dict[str, Any]:
    args: dict[str, Any] = {"request": journey.request, "rows": journey.submit.value}
    if journey.submit.batch:
        args["element_of"] = journey.submit.batch
    if journey.refuse is not None:
        args["outcome"] = "refused"
    elif journey.answer is None:
        args["outcome"] = "unfinished"
    else:
        args["outcome"] = recording.outcomes[journey.answer.detail]
    return args


def _walk(journey: Journey, recording: Recording, runs: Mapping[int, Run], answered: int) -> Iterator[Span]:
    """Yield the decisions and the stays up to the answer."""
    decisions = {(record.begin, record.end) for record in journey.dispatches}
    for begin, end in sorted(decisions):
        if begin < answered:
            yield Span("dispatch", begin, min(end, answered))
    stays = stays_of(journey, recording.end)
    # What the end of the last stay sets in motion is the answer.
    last = max((stay.end for stay in stays), default=0)
    is_over = journey.answer is not None and all(stay.is_settled for stay in stays)
    for stay in stays:
        if stay.begin >= answered:
            continue
        end = answered if is_over and stay.end == last else min(stay.end, answered)
        name = recording.nodes[stay.node]
        yield Span(name, stay.begin, end, {}, list(_parts(stay, end, runs)), is_stay=True)


def _parts(stay: Stay, end: int, runs: Mapping[int, Run]) -> Iterator[Span]:
    if stay.hold is not None:
        done = max(stay.begin, min(stay.hold.end, end))
        yield Span("forward", stay.begin, done)
        yield Span("notify", done, end)
    elif stay.batch is not None:
        run = runs[stay.batch.batch]
        begin = max(stay.begin, min(run.begin, end))
        done = end if run.end is None else max(begin, min(run.end, end))
        yield Span("batch", stay.begin, begin)
        yield Span("forward", begin, done, {"batch": stay.batch.batch, "rows": run.num_rows})
        yield Span("notify", done, end)


def _lanes(spans: Iterable[Span]) -> list[list[Span]]:
    """Divide spans among as few rows as they need, so that those of one row follow one another."""
    lanes: list[list[Span]] = []
    for span in sorted(spans, key=lambda span: (span.begin, span.end)):
        free = next((lane for lane in lanes if lane[-1].end <= span.begin), None)
        if free is None:
            lanes.append([span])
        else:
            free.append(span)
    return lanes


@dataclass(frozen=True)
class StationTimes:
    """How often requests passed a station, and how long they took: in milliseconds."""

    count: int
    mean_ms: float
    p50_ms: float
    p99_ms: float
    max_ms: float


def station_times(recording: Recording) -> dict[str, StationTimes]:
    """Return the times of the stations, and of whole requests; elements of a ForEach count as requests."""
    runs = runs_of(recording)
    lengths: dict[str, list[int]] = {name: [] for name in (*STATIONS, "request")}
    for journey in journeys_of(recording):
        for lane in spans_of(journey, recording, runs):
            for span in lane.walk():
                if span.name in lengths and not span.is_stay:
                    lengths[span.name].append(span.length)
    return {name: _times(sorted(found)) for name, found in lengths.items() if found}


def _times(lengths: list[int]) -> StationTimes:
    def at(part: float) -> float:
        return lengths[min(len(lengths) - 1, int(part * len(lengths)))] / 1e6

    mean_ms = sum(lengths) / len(lengths) / 1e6
    return StationTimes(len(lengths), mean_ms, at(0.5), at(0.99), lengths[-1] / 1e6)
