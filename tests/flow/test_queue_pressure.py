"""Laws of queues under load: bounded waiting rooms, and no element lost or doubled whoever gives up."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent import futures
from typing import Any

import pytest
from queue_market import WAIT_S, Market, market, result_of

import hami


@pytest.fixture
def open_market(open_pipe: Any) -> Callable[..., Market]:
    """Return a function that makes a Market."""
    return lambda *args, **keys: Market(open_pipe(market(*args, **keys)))


# --- back-pressure --------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["put", "take"])
def test_no_more_than_queue_capacity_wait_at_an_entry(open_market: Any, eventually: Any, side: str) -> None:
    both = open_market(capacity=1, **{side: {"queue_capacity": 3}})
    if side == "put":
        result_of(both.put("fills"))
    waits = [both.put(i) if side == "put" else both.take() for i in range(3)]
    with pytest.raises(hami.QueueFull):
        both.put(3) if side == "put" else both.take()
    assert waits[1].cancel()
    assert eventually(lambda: both.num_waiting(side) == 2)
    waits.append(both.put(4) if side == "put" else both.take())
    with pytest.raises(hami.QueueFull):
        both.put(5) if side == "put" else both.take()


def test_a_list_enters_as_a_whole_or_not_at_all(open_market: Any) -> None:
    both = open_market(put={"queue_capacity": 3})
    with pytest.raises(hami.QueueFull):
        both.pipeline([{"node_name": "put", "data": i} for i in range(4)])
    assert both.size() == 0
    both.pipeline([{"node_name": "put", "data": i} for i in range(3)])
    assert both.size() == 3


def test_a_full_queue_stops_the_node_that_makes_elements(
    open_market: Any, probe: Any, eventually: Any
) -> None:
    seen = probe()
    pipeline = open_market(
        capacity=2,
        make={"backend": "Probe", "next": "put", "queue_capacity": 4},
        put={"queue_capacity": 1, "next": "end"},
    ).pipeline
    both = Market(pipeline)
    started = []
    with pytest.raises(hami.QueueFull):
        for i in range(100):
            started.append(pipeline.submit({"node_name": "make", "data": i}))
            eventually(lambda i=i: len(seen.batches) >= min(i + 1, 3))
    # two in the queue, one that waits to get in, and four that wait for the maker
    assert eventually(lambda: len(seen.batches) == 3)
    assert len(started) == 7
    assert [result_of(both.take()) for _ in range(7)] == list(range(7))
    assert [result_of(future) for future in started] == list(range(7))


# --- nothing lost, nothing doubled ----------------------------------------------------------------

NUM_THREADS = 8


class Ledger:
    """What threads know of their own requests, to be compared with what the nodes counted."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.sent: set[int] = set()
        self.gave_up_sending: set[int] = set()
        self.received: list[int] = []
        self.num_gave_up_receiving = 0

    def note(self, side: str, number: int, outcome: Any) -> None:
        """Enter how one request ended; `outcome` is its result or None."""
        with self.lock:
            if side == "put":
                (self.gave_up_sending if outcome is None else self.sent).add(number)
            elif outcome is None:
                self.num_gave_up_receiving += 1
            else:
                self.received.append(outcome)


def trade(both: Market, ledger: Ledger, index: int, num_requests: int) -> None:
    """Send in even threads, receive in odd ones; now and then with a deadline, or cancelled at once."""
    generator = random.Random(index)
    side = "take" if index % 2 else "put"
    open_requests = []
    for i in range(num_requests):
        number = index * num_requests + i
        keys = {"deadline_ms": generator.choice([0.05, 1, 5])} if generator.random() < 0.3 else {}
        future = both.put(number, **keys) if side == "put" else both.take(**keys)
        if generator.random() < 0.2:
            future.cancel()
        open_requests.append((number, future))
        if len(open_requests) == 20 or i == num_requests - 1:
            for number, future in open_requests:
                try:
                    outcome = None if future.cancelled() else future.result(0 if future.done() else 0.05)
                except (TimeoutError, futures.TimeoutError, futures.CancelledError):
                    future.cancel()
                    outcome = None if future.cancelled() or future.exception() else result_of(future)
                else:
                    outcome = None if outcome is None else outcome["result"]
                ledger.note(side, number, outcome)
            open_requests.clear()


@pytest.mark.parametrize("capacity", [1, 7, 1000])
def test_no_element_is_lost_or_doubled_when_many_give_up(
    open_market: Any, in_threads: Any, eventually: Any, capacity: int
) -> None:
    both, ledger = open_market(capacity=capacity), Ledger()
    in_threads(NUM_THREADS, lambda index: trade(both, ledger, index, 300))
    assert eventually(lambda: both.num_waiting("put") == both.num_waiting("take") == 0)
    num_put, num_taken = both.figures("put")["items"], both.figures("take")["items"]
    left = [result_of(both.take()) for _ in range(both.size())]
    assert num_put - num_taken == len(left) <= capacity
    seen = ledger.received + left
    assert len(seen) == len(set(seen)), "an element came twice"
    assert set(seen) <= ledger.sent | ledger.gave_up_sending, "an element came from nowhere"
    # A request that gives up after its element has moved is the only way for one to be missing.
    assert num_put >= len(ledger.sent)
    assert num_taken >= len(ledger.received)
    assert num_taken - len(ledger.received) <= ledger.num_gave_up_receiving
    missing = ledger.sent - set(seen)
    assert len(missing) <= num_taken - len(ledger.received)


def test_places_come_back_when_elements_are_used_up_by_failing_work(open_pipe: Any, probe: Any) -> None:
    def work(item: dict[str, Any]) -> Any:
        if item["data"] % 10 == 3:
            raise ValueError(item["data"])
        return item["data"]

    probe(work=work, batch_range=(1, 8))
    tables = market(
        capacity=4,
        take={"backend": "Recv(jobs, target=work)"},
        work={"backend": "Probe", "max": 8},
    )
    both = Market(open_pipe(tables))
    num_elements = 1000
    takes = [both.take() for _ in range(num_elements)]
    puts = [both.put(i) for i in range(num_elements)]
    failed = 0
    for i, take in enumerate(takes):
        if i % 10 == 3:
            with pytest.raises(ValueError, match=str(i)):
                take.result(WAIT_S)
            failed += 1
        else:
            assert result_of(take) == i
    assert [result_of(put) for put in puts] == list(range(num_elements))
    assert (failed, both.size(), both.num_waiting("put"), both.num_waiting("take")) == (100, 0, 0, 0)


def test_close_in_the_middle_of_trade_ends_every_request(open_market: Any, in_threads: Any) -> None:
    both = open_market(capacity=3)
    started: list[Any] = []

    def act(index: int) -> None:
        for i in range(500):
            try:
                started.append(both.put(i) if index % 2 else both.take())
            except hami.Closed:
                return
            if index == 0 and i == 250:
                both.pipeline.close(0)

    in_threads(4, act)
    both.pipeline.close(0)
    for future in started:
        error = future.exception(WAIT_S)
        assert error is None or isinstance(error, hami.Closed)
