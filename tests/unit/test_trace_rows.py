"""Records become events of Chrome's trace format: tracks, slices, arrows, counters, and the file."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from trace_format import Event, request_spans, select, track_name, violations
from trace_records import BEGIN, END, Row, one_request, recording_of, row

from hami.trace.chrome import chrome_trace, write
from hami.trace.recording import Interval


def events_of(*threads: list[Row], names: dict[int, str] | None = None, **facts: Any) -> list[Event]:
    """Return the events of a recording, which are in order."""
    events: list[Event] = chrome_trace(recording_of(*threads, **facts), names or {})["traceEvents"]
    assert violations(events) == []
    return events


def at(time_ns: int) -> float:
    return (time_ns - BEGIN) / 1000


# --- threads ---


def test_an_instance_has_a_track_with_its_runs() -> None:
    events = events_of(*one_request())

    [run] = select(events, "X", "decode")
    assert track_name(events, run) == "decode, instance 0"
    assert (run["ts"], run["dur"], run["cat"]) == (at(2_500), 0.4, "forward")
    assert run["args"] == {"batch": 7, "items": 1, "rows": 1, "released": "full", "requests": [1]}


def test_a_run_lists_its_requests_and_why_it_was_released() -> None:
    rows = [
        row("submit", 2_000, 2_010, request=1, value=2),
        row("submit", 2_020, 2_030, request=2, value=3),
        row("batch", 2_040, 2_100, detail=1, node=0, instance=2, request=1, batch=5, value=2),
        row("batch", 2_041, 2_100, detail=1, node=0, instance=2, request=2, batch=5, value=3),
        row("batch", 1_500, 2_100, detail=1, node=0, instance=2, batch=5, value=4),  # came before
        row("forward", 2_100, 2_200, detail=1, node=0, instance=2, batch=5, value=9),
    ]

    [run] = select(events_of(rows), "X", "decode")

    assert run["args"] == {"batch": 5, "items": 3, "rows": 9, "released": "timeout", "requests": [1, 2]}


def test_a_run_in_place_is_on_the_track_of_its_thread() -> None:
    rows = [
        row("submit", 2_000, 2_010, request=1, value=1),
        row("batch", 2_100, 2_100, detail=3, node=0, request=1, batch=5, value=1),
        row("forward", 2_100, 2_200, detail=3, node=0, batch=5, value=1),
    ]

    events = events_of(rows, names={101: "MainThread"})

    [run] = select(events, "X", "decode")
    assert track_name(events, run) == "MainThread"
    assert run["args"]["released"] == "in_place"


def test_waiting_for_the_gil_stands_beside_python_inside_the_run() -> None:
    events = events_of(*one_request())

    [run] = select(events, "X", "decode")
    [waiting] = select(events, "X", "wait for the GIL")
    [python] = select(events, "X", "python")
    assert (waiting["ts"], waiting["dur"]) == (at(2_510), 0.09)
    assert (python["ts"], python["dur"]) == (at(2_600), 0.28)
    assert {event["tid"] for event in (run, waiting, python)} == {run["tid"]}


def test_a_run_that_does_not_come_back_reaches_to_the_end() -> None:
    rows = [row("batch", 2_000, 2_100, node=0, instance=0, batch=5, value=1)]

    [run] = select(events_of(rows), "X", "decode")

    assert run["dur"] == (END - 2_100) / 1000
    assert run["args"]["outcome"] == "unfinished"


def test_a_decision_about_several_requests_is_one_slice() -> None:
    rows = [
        row("submit", 2_000, 2_010, request=1, value=1),
        row("submit", 2_020, 2_030, request=2, value=1),
        row("dispatch", 2_040, 2_050, node=0, request=1),
        row("dispatch", 2_040, 2_050, node=1, request=2),
    ]

    [decision] = select(events_of(rows), "X", "dispatch")

    assert decision["args"] == {"requests": [1, 2], "to": ["decode", "detect"]}


def test_tracks_of_instances_come_in_the_order_of_their_numbers() -> None:
    def thread(instance: int) -> list[Row]:
        return [row("batch", 2_000, 2_100, node=0, instance=instance, batch=instance + 1, value=1)]

    events = events_of(thread(10), thread(9), thread(1))

    order = {event["tid"]: event["args"]["sort_index"] for event in select(events, "M", "thread_sort_index")}
    runs = sorted(select(events, "X", "decode"), key=lambda run: order[run["tid"]])
    assert [track_name(events, run) for run in runs] == [
        "decode, instance 1",
        "decode, instance 9",
        "decode, instance 10",
    ]


def test_a_thread_that_python_does_not_know_goes_by_the_kernels_name() -> None:
    events = events_of([row("submit", 2_000, 2_010, request=1, value=1)])

    [submit] = select(events, "X", "submit")
    assert track_name(events, submit) == "thread1 101"


@pytest.mark.parametrize(
    ("record", "name"),
    [
        (row("answer", 2_500, detail=1, request=1), "error"),
        (row("answer", 2_500, detail=2, request=1), "deadline exceeded"),
        (row("answer", 2_500, detail=3, request=1), "cancelled"),
        (row("answer", 2_500, detail=4, request=1), "closed"),
        (row("refuse", 2_500, request=1), "refused"),
    ],
)
def test_a_failure_is_a_moment_on_its_thread_and_in_its_request(record: Row, name: str) -> None:
    events = events_of([row("submit", 2_000, 2_010, request=1, value=1), record])

    [on_thread], [in_request] = select(events, "i"), select(events, "n")
    assert on_thread["name"] == in_request["name"] == name
    assert on_thread["ts"] == in_request["ts"] == at(2_500)
    assert on_thread["args"] == {"request": 1}


def test_an_answer_that_is_well_is_no_moment() -> None:
    assert select(events_of(*one_request()), "i") == []


# --- requests ---


def test_a_request_has_a_track_with_its_stations() -> None:
    [request] = request_spans(events_of(*one_request()))

    assert request.names() == ["submit", "dispatch", ("decode", ["batch", "forward", "notify"]), "return"]
    assert request.length == 1_050


def test_an_arrow_leads_from_the_submission_over_the_run_to_the_return() -> None:
    events = events_of(*one_request())

    phases = [(event["ph"], event["ts"]) for event in events if event["ph"] in "stf"]
    assert phases == [("s", at(2_000)), ("t", at(2_500)), ("f", at(2_990))]
    caller, instance, back = (event["tid"] for event in events if event["ph"] in "stf")
    assert caller == back != instance


def test_a_request_that_ran_nowhere_has_no_arrow() -> None:
    events = events_of([row("submit", 2_000, 2_010, request=1, value=1)])

    assert [event for event in events if event["ph"] in "stf"] == []


def test_partial_results_are_moments_in_the_request() -> None:
    caller, instance = one_request()
    instance.append(row("partial", 2_700, node=0, request=1))

    [partial] = select(events_of(caller, instance), "n")

    assert (partial["name"], partial["ts"]) == ("partial result", at(2_700))


def test_branches_are_tracks_of_their_own() -> None:
    rows = [
        row("submit", 2_000, 2_010, request=1, value=1),
        row("dispatch", 2_020, 2_030, node=0, request=1),
        row("dispatch", 2_020, 2_030, node=1, request=1),
        row("settle", 2_100, node=0, request=1),
        row("settle", 2_200, node=1, request=1),
        row("answer", 2_210, request=1),
    ]

    events = events_of(rows)

    assert request_spans(events, 0)[0].names() == ["submit", "dispatch", "decode"]
    assert request_spans(events, 1)[0].names() == ["detect"]


# --- counters ---


def values(events: list[Event], name: str) -> list[tuple[float, int]]:
    return [(event["ts"], event["args"]["requests"]) for event in select(events, "C", name)]


def test_requests_inside_are_counted_from_submit_to_answer() -> None:
    first, second = one_request(1, 7, 2_000), one_request(2, 8, 2_500)

    events = events_of(first[0] + second[0], first[1], second[1])

    assert values(events, "requests inside") == [
        (at(2_000), 1),
        (at(2_500), 2),
        (at(2_960), 1),
        (at(3_460), 0),
    ]


def test_elements_stand_in_the_place_of_their_request() -> None:
    rows = [
        row("submit", 2_000, 2_010, request=1, value=1),
        row("submit", 2_100, 2_110, request=2, batch=1, value=1),
    ]

    assert values(events_of(rows), "requests inside") == [(at(2_000), 1), (at(END), 0)]


def test_each_node_counts_who_stays_there() -> None:
    events = events_of(*one_request())

    assert values(events, "inside: decode") == [(at(2_150), 1), (at(2_940), 0)]
    assert values(events, "inside: detect") == []


def test_the_queue_of_a_node_is_shown_as_the_scheduler_told_it() -> None:
    one = [row("queue", 2_000, node=0, value=3), row("queue", 2_200, node=0, value=0)]
    other = [row("queue", 2_100, node=0, value=5), row("queue", 2_100, node=1, value=9)]

    events = events_of(one, other)

    assert values(events, "waiting: decode") == [(at(2_000), 3), (at(2_100), 5), (at(2_200), 0)]
    assert values(events, "waiting: detect") == [(at(2_100), 9)]


# --- the whole ---


def test_the_making_of_the_pipeline_stands_right_before_the_recording() -> None:
    made = (Interval("parse", 10, 40), Interval("plan", 40, 100), Interval("build", 500, 530))

    events = events_of(*one_request(), made=made)

    parse, plan, build = (select(events, "X", name)[0] for name in ("parse", "plan", "build"))
    assert [(one["ts"], one["dur"]) for one in (parse, plan, build)] == [
        (0.0, 0.03),
        (0.03, 0.06),
        (0.09, 0.03),
    ]
    assert parse["args"]["ago_ms"] == pytest.approx((BEGIN - 10) / 1e6)
    [submit] = select(events, "X", "submit")
    assert submit["ts"] == 0.12 + at(2_000)


def test_what_found_no_room_is_said_in_the_file() -> None:
    content = chrome_trace(recording_of(dropped=12), {})

    [note] = select(content["traceEvents"], "i")
    assert "12 records dropped" in note["name"]
    assert content["otherData"]["dropped_records"] == 12


def test_an_empty_recording_is_a_file_without_slices() -> None:
    events = events_of()

    assert {event["ph"] for event in events} == {"M"}


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_file_reads_back_as_it_was(name: str, tmp_path: Path) -> None:
    content = chrome_trace(recording_of(*one_request()), {})

    write(content, tmp_path / name)

    written = (tmp_path / name).read_bytes()
    text = gzip.decompress(written) if name.endswith(".gz") else written
    assert json.loads(text) == content
    assert text.count(b"\n") > len(content["traceEvents"])  # one event a line


# --- the check can fail ---


BAD: dict[str, list[Event]] = {
    "unknown phase": [{"ph": "Z", "name": "a"}],
    "without": [{"ph": "X", "name": "a", "ts": 1.0, "pid": 1, "tid": 1}],
    "earlier than": [
        {"ph": "i", "name": "a", "ts": 2.0, "pid": 1, "tid": 1, "s": "t"},
        {"ph": "i", "name": "b", "ts": 1.0, "pid": 1, "tid": 1, "s": "t"},
    ],
    "reaches out": [
        {"ph": "X", "name": "a", "cat": "c", "ts": 1.0, "dur": 2.0, "pid": 1, "tid": 1},
        {"ph": "X", "name": "b", "cat": "c", "ts": 2.0, "dur": 2.0, "pid": 1, "tid": 1},
    ],
    "never ends": [{"ph": "b", "name": "a", "cat": "c", "id": 1, "ts": 1.0, "pid": 1, "tid": 1}],
    "innermost": [{"ph": "e", "name": "a", "cat": "c", "id": 1, "ts": 1.0, "pid": 1, "tid": 1}],
    "lies in no slice": [{"ph": "s", "name": "a", "cat": "c", "id": 1, "ts": 1.0, "pid": 1, "tid": 1}],
    "goes": [{"ph": "t", "name": "a", "cat": "c", "id": 1, "ts": 1.0, "pid": 1, "tid": 1}],
    "has no name": [{"ph": "i", "name": "a", "ts": 2.0, "pid": 1, "tid": 1, "s": "t"}],
    "below zero": [{"ph": "C", "name": "a", "ts": 2.0, "pid": 1, "args": {"requests": -1}}],
}


@pytest.mark.parametrize("words", BAD)
def test_the_check_of_the_format_finds(words: str) -> None:
    assert any(words in sentence for sentence in violations(BAD[words]))
