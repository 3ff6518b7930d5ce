"""Laws of a user's scheduler: a class decides which waiting request runs first."""

from __future__ import annotations

import math
from typing import Any

import pytest

import hami
from hami import scheduler


@pytest.fixture(autouse=True)
def own_schedulers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "_classes", dict(scheduler._classes))


def run_behind_plug(
    pipeline: Any, seen: Any, waiting: Any, eventually: Any, requests: list[Any]
) -> list[Any]:
    """Submit requests while the one instance is busy; return their data in the order in which they ran."""
    plug = seen.plug(pipeline)
    futures = [pipeline.submit(request) for request in requests]
    eventually(lambda: waiting(pipeline) == len(requests))
    seen.open()
    for future in [plug, *futures]:
        future.result(10)
    return list(seen.items[1:])


def test_the_lowest_number_runs_first(open_pipe: Any, probe: Any, waiting: Any, eventually: Any) -> None:
    @hami.register
    class ShortestFirst(hami.Scheduler):
        def order(self, request: dict[str, Any]) -> float:
            return len(request["data"])

    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "scheduler": "ShortestFirst"})
    requests = [{"data": "x" * size} for size in (5, 3, 4, 1, 2)]
    assert [len(data) for data in run_behind_plug(pipeline, seen, waiting, eventually, requests)] == [
        1,
        2,
        3,
        4,
        5,
    ]


def test_equal_numbers_run_in_order_of_arrival(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any
) -> None:
    @hami.register
    class Same(hami.Scheduler):
        def order(self, request: dict[str, Any]) -> float:
            return 7

    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "scheduler": "Same"})
    requests = [{"data": i} for i in range(20)]
    assert run_behind_plug(pipeline, seen, waiting, eventually, requests) == list(range(20))


def test_every_real_number_has_its_place(open_pipe: Any, probe: Any, waiting: Any, eventually: Any) -> None:
    @hami.register
    class ByData(hami.Scheduler):
        def order(self, request: dict[str, Any]) -> float:
            return 0 if request["data"] == "plug" else request["data"]

    numbers = [-math.inf, -1e300, -2.5, -1, -1e-300, 0, 5e-324, 0.5, 1, 3, 2**60, 1e300, math.inf]
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "scheduler": "ByData"})
    requests = [{"data": number} for number in reversed(numbers)]
    assert run_behind_plug(pipeline, seen, waiting, eventually, requests) == numbers


def test_a_scheduler_sees_priority_rows_and_the_time_that_is_left(open_pipe: Any, probe: Any) -> None:
    requests: list[dict[str, Any]] = []

    @hami.register
    class Watch(hami.Scheduler):
        def order(self, request: dict[str, Any]) -> float:
            requests.append(request)
            return 0

    probe(batch_range=(1, 8))
    pipeline = open_pipe({"backend": "Probe", "scheduler": "Watch"})
    pipeline({"data": 1, "user": "u", "priority": 5, "request_size": 3, "deadline_ms": 60_000})
    pipeline({"data": 2})
    assert requests[0].pop("deadline_ms") <= 60_000
    assert requests[0] == {"data": 1, "user": "u", "priority": 5, "request_size": 3}
    assert requests[1] == {"data": 2, "priority": 0, "request_size": 1, "deadline_ms": None}


def test_a_batch_follows_the_scheduler(open_pipe: Any, probe: Any, waiting: Any, eventually: Any) -> None:
    @hami.register
    class LargestFirst(hami.Scheduler):
        def order(self, request: dict[str, Any]) -> float:
            return 0 if request["data"] == "plug" else -request["data"]

    seen = probe(batch_range=(1, 4))
    pipeline = open_pipe({"backend": "Probe", "scheduler": "LargestFirst", "batching_timeout": 0})
    run_behind_plug(pipeline, seen, waiting, eventually, [{"data": i} for i in range(8)])
    assert seen.batches[1:] == [[7, 6, 5, 4], [3, 2, 1, 0]]


def test_what_a_scheduler_raises_is_the_error_of_that_request(open_pipe: Any) -> None:
    @hami.register
    class ByName(hami.Scheduler):
        def order(self, request: dict[str, Any]) -> float:
            return ord(request["name"])

    pipeline = open_pipe({"backend": "Identities", "scheduler": "ByName"})
    requests: list[dict[str, Any]] = [{"data": 1, "name": "a"}, {"data": 2}, {"data": 3, "name": "b"}]
    with pytest.raises(KeyError, match="name"):
        pipeline(requests)
    assert [request.get("result") for request in requests] == [1, None, 3]


@pytest.mark.parametrize(("answer", "shown"), [("first", "str"), (None, "NoneType"), (math.nan, "float")])
def test_an_order_that_is_no_number_is_an_error(open_pipe: Any, answer: Any, shown: str) -> None:
    @hami.register
    class Odd(hami.Scheduler):
        def order(self, request: dict[str, Any]) -> float:
            return answer  # type: ignore[no-any-return]

    with pytest.raises(hami.RequestError, match=f"`Odd` returned a `{shown}`") as caught:
        open_pipe({"backend": "Identities", "scheduler": "Odd"})({"data": 1})
    assert caught.value.code == "scheduler-order"


def test_a_scheduler_without_order_fails_requests_by_name(open_pipe: Any) -> None:
    @hami.register
    class Empty(hami.Scheduler):
        pass

    with pytest.raises(NotImplementedError, match="`Empty` has no `order`"):
        open_pipe({"backend": "Identities", "scheduler": "Empty"})({"data": 1})


def test_a_scheduler_that_cannot_be_made_is_a_build_error() -> None:
    @hami.register
    class Needy(hami.Scheduler):
        def __init__(self, wanted: int) -> None: ...

    with pytest.raises(TypeError, match="wanted"):
        hami.pipe({"backend": "Identities", "scheduler": "Needy"})


def test_an_unknown_scheduler_is_refused_with_the_nearest_name() -> None:
    @hami.register
    class FairShare(hami.Scheduler): ...

    with pytest.raises(hami.ConfigError, match="`scheduler` cannot be `FairShar`") as caught:
        hami.pipe({"backend": "Identity", "scheduler": "FairShar"})
    assert caught.value.help == "did you mean `FairShare`?"
    with pytest.raises(hami.ConfigError) as caught:
        hami.pipe({"backend": "Identity", "scheduler": "xyz"})
    assert caught.value.help == "use one of `fifo`, `priority`, `edf`, `FairShare`"


def test_each_node_has_a_scheduler_of_its_own(open_pipe: Any) -> None:
    made: list[Any] = []

    @hami.register
    class Counts(hami.Scheduler):
        def __init__(self) -> None:
            made.append(self)
            self.num_requests = 0

        def order(self, request: dict[str, Any]) -> float:
            self.num_requests += 1
            return self.num_requests

    nodes = {
        "a": {"backend": "Identities", "next": "b"},
        "b": {"backend": "Identities"},
        "scheduler": "Counts",
    }
    pipeline = open_pipe(nodes)
    for i in range(3):
        assert pipeline({"data": i})["result"] == i
    assert [one.num_requests for one in made] == [3, 3]
