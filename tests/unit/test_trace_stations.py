"""Records become spans: what follows what, without gaps, and what is cut off where."""

from __future__ import annotations

import pytest
from trace_records import BEGIN, END, NODES, Row, core_rows, one_request, recording_of, row

from hami.trace.recording import Recording, journeys_of, runs_of
from hami.trace.stations import Span, spans_of, station_times


def lanes_of(recording: Recording, position: int = 0) -> list[Span]:
    return spans_of(journeys_of(recording)[position], recording, runs_of(recording))


def shape(span: Span) -> list[tuple[str, int]]:
    """Return the names and lengths of what is inside."""
    return [(part.name, part.length) for part in span.parts]


def assert_without_gaps(span: Span) -> None:
    """Check that the parts fill the span, and those of a stay the stay."""
    if not span.parts:
        return
    assert span.parts[0].begin == span.begin
    assert span.parts[-1].end == span.end
    for before, after in zip(span.parts, span.parts[1:], strict=False):
        assert before.end == after.begin
    for part in span.parts:
        assert_without_gaps(part)


def test_a_request_is_its_stations_one_after_another() -> None:
    [whole] = lanes_of(recording_of(*one_request()))

    assert shape(whole) == [("submit", 100), ("dispatch", 50), ("decode", 810), ("return", 90)]
    assert shape(whole.parts[2]) == [("batch", 350), ("forward", 400), ("notify", 60)]
    assert_without_gaps(whole)


def test_the_lengths_of_the_stations_add_up_to_the_request() -> None:
    [whole] = lanes_of(recording_of(*one_request()))

    stations = [span for span in whole.walk() if not span.parts]
    assert sum(span.length for span in stations) == whole.length == 1_050


def test_a_request_says_what_became_of_it() -> None:
    caller, instance = one_request(request=5)
    instance = [row("answer", 2_960, detail=2, request=5) if one[0] == 11 else one for one in instance]

    [whole] = lanes_of(recording_of(caller, instance))

    assert whole.args == {"request": 5, "rows": 1, "outcome": "deadline_exceeded"}


def test_a_forward_names_its_run() -> None:
    [whole] = lanes_of(recording_of(*one_request(batch=9)))

    [forward] = [span for span in whole.walk() if span.name == "forward"]
    assert forward.args == {"batch": 9, "rows": 1}


def test_a_second_node_follows_the_first() -> None:
    rows = [
        row("submit", 2_000, 2_010, request=1, value=1),
        row("dispatch", 2_020, 2_030, node=0, request=1),
        row("settle", 2_100, node=0, request=1),
        row("dispatch", 2_100, 2_120, node=1, request=1),
        row("settle", 2_200, node=1, request=1),
        row("answer", 2_210, request=1),
    ]

    [whole] = lanes_of(recording_of(rows))

    assert shape(whole) == [
        ("submit", 20),
        ("dispatch", 10),
        ("decode", 70),
        ("dispatch", 20),
        ("detect", 90),  # up to the answer, which its end sets in motion
    ]
    assert_without_gaps(whole)


def test_a_request_without_a_return_ends_with_its_answer() -> None:
    caller, instance = one_request()

    [whole] = lanes_of(recording_of(caller[:2], instance))

    assert whole.end == 2_960
    assert "return" not in dict(shape(whole))


def test_a_request_that_is_inside_at_the_end_is_unfinished() -> None:
    caller, instance = one_request()

    [whole] = lanes_of(recording_of(caller[:2], instance[:1]))

    assert whole.args["outcome"] == "unfinished"
    assert whole.end == END
    assert shape(whole.parts[2]) == [("batch", 350), ("forward", END - 2_500), ("notify", 0)]


def test_a_request_that_was_refused_has_nothing_but_its_submission() -> None:
    rows = [
        row("submit", 2_000, 2_010, request=1, value=1),
        row("dispatch", 2_020, 2_030, node=0, request=1),  # decided, and then there was no place
        row("refuse", 2_050, request=1),
    ]

    [whole] = lanes_of(recording_of(rows))

    assert whole.args["outcome"] == "refused"
    assert shape(whole) == [("submit", 50)]


def test_what_goes_on_after_the_answer_is_cut_off() -> None:
    rows = [
        row("submit", 2_000, 2_010, request=1, value=1),
        row("dispatch", 2_020, 2_030, node=0, request=1),
        row("batch", 2_031, 2_100, node=0, instance=0, request=1, batch=3, value=1),
        row("answer", 2_500, detail=2, request=1),  # the deadline
        row("return", 2_520, 2_530, request=1),
        row("forward", 2_100, 2_900, node=0, instance=0, batch=3, value=1),
        row("settle", 2_910, node=0, request=1),
        row("dispatch", 2_910, 2_920, node=1, request=1),
    ]

    [whole] = lanes_of(recording_of(rows))

    assert shape(whole) == [("submit", 20), ("dispatch", 10), ("decode", 470), ("return", 30)]
    assert shape(whole.parts[2]) == [("batch", 70), ("forward", 400), ("notify", 0)]
    assert_without_gaps(whole)


def test_a_request_that_waits_when_its_deadline_passes_was_never_in_a_run() -> None:
    rows = [
        row("submit", 2_000, 2_010, request=1, value=1),
        row("dispatch", 2_020, 2_030, node=0, request=1),
        row("answer", 2_500, detail=2, request=1),
        row("settle", 2_600, node=0, request=1),
    ]

    [whole] = lanes_of(recording_of(rows))

    assert shape(whole) == [("submit", 20), ("dispatch", 10), ("decode", 470)]
    assert whole.parts[2].parts == []


