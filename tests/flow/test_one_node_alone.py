"""Laws of a request for one node: nothing before or behind it runs, and its result is the answer."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import hami
from hami.errors import Cancelled, Closed, QueueFull, RequestError

CHAIN = {
    "first": {"backend": "First", "next": "middle"},
    "middle": {"backend": "Middle", "next": "last"},
    "last": {"backend": "Last"},
}


@pytest.fixture
def chain(open_pipe: Any, probe: Any) -> tuple[hami.Pipeline, dict[str, Any]]:
    """Three nodes that add 1, 10 and 100, and the probes inside them."""
    probes = {
        name.lower(): probe(name, lambda item, amount=amount: item["data"] + amount)
        for name, amount in (("First", 1), ("Middle", 10), ("Last", 100))
    }
    return open_pipe(CHAIN), probes


def run_alone(pipe: hami.Pipeline, node: str, **request: Any) -> dict[str, Any]:
    return pipe.submit(request, node=node).result(timeout=10)


@pytest.mark.parametrize(("node", "result"), [("first", 1), ("middle", 10), ("last", 100)])
def test_only_the_node_runs(chain: Any, node: str, result: int) -> None:
    pipe, probes = chain
    assert run_alone(pipe, node, data=0) == {"data": 0, "result": result}
    assert {name: len(probe.items) for name, probe in probes.items()} == {
        name: int(name == node) for name in probes
    }


def test_requests_for_a_node_and_for_the_whole_share_a_batch(open_pipe: Any, probe: Any) -> None:
    seen = probe("Seen", batch_range=(1, 8))
    pipe = open_pipe(
        {
            "before": {"backend": "Identity", "next": "seen"},
            "seen": {"backend": "Seen", "batching_timeout": 1000, "next": "after"},
            "after": {"backend": "Identity"},
        }
    )
    plug = seen.plug(pipe)
    whole = [pipe.submit({"data": f"whole {i}"}) for i in range(2)]
    alone = [pipe.submit({"data": f"alone {i}"}, node="seen") for i in range(2)]
    seen.open()
    assert [future.result(10)["result"] for future in [plug, *whole, *alone]] == [
        "plug",
        "whole 0",
        "whole 1",
        "alone 0",
        "alone 1",
    ]
    assert sorted(seen.batches[1]) == ["alone 0", "alone 1", "whole 0", "whole 1"]


def test_a_join_runs_alone_on_what_the_caller_gives(open_pipe: Any, probe: Any) -> None:
    probe("Sum", lambda item: item["data"] + item["small"])
    pipe = open_pipe(
        {
            "square": {"backend": "Pow", "next": "twice,join"},
            "twice": {"backend": "Pow", "next": "join"},
            "join": {"backend": "Sum", "map": "twice[result:data],square[result:small]"},
        }
    )
    assert run_alone(pipe, "join", data=1, small=2)["result"] == 3
    assert run_alone(pipe, "square", data=3)["result"] == 9
    assert pipe({"data": 3})["result"] == 90


def test_an_or_node_runs_alone(open_pipe: Any, probe: Any) -> None:
    probe("Other", lambda item: "other")
    pipe = open_pipe(
        {"first": {"backend": "Identity", "next": "other"}, "other": {"backend": "Other", "or": True}}
    )
    assert run_alone(pipe, "other", data=1)["result"] == "other"
    assert run_alone(pipe, "first", data=1)["result"] == 1


def test_a_foreach_alone_still_enters_its_subgraph(open_pipe: Any) -> None:
    pipe = open_pipe(
        {
            "before": {"backend": "Pow", "next": "each"},
            "each": {"backend": "ForEach(target=square)", "next": "after"},
            "after": {"backend": "Identity"},
            "square": {"backend": "Pow"},
        }
    )
    assert run_alone(pipe, "each", data=[1, 2, 3])["result"] == [1, 4, 9]


def test_a_node_inside_a_subgraph_runs_alone(open_pipe: Any) -> None:
    pipe = open_pipe({"each": {"backend": "ForEach(target=square)"}, "square": {"backend": "Pow"}})
    assert run_alone(pipe, "square", data=5)["result"] == 25
    assert pipe({"data": [5]})["result"] == [25]


def test_a_restart_alone_sends_nothing_back(open_pipe: Any, rounds: None) -> None:
    pipe = open_pipe(
        {"work": {"backend": "Work", "next": "again"}, "again": {"backend": "Restart", "next": "work"}}
    )
    assert run_alone(pipe, "again", data=1, restart=True)["result"] == 1
    assert run_alone(pipe, "work", data=1)["result"] == 2
    assert pipe({"data": 1})["result"] == 6


def test_the_pipeline_of_many_entries_needs_no_entry_for_it(open_pipe: Any) -> None:
    pipe = open_pipe(
        {
            "a": {"backend": "Pow", "next": "end"},
            "b": {"backend": "Pow", "next": "end"},
            "end": {"backend": "Identity", "map": "a[result:data],b[result:other]"},
        }
    )
    assert run_alone(pipe, "a", data=2)["result"] == 4
    with pytest.raises(RequestError, match="2 entry nodes"):
        pipe({"data": 2})


def test_a_node_that_is_not_there_is_refused_at_once(chain: Any) -> None:
    pipe, _ = chain
    with pytest.raises(RequestError) as caught:
        pipe.submit({"data": 1}, node="lost")
    assert caught.value.code == "request-unknown-node"
    assert caught.value.help == "its nodes are `first`, `middle`, `last`"


def test_a_refused_dict_can_be_submitted_again(chain: Any) -> None:
    pipe, _ = chain
    request = {"data": 1}
    with pytest.raises(RequestError):
        pipe.submit(request, node="lost")
    assert pipe(request)["result"] == 112


def test_what_the_node_raises_is_the_answer(open_pipe: Any, probe: Any) -> None:
    def fail(item: dict[str, Any]) -> Any:
        raise ZeroDivisionError("of the node")

    probe("Fails", fail)
    pipe = open_pipe({"first": {"backend": "Identity", "next": "fails"}, "fails": {"backend": "Fails"}})
    request = {"data": 1}
    with pytest.raises(ZeroDivisionError, match="of the node"):
        pipe.submit(request, node="fails").result(10)
    assert request == {"data": 1}


def test_a_node_without_a_result_is_named(open_pipe: Any) -> None:
    @hami.register
    def Silent(batch: list[Any]) -> None:  # noqa: N802
        pass

    pipe = open_pipe(
        {
            "first": {"backend": "Identity", "next": "silent"},
            "silent": {"backend": "Silent", "next": "other"},
            "other": {"backend": "Identity", "or": True},
        }
    )
    with pytest.raises(RequestError, match="node `silent` ended without a `result`"):
        run_alone(pipe, "silent", data=1)


def test_the_waiting_room_of_the_node_bounds_its_requests(open_pipe: Any, probe: Any) -> None:
    seen = probe("Seen")
    pipe = open_pipe(
        {"first": {"backend": "Identity", "next": "seen"}, "seen": {"backend": "Seen", "queue_capacity": 1}}
    )
    plug = seen.plug(pipe)
    waiting = pipe.submit({"data": "waits"}, node="seen")
    with pytest.raises(QueueFull):
        pipe.submit({"data": "too many"}, node="seen")
    seen.open()
    assert waiting.result(10)["result"] == "waits"
    assert plug.result(10)["result"] == "plug"


def test_max_in_flight_counts_them(open_pipe: Any, probe: Any) -> None:
    seen = probe("Seen")
    pipe = open_pipe(
        {"max_in_flight": 1, "first": {"backend": "Seen", "next": "last"}, "last": {"backend": "Pow"}}
    )
    plug = seen.plug(pipe)
    with pytest.raises(QueueFull, match="max_in_flight"):
        pipe.submit({"data": 2}, node="last")
    seen.open()
    with pytest.raises(RequestError, match="`Pow` needs"):
        plug.result(10)
    assert run_alone(pipe, "last", data=2)["result"] == 4


def test_a_cancelled_one_never_runs(chain: Any) -> None:
    pipe, probes = chain
    middle = probes["middle"]
    middle.shut()
    running = pipe.submit({"data": 0}, node="middle")
    middle.wait_for_runs(1)
    waiting = pipe.submit({"data": 1}, node="middle")
    assert waiting.cancel()
    middle.open()
    assert running.result(10)["result"] == 10
    with pytest.raises((Cancelled, BaseException)):
        waiting.result(10)
    assert middle.items == [0]


def test_a_closed_pipeline_refuses_it(chain: Any) -> None:
    pipe, _ = chain
    pipe.close()
    with pytest.raises(Closed):
        pipe.submit({"data": 0}, node="middle")


def test_it_can_be_awaited(chain: Any) -> None:
    pipe, _ = chain
    assert asyncio.run(pipe.acall({"data": 5}, node="middle"))["result"] == 15


def test_a_generator_in_the_middle_streams_when_it_is_alone(open_pipe: Any) -> None:
    @hami.register
    def Spell(item: dict[str, Any]) -> Any:  # noqa: N802
        yield from item["data"]
        return item["data"].upper()

    pipe = open_pipe({"spell": {"backend": "Spell", "next": "last"}, "last": {"backend": "Identity"}})
    assert list(pipe.stream({"data": "abc"}, node="spell")) == ["a", "b", "c"]
    assert list(pipe.stream({"data": "abc"})) == ["ABC"]

    async def collect() -> list[Any]:
        return [part async for part in pipe.astream({"data": "xy"}, node="spell")]

    assert asyncio.run(collect()) == ["x", "y"]


def test_a_deferred_node_in_the_middle_streams_when_it_is_alone(open_pipe: Any) -> None:
    @hami.register
    class Later(hami.Backend):
        def start(self, item: dict[str, Any], reply: Any) -> None:
            def answer() -> None:
                reply.emit("part")
                item["result"] = "whole"
                reply.finish()

            threading.Thread(target=answer).start()

    pipe = open_pipe({"later": {"backend": "Later", "next": "last"}, "last": {"backend": "Identity"}})
    assert list(pipe.stream({"data": 1}, node="later")) == ["part"]
    assert run_alone(pipe, "later", data=1)["result"] == "whole"


def test_many_threads_may_ask_for_many_nodes(chain: Any, in_threads: Callable[..., list[Any]]) -> None:
    pipe, _ = chain
    amounts = {"first": 1, "middle": 10, "last": 100}
    names = list(amounts)

    def ask(index: int) -> bool:
        for round in range(50):
            node = names[(index + round) % 3]
            if run_alone(pipe, node, data=round)["result"] != round + amounts[node]:
                return False
            if pipe({"data": round})["result"] != round + 111:
                return False
        return True

    assert in_threads(6, ask) == [True] * 6
    assert [row["waiting"] for row in pipe.stats()] == [0, 0, 0]
