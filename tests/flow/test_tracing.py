"""The timeline of a running pipeline: every station of every request, whatever becomes of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest
from probes import WAIT_S
from trace_format import Event, Span, checked_events, request_spans, select, track_name

import hami


def outcomes(events: list[Event]) -> list[str]:
    return [request.args["outcome"] for request in request_spans(events)]


def leaves(span: Span) -> Iterator[Span]:
    for part in span.parts:
        yield from leaves(part) if part.parts else (part,)


# --- one request ---


def test_a_request_passes_its_stations_in_their_order(open_pipe: Any, probe: Any) -> None:
    probe("TracedOne")
    pipe = open_pipe(
        {"first": {"backend": "TracedOne", "next": "second"}, "second": {"backend": "TracedOne"}}
    )

    with pipe.trace() as trace:
        pipe({"data": 1})

    [request] = request_spans(checked_events(trace))
    stay = ["batch", "forward", "notify"]
    assert request.names() == ["submit", "dispatch", ("first", stay), "dispatch", ("second", stay), "return"]


def test_the_stations_add_up_to_the_request(open_pipe: Any, probe: Any) -> None:
    probe("TracedSum")
    pipe = open_pipe({"backend": "TracedSum"})

    with pipe.trace() as trace:
        pipe({"data": 1})

    [request] = request_spans(checked_events(trace))
    assert sum(span.length for span in leaves(request)) == request.length > 0
    assert trace.stations()["request"].max_ms == pytest.approx(request.length / 1e6)


def test_a_run_in_place_is_a_station_as_well(open_pipe: Any) -> None:
    pipe = open_pipe("Identity")

    with pipe.trace() as trace:
        pipe({"data": 1})

    events = checked_events(trace)
    [request] = request_spans(events)
    assert ("node", ["batch", "forward", "notify"]) in request.names()
    [run] = [event for event in select(events, "X") if event["cat"] == "forward"]
    assert run["args"]["released"] == "in_place"
    assert track_name(events, run) == threading.current_thread().name


def test_making_the_pipeline_comes_first(open_pipe: Any) -> None:
    pipe = open_pipe("Identity")

    with pipe.trace() as trace:
        pipe({"data": 1})

    names = [event["name"] for event in select(checked_events(trace), "X")]
    assert names[:3] == ["parse", "plan", "build"]


def test_a_request_for_one_node_alone_stays_there_only(open_pipe: Any, probe: Any) -> None:
    probe("TracedAlone")
    pipe = open_pipe({"a": {"backend": "TracedAlone", "next": "b"}, "b": {"backend": "TracedAlone"}})

    with pipe.trace() as trace:
        pipe.submit({"data": 1}, node="b").result(WAIT_S)

    [request] = request_spans(checked_events(trace))
    assert [span.name for span in request.parts if span.parts] == ["b"]


def test_every_way_to_call_ends_with_a_return(open_pipe: Any, probe: Any) -> None:
    probe("TracedWays")
    pipe = open_pipe({"backend": "TracedWays", "max": 4})

    with pipe.trace() as trace:
        pipe({"data": 1})
        pipe([{"data": 2}, {"data": 3}])
        pipe.submit({"data": 4}).result(WAIT_S)
        asyncio.run(pipe.acall({"data": 5}))

    requests = request_spans(checked_events(trace))
    assert len(requests) == 5
    assert {request.parts[-1].name for request in requests} == {"return"}


# --- batches ---


def test_a_batch_lists_its_requests_and_arrows_lead_there(open_pipe: Any, probe: Any) -> None:
    traced = probe("TracedBatch", batch_range=(1, 4))
    pipe = open_pipe({"work": {"backend": "TracedBatch", "max": 4}})

    with pipe.trace() as trace:
        plug = traced.plug(pipe)
        futures = [pipe.submit({"data": i}) for i in range(4)]
        traced.open()
        for future in (plug, *futures):
            future.result(WAIT_S)

    events = checked_events(trace)
    runs = [event for event in select(events, "X", "work") if event["cat"] == "forward"]
    assert [run["args"]["items"] for run in runs] == [1, 4]
    assert runs[1]["args"]["released"] == "full"
    assert len(set(runs[1]["args"]["requests"])) == 4
    arrows = [event["id"] for event in select(events, "t") if event["tid"] == runs[1]["tid"]]
    assert set(runs[1]["args"]["requests"]) <= set(arrows)
    assert track_name(events, runs[1]) == "work, instance 0"


def test_the_run_of_a_request_is_the_run_of_its_batch(open_pipe: Any, probe: Any) -> None:
    probe("TracedPair", batch_range=(1, 8))
    pipe = open_pipe({"work": {"backend": "TracedPair", "max": 8}})

    with pipe.trace() as trace:
        pipe([{"data": i} for i in range(20)])

    events = checked_events(trace)
    runs = {event["args"]["batch"]: event for event in select(events, "X", "work")}
    requests = request_spans(events)
    assert len(requests) == 20
    for request in requests:
        [forward] = request.find(lambda span: span.name == "forward")
        run = runs[forward.args["batch"]]
        assert request.args["request"] in run["args"]["requests"]
        assert forward.begin == round(run["ts"] * 1000)
        assert forward.length == round(run["dur"] * 1000)


def test_each_instance_has_a_track(open_pipe: Any, probe: Any) -> None:
    traced = probe("TracedMany")
    pipe = open_pipe({"work": {"backend": "TracedMany", "instance_num": 2}})

    with pipe.trace() as trace:
        traced.shut()
        futures = [pipe.submit({"data": i}) for i in range(2)]
        traced.wait_for_runs(2)
        traced.open()
        for future in futures:
            future.result(WAIT_S)

    events = checked_events(trace)
    tracks = {track_name(events, run) for run in select(events, "X", "work")}
    assert tracks == {"work, instance 0", "work, instance 1"}


def test_counters_follow_the_queue(open_pipe: Any, probe: Any) -> None:
    traced = probe("TracedQueue")
    pipe = open_pipe({"work": {"backend": "TracedQueue"}})

    with pipe.trace() as trace:
        plug = traced.plug(pipe)
        futures = [pipe.submit({"data": i}) for i in range(3)]
        traced.open()
        for future in (plug, *futures):
            future.result(WAIT_S)

    events = checked_events(trace)
    waiting = [event["args"]["requests"] for event in select(events, "C", "waiting: work")]
    inside = [event["args"]["requests"] for event in select(events, "C", "requests inside")]
    assert (max(waiting), waiting[-1]) == (3, 0)
    assert (max(inside), inside[-1]) == (4, 0)


# --- ends that are no results ---


def test_an_error_is_said_in_the_request_and_on_the_thread(open_pipe: Any, probe: Any) -> None:
    def fail(item: dict[str, Any]) -> None:
        raise ValueError(item["data"])

    probe("TracedError", fail)
    pipe = open_pipe({"backend": "TracedError"})

    with pipe.trace() as trace, pytest.raises(ValueError, match="1"):
        pipe({"data": 1})

    events = checked_events(trace)
    assert outcomes(events) == ["error"]
    assert [event["name"] for event in select(events, "i")] == ["error"]


def test_a_deadline_ends_the_request_and_not_the_run(open_pipe: Any, probe: Any) -> None:
    traced = probe("TracedLate")
    pipe = open_pipe({"work": {"backend": "TracedLate"}})

    with pipe.trace() as trace:
        traced.shut()
        with pytest.raises(hami.DeadlineExceeded):
            pipe({"data": 1, "deadline_ms": 20})
        traced.open()
        pipe({"data": 2})  # after the run of the first

    events = checked_events(trace)
    assert outcomes(events) == ["deadline_exceeded", "ok"]
    late = request_spans(events)[0]
    run = select(events, "X", "work")[0]
    assert (run["ts"] + run["dur"]) * 1000 > late.end
    assert [event["name"] for event in select(events, "i")] == ["deadline exceeded"]


def test_a_cancelled_request_ends_where_it_waits(open_pipe: Any, probe: Any) -> None:
    traced = probe("TracedCancel")
    pipe = open_pipe({"work": {"backend": "TracedCancel"}})

    with pipe.trace() as trace:
        plug = traced.plug(pipe)
        waiting = pipe.submit({"data": 1})
        assert waiting.cancel()
        with pytest.raises(CancelledError):
            waiting.result(WAIT_S)
        traced.open()
        plug.result(WAIT_S)

    events = checked_events(trace)
    assert outcomes(events) == ["ok", "cancelled"]
    cancelled = request_spans(events)[1]
    assert cancelled.find(lambda span: span.name == "forward") == []


def test_a_request_that_finds_no_place_is_refused(open_pipe: Any, probe: Any) -> None:
    traced = probe("TracedFull")
    pipe = open_pipe({"work": {"backend": "TracedFull", "queue_capacity": 1}})

    with pipe.trace() as trace:
        plug = traced.plug(pipe)
        waiting = pipe.submit({"data": 1})
        with pytest.raises(hami.QueueFull):
            pipe.submit({"data": 2})
        traced.open()
        plug.result(WAIT_S)
        waiting.result(WAIT_S)

    events = checked_events(trace)
    assert outcomes(events) == ["ok", "ok", "refused"]
    assert request_spans(events)[2].names() == ["submit"]


def test_closing_a_pipeline_meanwhile_ends_what_is_inside(open_pipe: Any, probe: Any) -> None:
    traced = probe("TracedClose")
    pipe = open_pipe({"work": {"backend": "TracedClose"}})

    with pipe.trace() as trace:
        plug = traced.plug(pipe)
        waiting = pipe.submit({"data": 1})
        pipe.close(timeout=0)
        for future in (plug, waiting):
            with pytest.raises(hami.Closed):
                future.result(WAIT_S)
        traced.open()

    events = checked_events(trace)
    assert outcomes(events) == ["closed", "closed"]


def test_what_is_inside_at_the_end_is_unfinished(open_pipe: Any, probe: Any) -> None:
    traced = probe("TracedInside")
    pipe = open_pipe({"work": {"backend": "TracedInside"}})

    with pipe.trace() as trace:
        plug = traced.plug(pipe)
    traced.open()
    plug.result(WAIT_S)

    events = checked_events(trace)
    assert outcomes(events) == ["unfinished"]
    [run] = select(events, "X", "work")
    assert run["args"]["outcome"] == "unfinished"


def test_what_was_inside_at_the_beginning_is_no_request_but_in_its_batch(open_pipe: Any, probe: Any) -> None:
    traced = probe("TracedBefore", batch_range=(1, 4))
    pipe = open_pipe({"work": {"backend": "TracedBefore", "max": 4}})
    plug = traced.plug(pipe)
    waiting = pipe.submit({"data": 1})

    with pipe.trace() as trace:
        traced.open()
        plug.result(WAIT_S)
        waiting.result(WAIT_S)

    events = checked_events(trace)
    assert request_spans(events) == []
    [run] = select(events, "X", "work")
    assert (run["args"]["items"], run["args"]["requests"]) == (1, [])