def branching() -> list[Row]:
    return [
        row("submit", 2_000, 2_010, request=1, value=1),
        row("dispatch", 2_020, 2_030, node=0, request=1),
        row("dispatch", 2_020, 2_030, node=1, request=1),
        row("settle", 2_100, node=0, request=1),
        row("settle", 2_200, node=1, request=1),
        row("answer", 2_210, request=1),
    ]


def test_branches_have_a_lane_each() -> None:
    whole, branch = lanes_of(recording_of(branching()))

    assert shape(whole) == [("submit", 20), ("dispatch", 10), ("decode", 70)]
    assert (branch.name, branch.args) == ("branch", {"request": 1})
    assert shape(branch) == [("detect", 180)]


def test_one_decision_for_two_branches_is_one_span() -> None:
    whole, branch = lanes_of(recording_of(branching()))

    decisions = [span for lane in (whole, branch) for span in lane.walk() if span.name == "dispatch"]
    assert len(decisions) == 1


def test_rounds_of_a_loop_are_stays_one_after_another() -> None:
    rows = [row("submit", 2_000, 2_010, request=1, value=1)]
    for number, begin in enumerate((2_100, 2_200, 2_300)):
        rows += [
            row("dispatch", begin, begin + 10, node=0, request=1),
            row("batch", begin + 11, begin + 20, node=0, instance=0, request=1, batch=number + 1, value=1),
            row("forward", begin + 20, begin + 70, node=0, instance=0, batch=number + 1, value=1),
            row("settle", begin + 100, node=0, request=1),
        ]
    rows.append(row("answer", 2_400, request=1))

    [whole] = lanes_of(recording_of(rows))

    assert [span.args["batch"] for span in whole.walk() if span.name == "forward"] == [1, 2, 3]
    assert_without_gaps(whole)


def test_a_backend_that_answers_later_shows_a_forward() -> None:
    rows = [
        row("submit", 2_000, 2_010, request=1, value=1),
        row("dispatch", 2_020, 2_030, node=0, request=1),
        row("hold", 2_040, 2_400, node=0, request=1),
        row("settle", 2_410, node=0, request=1),
        row("answer", 2_420, request=1),
    ]

    [whole] = lanes_of(recording_of(rows))

    assert shape(whole.parts[2]) == [("forward", 370), ("notify", 20)]


def test_an_element_names_the_request_that_it_is_of() -> None:
    [whole] = lanes_of(recording_of([row("submit", 2_000, 2_010, request=2, batch=1, value=1)]))

    assert whole.args["element_of"] == 1


def test_a_node_may_be_called_like_a_station() -> None:
    recording = recording_of(*one_request(), nodes=["forward"])

    assert station_times(recording)["forward"].count == 1


def test_times_of_stations_are_in_milliseconds() -> None:
    first, second = one_request(1, 7, 2_000), one_request(2, 8, 5_000)

    times = station_times(recording_of(first[0] + second[0], first[1] + second[1]))

    assert times["batch"].count == 2
    assert times["batch"].mean_ms == pytest.approx(350e-6)
    assert times["batch"].p50_ms == times["batch"].p99_ms == times["batch"].max_ms == 350e-6
    assert times["request"].max_ms == pytest.approx(1_050e-6)
    assert list(times) == ["submit", "dispatch", "batch", "forward", "notify", "return", "request"]


def test_the_rest_of_a_request_that_came_before_is_no_request() -> None:
    rows = [
        row("settle", 2_000, node=0, request=1),
        row("answer", 2_010, request=1),
        row("return", 2_020, 2_030, request=1),
    ]

    assert journeys_of(recording_of(rows)) == []


def test_a_run_that_began_before_is_left_out() -> None:
    rows = [row("python", BEGIN - 10, BEGIN + 10, node=0), row("python", BEGIN + 10, BEGIN + 20, node=0)]

    recording = recording_of(rows)

    assert [record.begin for record in recording.records("python")] == [BEGIN + 10]


def test_the_arrival_of_an_item_may_lie_before_the_recording() -> None:
    rows = [row("batch", BEGIN - 500, BEGIN + 10, node=0, instance=0, batch=1, value=2)]

    runs = runs_of(recording_of(rows))

    assert (runs[1].begin, runs[1].end, runs[1].num_rows, runs[1].requests) == (BEGIN + 10, None, 2, [])


def test_records_come_in_the_order_of_their_beginnings() -> None:
    rows = [row("python", 3_000, 3_100), row("notify", 2_000, 2_100), row("submit", 2_000, 2_500)]

    [thread] = recording_of(rows).threads

    assert [record.kind for record in thread.records] == ["submit", "notify", "python"]
    assert (thread.number, thread.native_id, thread.name) == (1, 101, "thread1")


def test_what_the_core_returns_is_read_as_it_is() -> None:
    recording = Recording.of(core_rows([row("queue", 2_000, node=1, value=-3)], dropped=4), "a.toml", ())

    [record] = recording.threads[0].records
    assert (record.kind, record.value, recording.node_name(record)) == ("queue", -3, "detect")
    assert (recording.num_dropped, recording.nodes, recording.pipeline) == (4, NODES, "a.toml")
