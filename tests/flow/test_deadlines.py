"""Laws of deadlines: answered on time while everything is busy, and what has not started never starts.

Deadlines of an hour stand for "never", deadlines of a few milliseconds for "soon"; no test measures how late
an answer is beyond the bound that a blocked backend sets.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

import hami

SOON_MS = 20
NEVER_MS = 3_600_000


def expires(call: Any, *args: Any) -> hami.DeadlineExceeded:
    """Return the DeadlineExceeded that a call raises."""
    with pytest.raises(hami.DeadlineExceeded) as caught:
        call(*args)
    return caught.value


def test_a_deadline_is_answered_while_every_instance_is_busy(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "instance_num": 2})
    plugs = [seen.plug(pipeline), seen.plug(pipeline)]
    began = time.monotonic()
    error = expires(pipeline, {"data": 1, "deadline_ms": SOON_MS})
    assert SOON_MS / 1000 <= time.monotonic() - began < 5
    assert isinstance(error, TimeoutError) and error.http_status == 504
    seen.open()
    for plug in plugs:
        plug.result(10)
    assert pipeline({"data": 2})["result"] == 2
    assert seen.items == ["plug", "plug", 2]


def test_an_item_that_runs_is_answered_on_time_and_its_result_dropped(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    seen.shut()
    request = {"data": 1, "deadline_ms": SOON_MS}
    expires(pipeline, request)
    assert seen.items == [1]
    seen.open()
    assert pipeline({"data": 2})["result"] == 2
    assert request == {"data": 1, "deadline_ms": SOON_MS}


def test_expired_items_never_reach_the_backend(open_pipe: Any, probe: Any, eventually: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "max": 4})
    plug = seen.plug(pipeline)
    lost = [pipeline.submit({"data": i, "deadline_ms": SOON_MS}) for i in range(10)]
    kept = [pipeline.submit({"data": 100 + i, "deadline_ms": NEVER_MS}) for i in range(3)]
    for future in lost:
        assert isinstance(future.exception(10), hami.DeadlineExceeded)
    seen.open()
    plug.result(10)
    assert [future.result(10)["result"] for future in kept] == [100, 101, 102]
    assert sorted(seen.items[1:]) == [100, 101, 102]
    assert eventually(lambda: pipeline.stats()[0]["dropped"] == 10)


@pytest.mark.parametrize("deadline", [0, 0.0, 1e-6])
def test_a_deadline_of_no_time_never_reaches_the_backend(open_pipe: Any, probe: Any, deadline: float) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    for call in (pipeline, lambda d: pipeline([d]), lambda d: pipeline.submit(d).result(10)):
        for _ in range(10):
            expires(call, {"data": 1, "deadline_ms": deadline})
    assert seen.items == []


@pytest.mark.parametrize("source", ["Identity", "Identities"])
def test_a_deadline_far_away_changes_nothing(open_pipe: Any, source: str) -> None:
    pipeline = open_pipe(source)
    assert [pipeline({"data": i, "deadline_ms": NEVER_MS})["result"] for i in range(50)] == list(range(50))


def test_of_the_dicts_and_the_configurations_deadline_the_smaller_wins(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    impatient = open_pipe({"deadline_ms": SOON_MS, "node": {"backend": "Probe"}})
    seen.plug(impatient, deadline_ms=SOON_MS)
    expires(impatient, {"data": 1})
    expires(impatient, {"data": 1, "deadline_ms": NEVER_MS})
    patient = open_pipe({"deadline_ms": NEVER_MS, "node": {"backend": "Probe"}})
    expires(patient, {"data": 1, "deadline_ms": SOON_MS})
    seen.open()


def test_a_deadline_of_none_is_no_deadline_of_the_dict(open_pipe: Any) -> None:
    assert open_pipe("Identity")({"data": 1, "deadline_ms": None})["result"] == 1


def test_in_a_list_only_the_late_ones_fail(open_pipe: Any, probe: Any, waiting: Any, eventually: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    plug = seen.plug(pipeline)
    requests: list[dict[str, Any]] = [{"data": 0}, {"data": 1, "deadline_ms": SOON_MS}, {"data": 2}]
    caller = threading.Thread(target=expires, args=(pipeline, requests))
    caller.start()
    assert eventually(lambda: waiting(pipeline) == 3)
    # Deadlines are answered in order: when this one has passed, so has the one in the list.
    expires(pipeline, {"data": 3, "deadline_ms": SOON_MS})
    seen.open()
    caller.join(10)
    plug.result(10)
    assert [request.get("result") for request in requests] == [0, None, 2]
    assert seen.items == ["plug", 0, 2]


def test_a_deadline_holds_for_the_whole_graph(open_pipe: Any, probe: Any) -> None:
    last = probe("Last")
    pipeline = open_pipe(
        {
            "first": {"backend": "Identities", "next": "second"},
            "second": {"backend": "Identities", "next": "last", "map": "first[result:data]"},
            "last": {"backend": "Last"},
        }
    )
    last.plug(pipeline)
    expires(pipeline, {"data": 1, "deadline_ms": SOON_MS})
    last.open()
    pipeline({"data": 2})
    assert last.items == ["plug", 2]


def test_a_deadline_holds_for_the_children_of_for_each(open_pipe: Any, probe: Any) -> None:
    work = probe("Work")
    pipeline = open_pipe({"each": {"backend": "ForEach(target=work)"}, "work": {"backend": "Work"}})
    work.shut()
    plug = pipeline.submit({"data": ["plug"]})
    work.wait_for_runs(1)
    expires(pipeline, {"data": [1, 2, 3], "deadline_ms": SOON_MS})
    work.open()
    plug.result(10)
    assert pipeline({"data": [4]})["result"] == [4]
    assert work.items == ["plug", 4]


def test_a_deadline_shorter_than_the_batching_timeout_is_kept(open_pipe: Any, probe: Any) -> None:
    patient, busy = probe("Patient"), probe("Busy")
    pipeline = open_pipe(
        {
            "patient": {"backend": "Patient", "max": 4, "batching_timeout": NEVER_MS, "next": "out"},
            "busy": {"backend": "Busy", "next": "out"},
            "out": {"backend": "Identity", "map": "patient[result:data],busy[result:data_of_busy]"},
        }
    )
    plug = busy.plug(pipeline, node_name="busy")
    expires(pipeline, {"data": 1, "node_name": "patient", "deadline_ms": SOON_MS})
    assert patient.items == []
    plug.cancel()
    busy.open()


def test_thousands_of_deadlines_are_all_answered(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    plug = seen.plug(pipeline)
    futures = [pipeline.submit({"data": i, "deadline_ms": 1 + i % 50}) for i in range(3000)]
    for future in futures:
        assert isinstance(future.exception(10), hami.DeadlineExceeded)
    seen.open()
    plug.result(10)
    assert seen.items == ["plug"]


def test_a_request_is_answered_once_by_its_result_or_its_deadline(open_pipe: Any) -> None:
    pipeline = open_pipe("Identities")
    for i in range(300):
        request = {"data": i, "deadline_ms": 1}
        error = pipeline.submit(request).exception(10)
        assert error is None or isinstance(error, hami.DeadlineExceeded)
        assert request.get("result") == (i if error is None else None)


def test_the_exception_names_no_node_but_says_what_to_do(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    seen.plug(pipeline)
    error = expires(pipeline, {"data": 1, "deadline_ms": 1})
    assert error.code == "deadline-exceeded" and "deadline_ms" in error.help
    seen.open()
