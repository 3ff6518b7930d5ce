"""Laws of `Queue`, `Send`, `Recv` and `Observer`: bounded, in order, and no thread that waits."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from queue_market import WAIT_S, Market, market, result_of

import hami

FOR_EVER_MS = 600_000


@pytest.fixture
def open_market(open_pipe: Any) -> Callable[..., Market]:
    """Return a function that makes a Market."""
    return lambda *args, **keys: Market(open_pipe(market(*args, **keys)))


# --- elements -------------------------------------------------------------------------------------


def test_what_is_sent_is_received_and_is_the_same_object(open_market: Any) -> None:
    both = open_market()
    for element in (1, None, "text", b"bytes", [1], {"a": 1}, object(), 10**30):
        assert result_of(both.put(element)) is element or element == 1
        assert result_of(both.take()) is element or element == 1


def test_the_result_of_send_is_its_data_and_the_callers_dict_keeps_its_own(open_market: Any) -> None:
    both = open_market()
    request = {"node_name": "put", "data": 5, "mine": 1}
    both.pipeline(request)
    assert request == {"node_name": "put", "data": 5, "mine": 1, "result": 5}
    request = {"node_name": "take", "data": "own", "mine": 2}
    both.pipeline(request)
    assert request == {"node_name": "take", "data": "own", "mine": 2, "result": 5}


def test_elements_come_in_the_order_in_which_they_were_sent(open_market: Any) -> None:
    both = open_market()
    for i in range(100):
        result_of(both.put(i))
    assert [result_of(both.take()) for _ in range(100)] == list(range(100))


def test_the_observer_counts_and_takes_nothing(open_market: Any) -> None:
    both = open_market()
    assert both.size() == 0
    for i in range(3):
        result_of(both.put(i))
    assert [both.size(), both.size()] == [3, 3]
    result_of(both.take())
    assert both.size() == 2


def test_an_observer_needs_no_data(open_market: Any) -> None:
    pipeline = open_market(look={"backend": "Observer(jobs)"}).pipeline
    assert pipeline({"node_name": "look"})["result"] == 0


def test_send_without_data_is_a_request_error_that_takes_no_place(open_market: Any) -> None:
    both = open_market(capacity=1)
    with pytest.raises(hami.RequestError, match="data") as caught:
        both.pipeline({"node_name": "put"})
    assert caught.value.code == "request-missing-key"
    assert both.size() == 0
    assert both.figures("put")["errors"] == 1
    assert result_of(both.put(1)) == 1


def test_a_request_may_pass_send_and_recv_in_one_chain(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "a": {"backend": "Send(q)", "next": "b"},
            "b": {"backend": "Recv(q)", "next": "c"},
            "c": {"backend": "Pow"},
        }
    )
    assert [pipeline({"data": i})["result"] for i in range(5)] == [i * i for i in range(5)]


# --- waiting --------------------------------------------------------------------------------------


def test_a_recv_waits_for_an_element(open_market: Any, eventually: Any) -> None:
    both = open_market()
    waits = both.take()
    assert eventually(lambda: both.num_waiting("take") == 1)
    assert not waits.done()
    result_of(both.put("late"))
    assert result_of(waits) == "late"
    assert both.size() == 0


def test_a_full_queue_makes_send_wait_and_holds_no_more_than_its_capacity(
    open_market: Any, eventually: Any
) -> None:
    both = open_market(capacity=2)
    puts = [both.put(i) for i in range(5)]
    assert eventually(lambda: both.num_waiting("put") == 3)
    assert [put.done() for put in puts[2:]] == [False] * 3
    assert both.size() == 2
    for expected in range(5):
        assert result_of(both.take()) == expected
        assert both.size() == min(2, 4 - expected)
    assert [result_of(put) for put in puts] == list(range(5))


def test_those_who_wait_to_receive_are_served_in_the_order_of_their_arrival(open_market: Any) -> None:
    both = open_market()
    takes = [both.take(priority=i % 3) for i in range(30)]
    for i in range(30):
        result_of(both.put(i))
    assert [result_of(take) for take in takes] == list(range(30))


def test_waiting_holds_no_thread(open_market: Any, eventually: Any) -> None:
    both = open_market(capacity=1)
    num_threads = threading.active_count()
    takes = [both.take() for _ in range(1000)]
    assert eventually(lambda: both.num_waiting("take") == 1000)
    assert threading.active_count() == num_threads
    puts = [both.put(i) for i in range(2000)]
    assert [result_of(take) for take in takes] == list(range(1000))
    assert eventually(lambda: both.num_waiting("put") == 999)
    assert [result_of(both.take()) for _ in range(1000)] == list(range(1000, 2000))
    assert [result_of(put) for put in puts] == list(range(2000))


def test_whoever_waits_in_a_queue_keeps_no_batch_waiting(open_pipe: Any, eventually: Any) -> None:
    tables = market(put={"next": "many"}, many={"backend": "Identities", "max": 8, "next": "end"})
    tables["many"]["batching_timeout"] = FOR_EVER_MS
    tables["end"]["map"] = "many[result:a],take[result:b],look[result:c]"
    both = Market(open_pipe(tables))
    takes = [both.take() for _ in range(3)]
    assert eventually(lambda: both.num_waiting("take") == 3)
    assert result_of(both.put(1)) == 1  # not a full batch: nobody else can come
    takes_done = [both.put(2), both.put(3)]
    assert [result_of(take) for take in takes] == [1, 2, 3]
    assert sorted(result_of(put) for put in takes_done) == [2, 3]


# --- leaving --------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["put", "take"])
def test_a_deadline_is_answered_while_the_request_waits(open_market: Any, eventually: Any, side: str) -> None:
    both = open_market(capacity=1)
    if side == "put":
        result_of(both.put("fills"))
    waits = both.put("late", deadline_ms=30) if side == "put" else both.take(deadline_ms=30)
    with pytest.raises(hami.DeadlineExceeded):
        waits.result(WAIT_S)
    assert eventually(lambda: both.num_waiting(side) == 0)
    if side == "put":
        assert result_of(both.take()) == "fills"
    assert both.size() == 0
    result_of(both.put("next"))
    assert result_of(both.take()) == "next"
    assert both.figures(side)["dropped"] == 1


@pytest.mark.parametrize("side", ["put", "take"])
def test_a_cancelled_request_leaves_the_queue_and_takes_nothing_along(
    open_market: Any, eventually: Any, side: str
) -> None:
    both = open_market(capacity=1)
    if side == "put":
        result_of(both.put("fills"))
    waits = [both.put(i) if side == "put" else both.take() for i in range(5)]
    assert eventually(lambda: both.num_waiting(side) == 5)
    assert [waits[i].cancel() for i in (0, 2, 3)] == [True] * 3
    assert eventually(lambda: both.num_waiting(side) == 2)
    if side == "put":
        assert [result_of(both.take()) for _ in range(3)] == ["fills", 1, 4]
    else:
        for element in ("a", "b", "c"):
            result_of(both.put(element))
        assert [result_of(waits[1]), result_of(waits[4]), both.size()] == ["a", "b", 1]


def test_a_request_that_left_lets_go_of_its_data(open_market: Any, eventually: Any) -> None:
    class Thing:
        pass

    both = open_market(capacity=1)
    result_of(both.put("fills"))
    thing = Thing()
    gone = weakref.ref(thing)
    put = both.put(thing)
    assert eventually(lambda: both.num_waiting("put") == 1)
    assert put.cancel()
    del thing, put
    assert eventually(lambda: both.size() == 1 and gone() is None)


@pytest.mark.parametrize("side", ["put", "take"])
def test_close_ends_those_who_wait_and_does_not_wait_for_them(
    open_market: Any, eventually: Any, side: str
) -> None:
    both = open_market(capacity=1)
    if side == "put":
        result_of(both.put("fills"))
    waits = [both.put(i) if side == "put" else both.take() for i in range(20)]
    assert eventually(lambda: both.num_waiting(side) == 20)
    assert both.pipeline.close(timeout=3600) is False
    for wait in waits:
        with pytest.raises(hami.Closed):
            wait.result(WAIT_S)


def test_close_drops_the_elements(open_market: Any) -> None:
    class Thing:
        pass

    both = open_market()
    thing = Thing()
    gone = weakref.ref(thing)
    result_of(both.put(thing))
    del thing
    assert gone() is not None
    both.pipeline.close()
    assert gone() is None


def test_close_lets_a_request_inside_fill_what_another_waits_for(
    open_market: Any, probe: Any, eventually: Any, in_threads: Any
) -> None:
    seen = probe()
    pipeline = open_market(make={"backend": "Probe", "next": "put"}, put={"next": "end"}).pipeline
    both = Market(pipeline)
    waits = both.take()
    seen.shut()
    makes = pipeline.submit({"node_name": "make", "data": "made"})
    seen.wait_for_runs(1)

    def act(index: int) -> Any:
        if index == 0:
            return pipeline.close(WAIT_S)
        assert eventually(lambda: "closed" in repr(pipeline))
        seen.open()
        return None

    assert in_threads(2, act)[0] is True
    assert [result_of(makes), result_of(waits)] == ["made", "made"]


# --- names and capacities -------------------------------------------------------------------------


def test_two_pipelines_do_not_share_a_queue(open_market: Any) -> None:
    one, two = open_market(), open_market()
    result_of(one.put("mine"))
    assert [one.size(), two.size()] == [1, 0]


def test_queues_of_other_names_are_other_queues(open_pipe: Any) -> None:
    tables = market(take={"backend": "Recv(others)"})
    both = Market(open_pipe(tables))
    waits = both.take()
    result_of(both.put(1))
    assert both.size() == 1 and not waits.done()


def test_a_queue_may_be_declared_behind_its_users_and_in_several_instances(open_market: Any) -> None:
    both = open_market(capacity=3, look={"instance_num": 4})
    puts = [both.put(i) for i in range(4)]
    assert [result_of(put) for put in puts[:3]] == [0, 1, 2]
    assert both.size() == 3 and not puts[3].done()


def test_two_capacities_for_one_name_are_a_build_error(open_pipe: Any) -> None:
    with pytest.raises(hami.BuildError, match="`8` here and `4` elsewhere") as caught:
        open_pipe("S[Queue(q, 4), Queue(q, 8)]")
    assert (caught.value.code, bool(caught.value.help)) == ("build-queue-capacity", True)


def test_the_same_capacity_may_be_said_twice(open_pipe: Any) -> None:
    assert open_pipe("S[Queue(q, 4), Queue(q, 4)]")({"data": 1})["result"] == 1


@pytest.mark.parametrize(
    "backend",
    ["Queue", "Queue(q, 0)", "Queue(q, -1)", "Queue(q, many)", "Queue(q, 1.5)", "Send", "Recv", "Observer"],
)
def test_wrong_arguments_are_found_while_planning(open_pipe: Any, backend: str) -> None:
    with pytest.raises(hami.ConfigError) as caught:
        open_pipe(backend)
    assert caught.value.help


@pytest.mark.parametrize("text", ["Queue(q, 2)", "IoC[Queue(q, 2); S[Forward[Queue], Observer(q)]]"])
def test_a_queue_passes_its_data_on_wherever_it_stands(open_pipe: Any, text: str) -> None:
    assert open_pipe(text)({"data": 7})["result"] in (7, 0)


def test_the_older_names_do_the_same(open_pipe: Any) -> None:
    tables = market(take={"backend": "SrcQueue(jobs)"}, look={"backend": "CreateQueue(jobs, 1)"})
    both = Market(open_pipe(tables))
    assert both.pipeline({"node_name": "look", "data": 3})["result"] == 3
    puts = [both.put(i) for i in range(2)]
    assert not puts[1].done()
    assert [result_of(both.take()), result_of(both.take())] == [0, 1]
