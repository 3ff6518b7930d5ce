"""Laws of the end of an instance: `close` of a Python backend is called once, after its last run."""

from __future__ import annotations

import logging
import threading
from typing import Any

import pytest

import hami

WAIT_S = 10.0

Batch = list[dict[str, Any]]


class Closing(hami.Backend):
    """Answer with the data; note what happens to every instance."""

    events: list[Any]

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Note the start."""
        self.events.append(("init", id(self)))

    def forward(self, batch: Batch) -> list[Any]:
        """Answer."""
        return [item["data"] for item in batch]

    def close(self) -> None:
        """Note the end."""
        self.events.append(("close", id(self)))


@pytest.fixture
def events() -> list[Any]:
    """Return what happens to the instances of `Closing`, which is registered."""
    found: list[Any] = []
    hami.register("Closing", type("Closing", (Closing,), {"events": found}))
    return found


def test_every_instance_is_closed_once_with_its_pipeline(open_pipe: Any, events: list[Any]) -> None:
    pipeline = open_pipe({"backend": "S[Closing, Closing]", "instance_num": 2})
    pipeline({"data": 1})
    made = [who for what, who in events]
    assert len(made) == 4 and all(what == "init" for what, _ in events)
    pipeline.close()
    assert sorted(who for what, who in events if what == "close") == sorted(made)
    pipeline.close()
    assert len(events) == 8


def test_instances_close_in_the_reverse_order_of_their_making(open_pipe: Any, events: list[Any]) -> None:
    open_pipe({"a": {"backend": "Closing", "next": "b"}, "b": {"backend": "Closing"}}).close()
    made = [who for what, who in events if what == "init"]
    assert [who for what, who in events if what == "close"] == made[::-1]


def test_a_pipeline_that_goes_away_closes_its_instances(events: list[Any]) -> None:
    hami.pipe("Closing")({"data": 1})
    assert [what for what, _ in events] == ["init", "close"]


def test_what_was_made_before_a_build_failed_is_closed(events: list[Any]) -> None:
    class Broken(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            raise ValueError("broken")

        def forward(self, batch: Batch) -> None: ...

    hami.register("Broken", Broken)
    with pytest.raises(ValueError, match="broken"):
        hami.pipe("S[Closing, Broken]")
    assert [what for what, _ in events] == ["init", "close"]


def test_an_object_of_the_user_is_not_closed(open_pipe: Any) -> None:
    class Shared:
        is_closed = False

        def forward(self, batch: Batch) -> list[Any]:
            return [item["data"] for item in batch]

        def close(self) -> None:
            self.is_closed = True

    shared = Shared()
    hami.register("shared", shared)
    open_pipe("Forward[shared]").close()
    assert not shared.is_closed
    assert open_pipe("Forward[shared]")({"data": 1})["result"] == 1


def test_close_comes_after_a_run_that_the_pipeline_left_behind(
    open_pipe: Any, eventually: Any, caplog: Any
) -> None:
    inside, leave, events = threading.Event(), threading.Event(), []

    @hami.register
    class Slow(hami.Backend):
        def forward(self, batch: Batch) -> list[int]:
            inside.set()
            assert leave.wait(WAIT_S)
            events.append("forward")
            return [0 for _ in batch]

        def close(self) -> None:
            events.append("close")

    pipeline = open_pipe({"slow": {"backend": "Slow"}})
    future = pipeline.submit({"data": 1})
    assert inside.wait(WAIT_S)
    with caplog.at_level(logging.WARNING, "hami"):
        assert pipeline.close(timeout=0) is False
    assert isinstance(future.exception(WAIT_S), hami.Closed) and events == []
    assert [(record.name, record.levelname) for record in caplog.records] == [("hami.node.slow", "WARNING")]
    assert "`Slow`" in caplog.text
    leave.set()
    assert eventually(lambda: events == ["forward", "close"])


def test_a_backend_may_ask_to_be_closed_during_a_run(open_pipe: Any, eventually: Any) -> None:
    inside, leave = threading.Event(), threading.Event()
    ended: list[bool] = []

    @hami.register
    class Wakeable(hami.Backend):
        closes_while_running = True

        def forward(self, batch: Batch) -> list[int]:
            inside.set()
            ended.append(leave.wait(WAIT_S))
            return [0 for _ in batch]

        def close(self) -> None:
            leave.set()

    pipeline = open_pipe("Wakeable")
    pipeline.submit({"data": 1})
    assert inside.wait(WAIT_S)
    pipeline.close(timeout=0)
    assert eventually(lambda: ended == [True])


def test_an_instance_that_was_closed_runs_no_more(open_pipe: Any, eventually: Any) -> None:
    inside, leave, ran = threading.Event(), threading.Event(), []

    @hami.register
    class First(hami.Backend):
        def forward(self, batch: Batch) -> list[int]:
            inside.set()
            assert leave.wait(WAIT_S)
            ran.append("first")
            return [0 for _ in batch]

    @hami.register
    class Second(hami.Backend):
        def forward(self, batch: Batch) -> list[int]:
            ran.append("second")
            return [0 for _ in batch]

        def close(self) -> None:
            ran.append("closed")

    pipeline = open_pipe("S[First, Second]")
    pipeline.submit({"data": 1})
    assert inside.wait(WAIT_S)
    pipeline.close(timeout=0)
    leave.set()
    assert eventually(lambda: "first" in ran)
    assert ran == ["closed", "first"]


@pytest.mark.parametrize("error", [ValueError("from close"), SystemExit(3), KeyboardInterrupt()])
def test_what_close_raises_is_logged_and_stops_nobody(
    open_pipe: Any, events: list[Any], caplog: Any, error: BaseException
) -> None:
    @hami.register
    class Fails(hami.Backend):
        def forward(self, batch: Batch) -> None: ...

        def close(self) -> None:
            raise error

    pipeline = open_pipe("S[Closing, Fails]")
    with caplog.at_level(logging.ERROR, "hami"):
        assert pipeline.close() is True
    assert [what for what, _ in events] == ["init", "close"]
    assert [record.name for record in caplog.records] == ["hami.node.node"]
    assert caplog.records[0].exc_info[1] is error


def test_closing_from_many_threads_closes_an_instance_once(
    open_pipe: Any, events: list[Any], in_threads: Any
) -> None:
    for _ in range(10):
        pipeline = open_pipe("Closing")
        in_threads(4, lambda _, pipeline=pipeline: pipeline.close(WAIT_S))
    assert [what for what, _ in events].count("close") == 10
