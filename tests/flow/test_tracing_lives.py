"""What a trace of a pipeline promises beside its rows: Python's share, bounds, and its own life."""

from __future__ import annotations

import gc
import json
import sysconfig
from pathlib import Path
from typing import Any

import pytest
from probes import WAIT_S
from trace_format import checked_events, request_spans, select

import hami

# --- Python ---


@pytest.mark.skipif(bool(sysconfig.get_config_var("Py_GIL_DISABLED")), reason="this Python has no GIL")
def test_waiting_for_the_gil_shows_where_another_thread_keeps_it(open_pipe: Any, probe: Any) -> None:
    probe("TracedStarved")
    pipe = open_pipe({"work": {"backend": "TracedStarved"}})

    with pipe.trace() as trace:
        future = pipe.submit({"data": 1})
        sum(range(3_000_000))  # one call, in which this thread gives the lock to nobody
        future.result(WAIT_S)

    events = checked_events(trace)
    [wait], [python] = select(events, "X", "wait for the GIL"), select(events, "X", "python")
    [run] = select(events, "X", "work")
    assert wait["dur"] > 1_000
    assert wait["ts"] + wait["dur"] <= python["ts"] + 0.001  # in microseconds: sums of floats
    assert run["dur"] > wait["dur"]


def test_a_backend_in_place_has_the_gil_of_its_caller(open_pipe: Any, probe: Any) -> None:
    probe("TracedInPlace", is_inline=True)
    pipe = open_pipe({"work": {"backend": "TracedInPlace"}})

    with pipe.trace() as trace:
        pipe({"data": 1})

    events = checked_events(trace)
    assert [run["args"]["released"] for run in select(events, "X", "work")] == ["in_place"]
    assert select(events, "X", "wait for the GIL") == []
    assert len(select(events, "X", "python")) == 1


def test_python_lies_within_the_run_that_needs_it(open_pipe: Any, probe: Any) -> None:
    probe("TracedPython")
    pipe = open_pipe({"work": {"backend": "TracedPython"}})

    with pipe.trace() as trace:
        pipe({"data": 1})

    events = checked_events(trace)
    [run], [python] = select(events, "X", "work"), select(events, "X", "python")
    assert python["args"] == {"node": "work"}
    assert run["ts"] <= python["ts"]
    assert python["ts"] + python["dur"] <= run["ts"] + run["dur"]
    assert python["tid"] == run["tid"]


# --- the object ---


def test_nothing_is_recorded_outside_of_the_block(open_pipe: Any) -> None:
    pipe = open_pipe("Identity")
    pipe({"data": 0})

    with pipe.trace() as trace:
        pipe({"data": 1})
    pipe({"data": 2})

    assert len(request_spans(checked_events(trace))) == 1


def test_a_pipeline_has_one_trace_at_a_time(open_pipe: Any) -> None:
    pipe = open_pipe("Identity")

    with pipe.trace() as first, pytest.raises(hami.RequestError, match="traced already") as caught:
        pipe.trace().start()

    assert caught.value.code == "trace-running"
    assert first.events() != []
    pipe.trace().start().stop()


def test_two_pipelines_do_not_mix(open_pipe: Any) -> None:
    one, other = open_pipe({"left": {"backend": "Identity"}}), open_pipe({"right": {"backend": "Identity"}})

    with one.trace() as first, other.trace() as second:
        for i in range(50):
            one({"data": i})
            other({"data": i})
        one({"data": 50})

    for trace, name, count in ((first, "left", 51), (second, "right", 50)):
        events = checked_events(trace)
        runs = [event["name"] for event in select(events, "X") if event["cat"] == "forward"]
        assert runs == [name] * count


def test_memory_is_bounded_and_the_file_says_what_is_missing(open_pipe: Any) -> None:
    pipe = open_pipe("Identity")

    with pipe.trace(max_records=256) as trace:
        for i in range(200):
            pipe({"data": i})

    events = checked_events(trace)
    assert trace.num_dropped > 0
    [note] = select(events, "i")
    assert f"{trace.num_dropped} records dropped" in note["name"]
    assert 0 < len(request_spans(events)) < 200


def test_a_second_recording_forgets_the_first(open_pipe: Any) -> None:
    pipe = open_pipe("Identity")
    trace = pipe.trace()
    with trace:
        pipe({"data": 1})
        pipe({"data": 2})

    with trace:
        pipe({"data": 3})

    assert len(request_spans(checked_events(trace))) == 1


def test_a_trace_that_nobody_holds_any_more_ends(open_pipe: Any) -> None:
    pipe = open_pipe("Identity")
    trace = pipe.trace().start()

    del trace
    gc.collect()

    pipe.trace().start().stop()


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_the_block_saves_the_file_also_when_it_fails(open_pipe: Any, tmp_path: Path, name: str) -> None:
    pipe = open_pipe("Identity")

    with pytest.raises(KeyError), pipe.trace(tmp_path / name) as trace:
        pipe({"data": 1})
        raise KeyError

    other = tmp_path / "again.json"
    trace.save(other)
    assert json.loads(other.read_text())["traceEvents"] == trace.events()
    assert (tmp_path / name).stat().st_size > 0


@pytest.mark.parametrize(
    ("place", "words"), [("gone/trace.json", "there is no folder"), (".", "it is a folder")]
)
def test_a_path_that_cannot_be_is_found_before_anything_is_recorded(
    open_pipe: Any, tmp_path: Path, place: str, words: str
) -> None:
    pipe = open_pipe("Identity")

    with pytest.raises(hami.RequestError, match=words) as caught:
        pipe.trace(tmp_path / place)

    assert caught.value.code == "trace-path"


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "many"])
def test_a_bad_bound_of_memory_is_refused(open_pipe: Any, value: Any) -> None:
    with pytest.raises(hami.RequestError, match="max_records") as caught:
        open_pipe("Identity").trace(max_records=value)

    assert caught.value.code == "trace-max-records"


def test_a_trace_that_never_ran_has_nothing_to_show(open_pipe: Any) -> None:
    trace = open_pipe("Identity").trace()
    trace.stop()

    with pytest.raises(hami.RequestError, match="never started"):
        trace.events()
    assert not trace.is_running


def test_saving_needs_a_path(open_pipe: Any) -> None:
    with open_pipe("Identity").trace() as trace:
        pass

    with pytest.raises(hami.RequestError, match="no path"):
        trace.save()
