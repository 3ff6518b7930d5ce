"""The timeline of graphs: branches, joins, loops, elements, queues, late answers, and many callers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any

import pytest
from probes import WAIT_S
from queue_market import Market, market
from trace_format import Event, Span, checked_events, request_spans, select, track_name

import hami


def stays(span: Span) -> list[str]:
    """Return the nodes of a request, or of one branch of it, in the order of time."""
    stations = {"submit", "dispatch", "return"}
    return [part.name for part in span.parts if part.name not in stations]


def assert_without_gaps(span: Span) -> None:
    """Check that the parts fill their span."""
    if span.parts:
        assert span.parts[0].begin == span.begin
        assert span.parts[-1].end == span.end
        assert all(a.end == b.begin for a, b in zip(span.parts, span.parts[1:], strict=False))
    for part in span.parts:
        assert_without_gaps(part)


# --- branches and joins ---


@pytest.fixture
def diamond(open_pipe: Any, probe: Any) -> Any:
    """Return a pipeline whose two branches meet again; the left one takes longer when its gate is shut."""
    left = probe("TracedLeft")
    probe("TracedRight")
    pipe = open_pipe(
        {
            "split": {"backend": "Identity", "next": ["left", "right"]},
            "left": {"backend": "TracedLeft", "next": "join"},
            "right": {"backend": "TracedRight", "next": "join"},
            "join": {"backend": "Identity", "map": "left[result:data],right[result:other]"},
        }
    )
    return pipe, left


def test_branches_stay_beside_each_other_and_meet(diamond: Any) -> None:
    pipe, left = diamond

    with pipe.trace() as trace:
        left.shut()
        future = pipe.submit({"data": 1})
        left.wait_for_runs(1)
        left.open()
        future.result(WAIT_S)

    events = checked_events(trace)
    [whole] = request_spans(events)
    branches = [span for lane in (0, 1) for span in request_spans(events, lane)]
    assert sorted(name for span in branches for name in stays(span)) == ["join", "left", "right", "split"]
    join = next(part for span in branches for part in span.parts if part.name == "join")
    sides = [part for span in branches for part in span.parts if part.name in ("left", "right")]
    assert all(side.end <= join.begin for side in sides)
    assert join.end <= whole.end


def test_a_branch_that_fails_ends_the_request(open_pipe: Any, probe: Any) -> None:
    def fail(item: dict[str, Any]) -> None:
        raise ValueError

    slow = probe("TracedSlow")
    probe("TracedBad", fail)
    pipe = open_pipe(
        {
            "split": {"backend": "Identity", "next": ["slow", "bad"]},
            "slow": {"backend": "TracedSlow", "next": "join"},
            "bad": {"backend": "TracedBad", "next": "join"},
            "join": {"backend": "Identity", "map": "slow[result:data],bad[result:other]"},
        }
    )

    with pipe.trace() as trace:
        slow.shut()
        with pytest.raises(ValueError):
            pipe({"data": 1})
        slow.open()

    events = checked_events(trace)
    [whole] = request_spans(events)
    assert whole.args["outcome"] == "error"
    for lane in range(2):
        for span in request_spans(events, lane):
            assert span.end <= whole.end


# --- loops ---


def test_rounds_of_a_loop_are_stays_one_after_another(open_pipe: Any, rounds: None) -> None:
    pipe = open_pipe({"backend": "Work", "entrypoint": "Restart[DagDispatcher]"})

    with pipe.trace() as trace:
        assert pipe({"data": 2})["result"] == 6

    [whole] = request_spans(checked_events(trace))
    forwards = whole.find(lambda span: span.name == "forward")
    assert len({forward.args["batch"] for forward in forwards}) == 4
    assert_without_gaps(whole)


# --- elements ---


@pytest.fixture
def elements(open_pipe: Any, probe: Any) -> hami.Pipeline:
    """Return a pipeline that doubles each element of a list; a negative one fails."""

    def double(item: dict[str, Any]) -> Any:
        if item["data"] < 0:
            raise ValueError(item["data"])
        return item["data"] * 2

    probe("TracedElement", double, batch_range=(1, 4))
    pipe: hami.Pipeline = open_pipe(
        {
            "each": {"backend": "ForEach(target=work)"},
            "work": {"backend": "TracedElement", "max": 4},
        }
    )
    return pipe


def test_each_element_is_a_request_that_names_the_one_it_is_of(elements: hami.Pipeline) -> None:
    with elements.trace() as trace:
        elements({"data": [1, 2, 3, 4, 5]})

    events = checked_events(trace)
    parent, *children = request_spans(events)
    assert stays(parent) == ["each"]
    assert len(children) == 5
    assert {child.args["element_of"] for child in children} == {parent.args["request"]}
    [each] = [part for part in parent.parts if part.name == "each"]
    for child in children:
        assert stays(child) == ["work"]
        assert each.begin <= child.begin <= child.end <= each.end
    # They stand in the place of their request.
    assert max(event["args"]["requests"] for event in select(events, "C", "requests inside")) == 1


def test_elements_share_runs(elements: hami.Pipeline) -> None:
    with elements.trace() as trace:
        elements({"data": [1, 2, 3, 4]})

    events = checked_events(trace)
    ran = [request for run in select(events, "X", "work") for request in run["args"]["requests"]]
    assert sorted(ran) == sorted(child.args["request"] for child in request_spans(events)[1:])


def test_an_element_that_fails_says_so_in_its_own_track(elements: hami.Pipeline) -> None:
    with elements.trace() as trace, pytest.raises(ValueError):
        elements({"data": [1, -2]})

    outcomes = [request.args["outcome"] for request in request_spans(checked_events(trace))]
    assert outcomes[0] == "error"
    assert "error" in outcomes[1:]


# --- without a thread ---


def test_waiting_in_a_queue_of_the_pipeline_is_a_stay(open_pipe: Any) -> None:
    shop = Market(open_pipe(market()))

    with shop.pipeline.trace() as trace:
        taken = shop.take()
        shop.put(7).result(WAIT_S)
        assert taken.result(WAIT_S)["result"] == 7

    taking, putting = request_spans(checked_events(trace))
    assert (stays(taking), stays(putting)) == (["take"], ["put"])  # `end` has nothing to do
    [waiting] = [part for part in taking.parts if part.name == "take"]
    assert waiting.begin < putting.begin < waiting.end


def test_a_backend_that_answers_later_shows_how_long_it_had_the_request(
    open_pipe: Any, eventually: Any
) -> None:
    held: list[tuple[dict[str, Any], Any]] = []

    @hami.register("TracedLater")
    class TracedLater(hami.Backend):
        def start(self, item: dict[str, Any], reply: Any) -> None:
            held.append((item, reply))

    pipe = open_pipe({"later": {"backend": "TracedLater"}})

    with pipe.trace() as trace:
        first, second = pipe.submit({"data": 1}), pipe.submit({"data": 2})
        eventually(lambda: len(held) == 2)
        for item, reply in reversed(held):
            item["result"] = item["data"]
            reply.finish()
        assert (first.result(WAIT_S)["result"], second.result(WAIT_S)["result"]) == (1, 2)

    events = checked_events(trace)
    spans = request_spans(events)
    for span in spans:
        assert [part.names() for part in span.parts if part.name == "later"] == [["forward", "notify"]]
    assert spans[0].end > spans[1].end
    assert len(select(events, "X", "python")) == 2  # `start` of each, on the caller's thread


def test_partial_results_are_moments_of_a_stream(open_pipe: Any) -> None:
    @hami.register("TracedStream")
    class TracedStream(hami.Backend):
        def forward(self, item: dict[str, Any]) -> Iterator[int]:
            yield from range(item["data"])

    pipe = open_pipe({"backend": "TracedStream"})

    with pipe.trace() as trace:
        assert list(pipe.stream({"data": 3})) == [0, 1, 2]

    events = checked_events(trace)
    assert len(select(events, "n", "partial result")) == 3
    assert [span.args["outcome"] for span in request_spans(events)] == ["ok"]


# --- many ---


def ends_of(events: list[Event]) -> list[str]:
    return [span.args["outcome"] for span in request_spans(events)]


def test_every_request_of_many_callers_has_one_beginning_and_one_end(
    open_pipe: Any, probe: Any, in_threads: Any
) -> None:
    def fail_sevenths(item: dict[str, Any]) -> Any:
        if item["data"] % 7 == 0:
            raise ValueError(item["data"])
        return item["data"]

    probe("TracedCrowd", fail_sevenths, batch_range=(1, 4))
    pipe = open_pipe(
        {
            "first": {"backend": "Identity", "next": "second"},
            "second": {"backend": "TracedCrowd", "max": 4, "instance_num": 2, "batching_timeout": 1},
        }
    )
    is_cancelled = threading.Event()

    def call(caller: int) -> int:
        num_failed = 0
        for i in range(25):
            data = caller * 25 + i
            try:
                if i % 5 == 4:
                    future = pipe.submit({"data": data})
                    if future.cancel():
                        is_cancelled.set()
                    future.result(WAIT_S)
                else:
                    pipe({"data": data, "deadline_ms": 10_000})
            except (ValueError, CancelledError):
                num_failed += 1
        return num_failed

    with pipe.trace() as trace:
        num_failed = sum(in_threads(8, call))

    events = checked_events(trace)
    ends = ends_of(events)
    assert len(ends) == 200
    assert trace.num_dropped == 0
    assert set(ends) <= {"ok", "error", "cancelled"}
    assert len(ends) - ends.count("ok") == num_failed
    assert is_cancelled.is_set() == ("cancelled" in ends)
    for span in request_spans(events):
        assert span.parts[0].name == "submit"
        assert span.parts[-1].name == "return"
        assert_without_gaps(span)


def test_callers_of_the_core_itself_are_traced_up_to_the_answer(open_pipe: Any) -> None:
    pipe = open_pipe("Identity")
    benchmark = hami.ThroughputBenchmark(pipe, [{"data": 1}])

    with pipe.trace() as trace:
        benchmark.benchmark(num_callers=2, num_requests=50, warmup_s=0, repeats=1)

    spans = request_spans(checked_events(trace))
    assert len(spans) == 50
    assert {span.args["outcome"] for span in spans} == {"ok"}
    for span in spans:
        assert [part.name for part in span.parts] == ["submit", "dispatch", "node"]


def test_threads_that_have_ended_keep_their_tracks(open_pipe: Any, in_threads: Any) -> None:
    pipe = open_pipe("Identity")

    with pipe.trace() as trace:
        in_threads(5, lambda index: pipe({"data": index}))

    events = checked_events(trace)
    submits = select(events, "X", "submit")
    assert len({track_name(events, submit) for submit in submits}) == 5


def test_starting_and_stopping_under_load_gives_whole_files(open_pipe: Any, probe: Any) -> None:
    probe("TracedLoad", batch_range=(1, 4))
    pipe = open_pipe({"a": {"backend": "Identity", "next": "b"}, "b": {"backend": "TracedLoad", "max": 4}})
    is_over = threading.Event()

    def call() -> None:
        while not is_over.is_set():
            pipe({"data": 1})

    callers = [threading.Thread(target=call, daemon=True) for _ in range(4)]
    for caller in callers:
        caller.start()
    try:
        traces = []
        for _ in range(5):
            with pipe.trace() as trace:
                for _ in range(20):
                    pipe({"data": 2})
            traces.append(trace)
    finally:
        is_over.set()
        for caller in callers:
            caller.join(WAIT_S)

    for trace in traces:
        assert len(ends_of(checked_events(trace))) >= 20
