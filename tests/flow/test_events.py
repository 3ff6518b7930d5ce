"""Laws of `hami.Event` and `hami.Dict`: a call that returns at once, and an end that is told exactly once."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

import hami

WAIT_S = 10.0
FOR_EVER_MS = 600_000


def fail_on(bad: Any) -> Any:
    """Return the work of a probe that raises for one value."""

    def work(item: dict[str, Any]) -> Any:
        if item["data"] == bad:
            raise ValueError(f"bad {bad}")
        return item["data"]

    return work


# --- Dict -----------------------------------------------------------------------------------------


def test_a_dict_has_its_keys_as_attributes() -> None:
    request = hami.Dict(data=1)
    request.event = 2
    assert request == {"data": 1, "event": 2} and request.data == 1 and isinstance(request, dict)
    del request.event
    assert "event" not in request
    for act in (lambda: request.event, lambda: delattr(request, "event")):
        with pytest.raises(AttributeError, match="`event`"):
            act()


def test_a_dict_with_attributes_is_a_request_like_any_other(open_pipe: Any) -> None:
    request = hami.Dict(data=3)
    assert open_pipe("Pow")(request) is request and request.result == 9


# --- calls ----------------------------------------------------------------------------------------


def test_a_call_with_an_event_returns_at_once(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    seen.shut()
    request = hami.Dict(data=1, event=hami.Event())
    assert pipeline(request) is request
    assert not request.event.is_set() and request.event.wait(0) is False and "result" not in request
    seen.open()
    assert request.event.wait(WAIT_S) is True
    assert request.result == 1 and request.event.is_set() and request.event.exception() is None


def test_a_plain_dict_may_carry_an_event(open_pipe: Any) -> None:
    request: dict[str, Any] = {"data": 3, "event": hami.Event()}
    open_pipe("Pow")(request)
    assert request["event"].wait(WAIT_S) and request["result"] == 9


def test_the_dicts_of_a_call_may_share_an_event(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "max": 2, "batching_timeout": FOR_EVER_MS})
    event = hami.Event()
    requests = [{"data": i, "event": event} for i in range(5)]
    seen.shut()
    assert pipeline(requests) is requests and not event.is_set()
    seen.open()
    assert event.wait(WAIT_S)
    assert [request["result"] for request in requests] == list(range(5))


def test_each_dict_may_have_an_event_of_its_own(open_pipe: Any) -> None:
    requests = [{"data": i, "event": hami.Event()} for i in range(5)]
    open_pipe("Pow")(requests)
    assert all(request["event"].wait(WAIT_S) for request in requests)
    assert [request["result"] for request in requests] == [0, 1, 4, 9, 16]


def test_an_empty_list_has_nothing_to_wait_for(open_pipe: Any) -> None:
    assert open_pipe("Pow")([]) == []


def test_the_event_stays_with_the_caller(open_pipe: Any) -> None:
    keys: list[Any] = []

    def note(batch: list[dict[str, Any]]) -> list[int]:
        keys.extend(sorted(item) for item in batch)
        return [0 for _ in batch]

    hami.register("note", note)
    event = hami.Event()
    request = {"data": 1, "event": event}
    open_pipe("note")(request)
    assert event.wait(WAIT_S) and keys == [["data"]]
    assert request == {"data": 1, "event": event, "result": 0}


# --- failures -------------------------------------------------------------------------------------


def test_wait_raises_what_the_request_ended_with(open_pipe: Any, probe: Any) -> None:
    probe(work=fail_on(1))
    event = hami.Event()
    open_pipe("Probe")({"data": 1, "event": event})
    for _ in range(2):
        with pytest.raises(ValueError, match="bad 1") as caught:
            event.wait(WAIT_S)
        assert caught.value.__notes__ == ["in node `node`, backend `Probe`, instance 0"]
    assert isinstance(event.exception(), ValueError) and event.is_set()


def test_the_first_exception_in_time_wins(open_pipe: Any, probe: Any, eventually: Any) -> None:
    slow, fast = probe("Slow", work=fail_on(1)), probe("Fast", work=fail_on(2))
    pipeline = open_pipe(
        {
            "a": {"backend": "Slow", "next": "out"},
            "b": {"backend": "Fast", "next": "out"},
            "out": {"backend": "Identity", "map": "a[result:data],b[result:other]"},
        }
    )
    event = hami.Event()
    slow.shut()
    pipeline([{"data": 1, "node_name": "a", "event": event}, {"data": 2, "node_name": "b", "event": event}])
    assert eventually(lambda: event.exception() is not None)
    assert not event.is_set() and fast.items == [2]
    slow.open()
    with pytest.raises(ValueError, match="bad 2"):
        event.wait(WAIT_S)


def test_the_others_of_a_call_keep_their_results(open_pipe: Any, probe: Any) -> None:
    probe(work=fail_on(1))
    event = hami.Event()
    requests = [{"data": i, "event": event} for i in range(3)]
    open_pipe({"backend": "Probe", "max": 4})(requests)
    with pytest.raises(ValueError, match="bad 1"):
        event.wait(WAIT_S)
    assert [request.get("result") for request in requests] == [0, None, 2]


def test_closing_the_pipeline_sets_the_event(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    event = hami.Event()
    seen.shut()
    pipeline([{"data": i, "event": event} for i in range(3)])
    pipeline.close(timeout=0)
    with pytest.raises(hami.Closed):
        event.wait(WAIT_S)


def test_a_deadline_sets_the_event(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    event = hami.Event()
    seen.shut()
    pipeline({"data": 1, "deadline_ms": 30, "event": event})
    with pytest.raises(hami.DeadlineExceeded):
        event.wait(WAIT_S)


# --- refusals -------------------------------------------------------------------------------------


def test_all_dicts_of_a_call_carry_an_event_or_none(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    event = hami.Event()
    for requests in ([{"data": 1, "event": event}, {"data": 2}], [{"data": 1}, {"data": 2, "event": event}]):
        with pytest.raises(hami.RequestError) as caught:
            pipeline(requests)
        assert caught.value.code == "request-event" and caught.value.help
    assert seen.items == [] and not event.is_set()
    pipeline({"data": 3, "event": event})
    assert event.wait(WAIT_S) and seen.items == [3]


@pytest.mark.parametrize("wrong", [threading.Event(), asyncio.Event, 1, "event", hami.Event, [hami.Event()]])
def test_an_event_of_another_kind_is_refused(open_pipe: Any, probe: Any, wrong: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    for request in ({"data": 1, "event": wrong}, [{"data": 1, "event": wrong}]):
        with pytest.raises(hami.RequestError, match=r"`hami\.Event`"):
            pipeline(request)
    assert seen.items == []


def test_an_event_in_use_or_used_is_refused(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    event, fresh = hami.Event(), hami.Event()
    seen.shut()
    pipeline({"data": 1, "event": event})
    with pytest.raises(hami.RequestError, match="in use"):
        pipeline([{"data": 2, "event": fresh}, {"data": 3, "event": event}])
    seen.open()
    assert event.wait(WAIT_S)
    with pytest.raises(hami.RequestError, match="used already"):
        pipeline({"data": 4, "event": event})
    pipeline({"data": 5, "event": fresh})
    assert fresh.wait(WAIT_S) and seen.items == [1, 5]


def test_a_call_that_is_refused_leaves_its_events_new(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "queue_capacity": 1})
    event = hami.Event()
    called: list[Any] = []
    event.add_callback(called.append)
    plug = seen.plug(pipeline)
    for requests, error in (
        ([{"data": i, "event": event} for i in range(2)], hami.QueueFull),
        ([{"data": 0, "event": event}, {"data": 1, "event": event, "request_size": 0}], hami.RequestError),
        ([{"data": 0, "event": event}, {"data": 1, "event": event, "node_name": "x"}], hami.RequestError),
    ):
        with pytest.raises(error):
            pipeline(requests)
    assert not event.is_set() and called == []
    seen.open()
    plug.result(WAIT_S)
    assert seen.items == ["plug"]
    pipeline({"data": 7, "event": event})
    assert event.wait(WAIT_S) and called == [event]


def test_one_dict_twice_in_a_call_is_refused(open_pipe: Any) -> None:
    request = {"data": 1, "event": hami.Event()}
    with pytest.raises(hami.RequestError, match="in a pipeline already"):
        open_pipe("Pow")([request, request])


def test_a_closed_pipeline_refuses_a_call_with_an_event(open_pipe: Any) -> None:
    pipeline = open_pipe("Pow")
    pipeline.close()
    with pytest.raises(hami.Closed):
        pipeline({"data": 1, "event": hami.Event()})


def test_other_ways_to_call_refuse_an_event(open_pipe: Any) -> None:
    pipeline = open_pipe("Pow")
    request = {"data": 1, "event": hami.Event()}
    for call in (lambda: pipeline.submit(request), lambda: asyncio.run(pipeline.acall(request))):
        with pytest.raises(hami.RequestError) as caught:
            call()
        assert caught.value.code == "request-event"


# --- callbacks ------------------------------------------------------------------------------------


def test_a_callback_is_called_once_with_the_event(open_pipe: Any, probe: Any, eventually: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    event = hami.Event()
    called: list[Any] = []
    seen.shut()
    pipeline([{"data": i, "event": event} for i in range(3)])
    event.add_callback(called.append)
    event.add_callback(lambda event: called.append("second"))
    assert called == []
    seen.open()
    assert eventually(lambda: called == [event, "second"])
    event.add_callback(called.append)
    assert called == [event, "second", event]


def test_what_a_callback_raises_is_logged_and_stops_nobody(open_pipe: Any, caplog: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    event, called = hami.Event(), threading.Event()
    seen.shut()
    pipeline({"data": 1, "event": event})

    def fails(event: hami.Event) -> None:
        raise LookupError("in the callback")

    event.add_callback(fails)
    event.add_callback(lambda event: called.set())
    with caplog.at_level(logging.ERROR, "hami"):
        seen.open()
        assert called.wait(WAIT_S)
    assert [record.name for record in caplog.records] == ["hami.event"]
    assert "in the callback" in caplog.text and event.wait(WAIT_S)


def test_a_callback_may_start_the_next_call(open_pipe: Any) -> None:
    pipeline = open_pipe("Pow")
    done = threading.Event()
    request: dict[str, Any] = {"data": 2, "event": hami.Event()}

    def again(event: hami.Event) -> None:
        if request["result"] < 1000:
            request.update(data=request["result"], event=hami.Event())
            request["event"].add_callback(again)
            pipeline(request)
        else:
            done.set()

    request["event"].add_callback(again)
    pipeline(request)
    assert done.wait(WAIT_S) and request["result"] == 65536


def test_many_callbacks_added_while_it_ends_are_called_once_each(
    open_pipe: Any, in_threads: Any, eventually: Any
) -> None:
    pipeline = open_pipe("Identities")
    for _ in range(20):
        event = hami.Event()
        called: list[int] = []

        def work(index: int, event: hami.Event = event, called: list[int] = called) -> None:
            if index == 0:
                pipeline({"data": 1, "event": event})
            event.add_callback(lambda event: called.append(index))
            assert event.wait(WAIT_S)

        in_threads(4, work)
        assert eventually(lambda called=called: sorted(called) == [0, 1, 2, 3])


# --- await ----------------------------------------------------------------------------------------


def test_an_event_can_be_awaited(open_pipe: Any, probe: Any) -> None:
    probe(work=fail_on(1))
    pipeline = open_pipe("Probe")

    async def main() -> None:
        good, bad = hami.Event(), hami.Event()
        request = pipeline({"data": 5, "event": good})
        assert await good is True and request["result"] == 5
        assert await good is True
        pipeline({"data": 1, "event": bad})
        with pytest.raises(ValueError, match="bad 1"):
            await bad

    asyncio.run(main())


def test_giving_up_awaiting_an_event_harms_nobody(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Probe")
    event = hami.Event()
    seen.shut()
    pipeline({"data": 5, "event": event})

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(_wait(event), 0.01)

    asyncio.run(main())
    seen.open()
    assert event.wait(WAIT_S) is True


async def _wait(event: hami.Event) -> None:
    await event


def test_an_event_says_what_state_it_is_in(open_pipe: Any) -> None:
    event = hami.Event()
    assert repr(event) == "<hami.Event new>"
    open_pipe("Pow")({"data": 1, "event": event})
    event.wait(WAIT_S)
    assert repr(event) == "<hami.Event set>"
