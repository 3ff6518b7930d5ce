"""Laws of going round again: Restart, Loop, and operators that stand inside an expression."""

from __future__ import annotations

from typing import Any

import pytest

import hami

pytestmark = pytest.mark.usefixtures("rounds")

# --- Restart ---

RESTARTS: dict[str, Any] = {
    "expression": "Restart[Work]",
    "sequence": "S[Work, Restart]",
    "single node": {"backend": "Work", "entrypoint": "Restart[DagDispatcher]"},
    "entrypoint": {"work": {"backend": "Work"}, "entrypoint": "Restart[DagDispatcher]"},
    "node": {"work": {"backend": "Work", "next": "again"}, "again": {"backend": "Restart"}},
    "edge back": {
        "again": {"backend": "Restart", "next": "work,end"},
        "work": {"backend": "Work", "next": "again"},
        "end": {"backend": "Identity"},
    },
}


@pytest.mark.parametrize("source", RESTARTS.values(), ids=RESTARTS)
def test_a_request_goes_round_until_it_does_not_ask_any_more(open_pipe: Any, source: Any) -> None:
    request = {"data": 1}
    assert open_pipe(source)(request) == {"data": 1, "result": 6}
    assert open_pipe(source)({"data": 8})["result"] == 9


def test_a_request_names_the_node_to_go_back_to(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "first": {"backend": "AddOne", "next": "second"},
            "second": {"backend": "Work", "next": "again"},
            "again": {"backend": "Restart"},
        }
    )
    assert pipeline({"data": 0, "back_to": "second"})["result"] == 6  # 0 +1, then 2, 3, 4, 5, 6
    assert pipeline({"data": 1, "back_to": "first"})["result"] == 7  # 1 +1 +1 = 3, 5, 7


@pytest.mark.parametrize(
    ("wish", "shown"),
    [("nowhere", "nowhere"), ("again", "again"), (3, "int"), ([], "list")],
)
def test_a_wrong_wish_is_an_error_that_names_the_right_ones(open_pipe: Any, wish: Any, shown: str) -> None:
    pipeline = open_pipe(
        {
            "first": {"backend": "Identity", "next": "work"},
            "work": {"backend": "Work", "next": "again"},
            "again": {"backend": "Restart"},
        }
    )
    with pytest.raises(hami.RequestError) as caught:
        pipeline({"data": 0, "back_to": wish})
    assert caught.value.code == "request-restart-target"
    assert f"`{shown}`" in caught.value.message
    assert caught.value.help == "set `restart` to one of `first`, `work`"
    assert pipeline({"data": 7})["result"] == 8


def test_without_a_name_it_must_be_clear_where_to_go(open_pipe: Any) -> None:
    source = {
        "first": {"backend": "Identity", "next": "work"},
        "work": {"backend": "Work", "next": "again"},
        "again": {"backend": "Restart"},
    }
    with pytest.raises(hami.RequestError, match="cannot restart the request at `bool`"):
        open_pipe(source)({"data": 0})


@pytest.mark.parametrize("wish", [None, False])
def test_none_and_false_are_no_wish(open_pipe: Any, wish: Any) -> None:
    assert open_pipe("Restart[Work]")({"data": 3, "back_to": wish})["result"] == 4


def test_a_node_that_a_way_leaves_past_the_restart_is_no_target(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "first": {"backend": "Work", "next": "again,aside"},
            "aside": {"backend": "Identity", "next": "end"},
            "again": {"backend": "Restart", "next": "end"},
            "end": {"backend": "Identity", "map": "again[result:data],aside[result:aside]"},
        }
    )
    with pytest.raises(hami.RequestError, match="cannot restart the request at `first`"):
        pipeline({"data": 0, "back_to": "first"})
    assert pipeline({"data": 9})["result"] == 10


