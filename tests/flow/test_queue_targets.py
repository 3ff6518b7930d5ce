"""Laws of `Recv(queue, target=node)`: the element goes through a subgraph, whose result is the result."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from queue_market import WAIT_S, Market, market, result_of

import hami


@pytest.fixture
def open_market(open_pipe: Any) -> Callable[..., Market]:
    """Return a function that makes a market whose `take` sends elements through the node `work`."""

    def make(work: str = "Pow", **nodes: Any) -> Market:
        take = {"backend": "Recv(jobs, target=work)", **nodes.pop("take", {})}
        settings = nodes.pop("settings", {})
        return Market(open_pipe(market(take=take, work={"backend": work, **settings}, **nodes)))

    return make


def test_the_result_of_the_subgraph_is_the_result(open_market: Any) -> None:
    both = open_market("Pow", settings={"next": "again"}, again={"backend": "Pow"})
    result_of(both.put(3))
    request = {"node_name": "take", "data": "own"}
    assert both.pipeline(request) == {"node_name": "take", "data": "own", "result": 81}


def test_the_element_is_all_that_the_subgraph_sees_besides_the_context(open_market: Any, probe: Any) -> None:
    probe(work=dict)
    both = open_market("Probe")
    context = object()
    result_of(both.put("element"))
    assert result_of(both.take(data="own", mine=1, context=context)) == {
        "data": "element",
        "context": context,
    }


def test_an_element_that_comes_late_goes_the_same_way(open_market: Any, eventually: Any) -> None:
    both = open_market()
    waits = [both.take() for _ in range(3)]
    assert eventually(lambda: both.num_waiting("take") == 3)
    for i in (2, 3, 4):
        result_of(both.put(i))
    assert [result_of(wait) for wait in waits] == [4, 9, 16]


def test_elements_of_several_requests_share_batches(open_market: Any, probe: Any, eventually: Any) -> None:
    seen = probe(batch_range=(1, 4))
    both = open_market("Probe", settings={"max": 4, "batching_timeout": 600_000})
    waits = [both.take() for _ in range(8)]
    assert eventually(lambda: both.num_waiting("take") == 8)
    for i in range(8):
        result_of(both.put(i))
    assert [result_of(wait) for wait in waits] == list(range(8))
    assert sum(len(batch) for batch in seen.batches) == 8
    assert len(seen.batches) < 8


def test_an_error_in_the_subgraph_is_the_requests_error_and_names_the_node(open_market: Any) -> None:
    both = open_market()
    result_of(both.put("no number"))
    with pytest.raises(hami.RequestError, match="`str`") as caught:
        both.pipeline({"node_name": "take"})
    assert any("node `work`" in note for note in caught.value.__notes__)
    result_of(both.put(2))
    assert result_of(both.take()) == 4


def test_the_deadline_holds_inside_the_subgraph(open_market: Any, probe: Any, eventually: Any) -> None:
    seen = probe()
    both = open_market("Probe")
    plug = both.take()
    seen.shut()
    result_of(both.put("plug"))
    seen.wait_for_runs(1)
    result_of(both.put("late"))
    with pytest.raises(hami.DeadlineExceeded):
        both.take(deadline_ms=30).result(WAIT_S)
    seen.open()
    assert result_of(plug) == "plug"
    result_of(both.put("next"))
    assert result_of(both.take()) == "next"
    assert seen.items == ["plug", "next"]


def test_priority_travels_with_the_element(
    open_market: Any, probe: Any, eventually: Any, waiting: Any
) -> None:
    seen = probe()
    both = open_market("Probe", settings={"scheduler": "priority"})
    seen.shut()
    takes = [both.take()]
    result_of(both.put("plug"))
    seen.wait_for_runs(1)
    for priority in (0, 5, 50_000):
        result_of(both.put(priority))
        takes.append(both.take(priority=priority))
    assert eventually(lambda: both.num_waiting("work") == 3)
    seen.open()
    for take in takes:
        result_of(take)
    assert seen.items == ["plug", 50_000, 5, 0]


@pytest.mark.parametrize("how", ["cancel", "sibling", "deadline"])
def test_children_of_a_for_each_leave_the_queue_when_nobody_wants_them(
    open_pipe: Any, eventually: Any, probe: Any, how: str
) -> None:
    """One child fails while others wait in `Recv`, or the parent gives up: none of them stays behind."""

    def work(item: dict[str, Any]) -> Any:
        if item["data"] == "fail":
            raise ValueError("sibling")
        return item["data"]

    seen = probe(work=work)
    both = Market(
        open_pipe(
            market(
                each={"backend": "ForEach(target=part)", "next": "end"},
                part={"backend": "Probe", "next": "inner"},
                inner={"backend": "Recv(jobs)"},
            )
            | {"put": {"backend": "Send(jobs)", "next": "end"}}
        )
    )
    elements = ["wait", "wait", "fail" if how == "sibling" else "wait"]
    seen.shut()
    keys = {"deadline_ms": 200} if how == "deadline" else {}
    parent = both.pipeline.submit({"node_name": "each", "data": elements, **keys})
    seen.open()
    if how == "cancel":
        assert eventually(lambda: both.num_waiting("inner") == 3)
        parent.cancel()
    expected = {"sibling": ValueError, "deadline": hami.DeadlineExceeded}.get(how)
    if expected is not None:
        with pytest.raises(expected):
            parent.result(WAIT_S)
    assert eventually(lambda: both.num_waiting("inner") == 0)
    result_of(both.put("still there"))
    assert both.size() == 1


def test_a_branch_that_waits_ends_when_another_branch_fails(open_pipe: Any, eventually: Any) -> None:
    tables = {
        "start": {"backend": "Identity", "next": "wait,fail"},
        "wait": {"backend": "Recv(q)", "next": "join"},
        "fail": {"backend": "Pow", "next": "join"},
        "join": {"backend": "Identity", "map": "wait[result:data],fail[result:other]"},
    }
    pipeline = open_pipe(tables)
    with pytest.raises(hami.RequestError, match="`Pow`"):
        pipeline({"data": "no number"})
    row = next(row for row in pipeline.stats() if row["node"] == "wait")
    assert row["waiting"] == 0 and row["dropped"] == 1


def test_an_unknown_target_is_refused_with_the_nearest_name(open_pipe: Any) -> None:
    with pytest.raises(hami.ConfigError) as caught:
        open_pipe({"take": {"backend": "Recv(q, target=wrok)"}, "work": {"backend": "Pow"}})
    assert (caught.value.code, caught.value.help) == ("plan-unknown-target", "did you mean `work`?")


def test_messages_about_the_subgraph_of_a_recv_say_so(open_pipe: Any) -> None:
    tables = {
        "take": {"backend": "Recv(q, target=work)", "next": "after"},
        "after": {"backend": "Pow", "next": "work"},
        "work": {"backend": "Pow"},
    }
    with pytest.raises(hami.ConfigError, match="subgraph of a Recv at `work`") as caught:
        open_pipe(tables)
    assert "Recv alone" in caught.value.help


def test_a_recv_cannot_enter_a_subgraph_that_it_is_in(open_pipe: Any) -> None:
    with pytest.raises(hami.ConfigError) as caught:
        open_pipe({"take": {"backend": "Recv(q, target=take)"}})
    assert caught.value.code == "plan-foreach-cycle"
