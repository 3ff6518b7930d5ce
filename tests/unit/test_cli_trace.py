"""`hami trace`: calls real pipelines, writes the file, and prints how long the stations took."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import assert_refused, run
from trace_format import Event, request_spans, select, track_name, violations

import hami

pytestmark = pytest.mark.usefixtures("real_core")

Write = Callable[..., str]
LINES = '{"data": 1}\n{"data": 2}\n'


def events_in(path: str) -> list[Event]:
    """Return the events of a file, which keep every rule of the format."""
    content = Path(path).read_bytes()
    text = gzip.decompress(content) if path.endswith(".gz") else content
    events: list[Event] = json.loads(text)["traceEvents"]
    assert violations(events) == []
    return events


def test_each_line_of_the_input_is_called_once(write: Write) -> None:
    samples = write(LINES, "in.jsonl")

    result = run("trace", "Identity", "--input", samples)

    assert result.exit_code == 0, result.stderr
    assert len(request_spans(events_in("trace.json"))) == 2


def test_the_stations_are_printed_with_their_times(write: Write) -> None:
    result = run("trace", "Identity", "--input", write(LINES, "in.jsonl"))

    first, heads, *rows = result.stdout.splitlines()
    assert first.startswith("trace.json: 2 requests; open it in https://ui.perfetto.dev")
    assert heads.split() == ["station", "count", "mean", "ms", "p50", "ms", "p99", "ms", "max", "ms"]
    names = [row.split()[0] for row in rows]
    assert names == ["submit", "dispatch", "batch", "forward", "notify", "return", "request"]
    assert {row.split()[1] for row in rows} == {"2"}


def test_more_calls_than_lines_go_round_from_several_threads(write: Write) -> None:
    samples = write(LINES, "in.jsonl")

    result = run("trace", "Identity", "--input", samples, "-n", "7", "-c", "2", "-o", "out.json.gz")

    assert result.exit_code == 0, result.stderr
    events = events_in("out.json.gz")
    assert len(request_spans(events)) == 7
    tracks = {track_name(events, submit) for submit in select(events, "X", "submit")}
    assert tracks <= {"caller_0", "caller_1"}


def test_fewer_calls_than_lines_take_the_first(write: Write) -> None:
    result = run("trace", "Identity", "--input", write(LINES, "in.jsonl"), "--requests", "1")

    assert result.exit_code == 0, result.stderr
    assert len(request_spans(events_in("trace.json"))) == 1


def test_calls_that_warm_up_are_not_recorded(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    @hami.register("TracedByCommand")
    def traced(batch: list[dict[str, Any]]) -> None:
        for item in batch:
            seen.append(item["data"])
            item["result"] = item["data"]

    result = run("trace", "TracedByCommand", "--input", write(LINES, "in.jsonl"), "--warmup", "3")

    assert result.exit_code == 0, result.stderr
    assert seen == [1, 2, 1, 1, 2]
    assert len(request_spans(events_in("trace.json"))) == 2


def test_requests_that_fail_are_in_the_file_and_in_the_exit_code(write: Write) -> None:
    @hami.register("TracedToFail")
    def traced(batch: list[dict[str, Any]]) -> None:
        for item in batch:
            item["result"] = 1 // (item["data"] - 1)

    result = run("trace", "TracedToFail", "--input", write(LINES, "in.jsonl"))

    assert result.exit_code == 1
    assert "1 requests failed; the first: ZeroDivisionError" in result.stderr
    outcomes = [span.args["outcome"] for span in request_spans(events_in("trace.json"))]
    assert sorted(outcomes) == ["error", "ok"]


def test_records_without_room_are_told(write: Write) -> None:
    samples = write(LINES, "in.jsonl")

    result = run("trace", "Identity", "--input", samples, "-n", "200", "--max-records", "1")

    assert result.exit_code == 0, result.stderr
    assert "records found no room: raise --max-records" in result.stderr


def test_files_are_requests_under_the_key(write: Write) -> None:
    folder = Path(write("one", "in/a.txt")).parent
    write("two", "in/b.txt")

    result = run("trace", "Identity", "--input", str(folder), "--key", "data")

    assert result.exit_code == 0, result.stderr
    assert len(request_spans(events_in("trace.json"))) == 2


def test_a_file_that_cannot_be_written_is_found_before_the_calls(write: Write) -> None:
    result = run("trace", "Identity", "--input", write(LINES, "in.jsonl"), "-o", "gone/trace.json")

    assert_refused(result, "trace-path", "gone/trace.json", "there is no folder")


def test_an_input_that_is_not_there_is_refused(write: Write) -> None:
    write("", "empty")

    assert_refused(run("trace", "Identity", "--input", "gone.jsonl"), "load-sample", "gone.jsonl")


def test_a_pipeline_that_is_wrong_is_refused(write: Write) -> None:
    result = run("trace", "Identityy", "--input", write(LINES, "in.jsonl"))

    assert_refused(result, "did you mean `Identity`")
