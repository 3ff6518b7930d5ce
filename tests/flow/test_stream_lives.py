"""Laws of streams and rounds at their borders: forks, closed iterators, late writers, slow consumers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

import hami


@pytest.fixture(autouse=True)
def count() -> None:
    """`Count` yields the numbers below its data."""

    @hami.register
    def Count(item: dict[str, Any]) -> Iterator[int]:  # noqa: N802
        yield from range(item["data"])


def test_a_closed_stream_has_no_further_result(open_pipe: Any) -> None:
    stream = open_pipe("Count").stream({"data": 10_000})
    assert next(stream) == 0
    stream.close()
    assert list(stream) == []


def test_a_stream_in_a_forked_child_is_a_clear_error(open_pipe: Any) -> None:
    stream = open_pipe("Count").stream({"data": 10_000})
    assert next(stream) == 0
    child = os.fork()
    if child == 0:
        try:
            next(stream)
        except hami.Closed as error:
            os._exit(0 if error.code == "forked" else 2)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert next(stream) == 1
    stream.close()


def test_a_backend_that_waits_for_a_stream_of_its_own_node_is_refused(open_pipe: Any) -> None:
    made: list[hami.Pipeline] = []

    @hami.register
    def Inward(batch: list[dict[str, Any]]) -> list[Any]:  # noqa: N802
        return [list(made[0].stream({"data": 1})) for _ in batch]

    made.append(open_pipe("Inward"))
    with pytest.raises(hami.RequestError) as caught:
        made[0]({"data": 0})
    assert caught.value.code == "request-waits-for-itself"


def test_a_stream_whose_consumer_is_slow_is_not_hung(open_pipe: Any) -> None:
    pipeline = open_pipe({"backend": "Count", "hung_after_ms": 30})
    request = {"data": 200}
    stream = pipeline.stream(request)
    assert next(stream) == 0
    with pytest.raises(hami.DeadlineExceeded):  # lets time pass while the producer is suspended
        pipeline({"data": 1, "deadline_ms": 100})
    assert pipeline.problems() == []
    assert [0, *stream] == list(range(200))
    assert request["result"] == 199


def test_what_a_later_round_writes_is_what_the_caller_gets(open_pipe: Any) -> None:
    @hami.register
    def Note(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            item["note"] = item["data"]
            item["result"] = item["data"] + 1
            item["restart"] = "split" if item["result"] < 4 else None

    pipeline = open_pipe(
        {
            "split": {"backend": "Identity", "next": "left,right"},
            "left": {"backend": "Identity", "next": "note"},
            "right": {"backend": "Identity", "next": "note"},
            "note": {"backend": "Note", "map": "left[result:data],right[result:other]", "next": "again"},
            "again": {"backend": "Restart"},
        }
    )
    assert pipeline({"data": 0}) == {"data": 0, "result": 4, "note": 3}


def test_a_wish_of_the_caller_is_granted_once(open_pipe: Any) -> None:
    @hami.register
    def Rounds(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            item["result"] = item["data"] + 1

    assert open_pipe("Restart(max_rounds=3)[Rounds]")({"data": 0, "restart": True})["result"] == 2