def test_joins_inside_a_round_join_again_in_each(open_pipe: Any) -> None:
    @hami.register
    def Total(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            item["result"] = item["left"] + item["right"]
            if item["result"] < 100:
                item["restart"] = "split"

    pipeline = open_pipe(
        {
            "split": {"backend": "Identity", "next": "left,right"},
            "left": {"backend": "AddOne", "next": "total"},
            "right": {"backend": "Identity", "next": "total"},
            "total": {"backend": "Total", "map": "left[result:left],right[result:right]", "next": "again"},
            "again": {"backend": "Restart"},
        }
    )
    # x -> 2x + 1
    assert pipeline({"data": 1})["result"] == 127
    assert [d["result"] for d in pipeline([{"data": i} for i in range(4)])] == [127, 127, 191, 127]


def test_an_or_node_inside_a_round_decides_anew_in_each(open_pipe: Any) -> None:
    @hami.register
    def Halve(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            if item["data"] % 2 == 0:
                item["result"] = item["data"] // 2

    @hami.register
    def Triple(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            item["result"] = 3 * item["data"] + 1

    @hami.register
    def Count(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            item["steps"] = item.get("steps", 0) + 1
            item["result"] = item["data"]
            item["restart"] = item["data"] != 1

    pipeline = open_pipe(
        {
            "halve": {"backend": "Halve", "next": "triple"},
            "triple": {"backend": "Triple", "or": True, "next": "count"},
            "count": {"backend": "Count", "next": "again"},
            "again": {"backend": "Restart", "next": "halve,end"},
            "end": {"backend": "Identity"},
        }
    )
    assert pipeline({"data": 27}) == {"data": 27, "result": 1, "steps": 111}


def test_rounds_are_bounded(open_pipe: Any) -> None:
    pipeline = open_pipe({"backend": "Restart(max_rounds=3)[Work]"})
    assert pipeline({"data": 2})["result"] == 6  # three further rounds
    with pytest.raises(hami.RequestError, match="for more than `3` further rounds") as caught:
        pipeline({"data": 1})
    assert caught.value.code == "request-too-many-rounds"
    assert pipeline({"data": 2})["result"] == 6


def test_requests_on_different_rounds_share_batches(open_pipe: Any, probe: Any) -> None:
    def work(item: dict[str, Any]) -> Any:
        item["restart"] = item["data"] < 6
        return item["data"] + 1

    seen = probe(work=work, batch_range=(1, 8))
    pipeline = open_pipe({"backend": "Restart[Probe]", "batching_timeout": 60_000})
    requests = [{"data": data} for data in (6, 5, 4)]
    assert [request["result"] for request in pipeline(requests)] == [7, 7, 7]
    assert [sorted(batch) for batch in seen.batches] == [[4, 5, 6], [5, 6], [6]]


def test_a_deadline_ends_a_request_that_goes_round_for_ever(open_pipe: Any) -> None:
    @hami.register
    def Ever(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            item["result"] = item["data"]
            item["restart"] = True

    pipeline = open_pipe("Restart(max_rounds=1000000000)[Ever]")
    with pytest.raises(hami.DeadlineExceeded):
        pipeline({"data": 0, "deadline_ms": 50})
    future = pipeline.submit({"data": 0})
    future.cancel()
    pipeline.submit({"data": 1})
    pipeline.close(timeout=0)  # ends the last one, which would go on


def test_errors_inside_a_round_reach_the_caller(open_pipe: Any) -> None:
    @hami.register
    def Shrink(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            item["result"] = item["data"] - 1
            item["restart"] = bool(10 // item["result"])

    with pytest.raises(ZeroDivisionError):
        open_pipe("Restart[Shrink]")({"data": 4})


def test_many_callers_go_round_at_once(open_pipe: Any, in_threads: Any) -> None:
    pipeline = open_pipe({"backend": "Restart[Work]", "max": 4, "instance_num": 2})

    def call(index: int) -> None:
        for data in range(50):
            assert pipeline({"data": data % 8})["result"] == max(6, data % 8 + 1)

    in_threads(8, call)


# --- Loop ---


def test_a_loop_runs_while_its_condition_has_a_result(open_pipe: Any) -> None:
    request = {"data": 1}
    assert open_pipe("Loop[AddOne, Below]")(request) == {"data": 1, "result": 6}
    assert open_pipe("Loop[AddOne, Below(limit=100)]")({"data": 1})["result"] == 100


def test_a_loop_runs_at_least_once(open_pipe: Any) -> None:
    assert open_pipe("Loop[AddOne, Below]")({"data": 50})["result"] == 51


def test_a_loop_may_have_stages_before_and_behind(open_pipe: Any) -> None:
    assert open_pipe("S[AddOne, Loop[AddOne, Below], Pow]")({"data": 1})["result"] == 36


def test_loops_nest(open_pipe: Any) -> None:
    # The inner one climbs to 6 in the first outer round, and by one in the following.
    assert open_pipe("Loop[Loop[AddOne, Below], Below(limit=9)]")({"data": 0})["result"] == 9


def test_rounds_of_an_inner_loop_count_anew_in_each_outer_round(open_pipe: Any) -> None:
    @hami.register
    def Reset(batch: list[dict[str, Any]]) -> list[int]:  # noqa: N802
        for item in batch:
            item["times"] = item.get("times", 0) + 1
        return [0 for _ in batch]

    @hami.register
    def Thrice(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            if item["times"] < 3:
                item["result"] = 1

    pipeline = open_pipe("Loop[S[Loop(max_rounds=5)[AddOne, Below], Reset], Thrice]")
    assert pipeline({"data": 0}) == {"data": 0, "result": 0, "times": 3}


def test_rounds_of_a_loop_are_bounded(open_pipe: Any) -> None:
    with pytest.raises(hami.RequestError) as caught:
        open_pipe("Loop(max_rounds=3)[AddOne, Below]")({"data": 0})
    assert caught.value.code == "request-too-many-rounds"


def test_what_the_condition_writes_is_not_for_the_next_round(open_pipe: Any) -> None:
    @hami.register
    def Messy(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            if item["data"] < 3:
                item["result"] = "not the data"
            item["mess"] = item["data"]

    assert open_pipe("Loop[AddOne, Messy]")({"data": 0}) == {"data": 0, "result": 3}


def test_an_error_of_the_condition_is_the_requests(open_pipe: Any) -> None:
    @hami.register
    def Sick(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        raise OSError("sick")

    with pytest.raises(OSError, match="sick"):
        open_pipe("Loop[AddOne, Sick]")({"data": 0})


def test_a_loop_works_inside_a_for_each(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {"each": {"backend": "ForEach(target=climb)"}, "climb": {"backend": "Loop[AddOne, Below]"}}
    )
    assert pipeline({"data": [1, 5, 9]})["result"] == [6, 6, 10]


def test_a_for_each_works_inside_a_loop(open_pipe: Any) -> None:
    @hami.register
    def Small(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            if max(item["data"]) < 6:
                item["result"] = True

    pipeline = open_pipe(
        {"each": {"backend": "Loop[ForEach(target=one), Small]"}, "one": {"backend": "AddOne"}}
    )
    assert pipeline({"data": [1, 4, 2]})["result"] == [3, 6, 4]


@pytest.mark.parametrize("backend", ["Loop[AddOne]", "Loop", "Loop[A, B, C]"])
def test_a_loop_has_a_process_and_a_condition(backend: str) -> None:
    hami.alias("A", "Identity")
    hami.alias("B", "Identity")
    hami.alias("C", "Identity")
    with pytest.raises(hami.ConfigError, match="`Loop` takes 2 backends"):
        hami.pipe(backend)
