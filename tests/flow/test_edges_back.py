"""Laws of edges of the graph that lead back, and of where a graph with rounds may stand."""

from __future__ import annotations

from typing import Any

import pytest

import hami

pytestmark = pytest.mark.usefixtures("rounds")


def test_a_cycle_without_a_restart_is_refused_by_name() -> None:
    with pytest.raises(hami.ConfigError, match="`work` -> `again` -> `work`"):
        hami.pipe(
            {"work": {"backend": "Work", "next": "again"}, "again": {"backend": "Identity", "next": "work"}}
        )


def test_a_restart_leads_back_to_one_node(open_pipe: Any) -> None:
    with pytest.raises(hami.ConfigError, match="leads back to several nodes") as caught:
        hami.pipe(
            {
                "first": {"backend": "Identity", "next": "work"},
                "work": {"backend": "Work", "next": "again"},
                "again": {"backend": "Restart", "next": "first,work,end"},
                "end": {"backend": "Identity"},
            }
        )
    assert caught.value.code == "plan-several-restarts"


@pytest.mark.parametrize("ends", ["left,end", "end,left", "right,end", "end,right"])
@pytest.mark.parametrize("sides", ["left,right", "right,left"])
def test_one_of_two_branches_may_be_entered_again_in_any_written_order(
    open_pipe: Any, sides: str, ends: str
) -> None:
    @hami.register
    def Sum(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            item["result"] = 10 * item["left"] + item["right"]
            item["restart"] = item["result"] < 30

    pipeline = open_pipe(
        {
            "start": {"backend": "Identity", "next": sides},
            "left": {"backend": "AddOne", "next": "sum"},
            "right": {"backend": "AddOne", "next": "sum"},
            "sum": {"backend": "Sum", "map": "left[result:left],right[result:right]", "next": "again"},
            "again": {"backend": "Restart", "next": ends},
            "end": {"backend": "Identity"},
        }
    )
    # Both give 2, so 22. Then one takes 22 and gives 23, the other keeps its 2.
    assert pipeline({"data": 1})["result"] == (232 if "left" in ends else 43)


@pytest.mark.parametrize("sides", ["left,right", "right,left"])
def test_an_edge_that_may_or_may_not_lead_back_is_refused_in_any_written_order(sides: str) -> None:
    with pytest.raises(hami.ConfigError) as caught:
        hami.pipe(
            {
                "start": {"backend": "Identity", "next": sides},
                "left": {"backend": "Restart", "next": "right,end"},
                "right": {"backend": "Restart", "next": "left,end"},
                "end": {"backend": "Identity", "or": True, "map": "left[result:data],right[result:data]"},
            }
        )
    assert caught.value.code == "plan-cycle"


def test_the_dispatcher_of_the_graph_is_no_node() -> None:
    with pytest.raises(hami.BuildError, match="`DagDispatcher` cannot be the backend of a node"):
        hami.pipe({"work": {"backend": "DagDispatcher"}})


def test_a_loop_may_be_the_entrypoint_of_a_node(open_pipe: Any) -> None:
    assert open_pipe({"entrypoint": "Loop[AddOne, Below]"})({"data": 1})["result"] == 6


def test_two_loops_may_follow_each_other(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "first": {"backend": "Work", "next": "again"},
            "again": {"backend": "Restart", "next": "first,second"},
            "second": {"backend": "Work", "next": "more"},
            "more": {"backend": "Restart", "next": "second,first_of_rest"},
            "first_of_rest": {"backend": "AddOne"},
        }
    )
    assert pipeline({"data": 0})["result"] == 8  # 6, then 7, then 8


def test_an_inner_restart_may_lie_inside_an_outer_one(open_pipe: Any) -> None:
    @hami.register
    def Outer(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            item["result"] = item["data"] + 10
            item["restart"] = item["result"] < 40

    pipeline = open_pipe(
        {
            "start": {"backend": "Identity", "next": "inner"},
            "inner": {"backend": "Work", "next": "again"},
            "again": {"backend": "Restart", "next": "inner,outer"},
            "outer": {"backend": "Outer", "next": "more"},
            "more": {"backend": "Restart", "next": "start,end"},
            "end": {"backend": "Identity"},
        }
    )
    assert pipeline({"data": 0})["result"] == 49  # 6+10=16, 17+10=27, 28+10=38, 39+10=49


@pytest.mark.parametrize(
    "text", ["Identity", "Restart", "Restart[Identity]", "Restart[DagDispatcher[Identity]]"]
)
def test_a_graph_runs_in_no_other_entrypoint(text: str) -> None:
    with pytest.raises(hami.ConfigError) as caught:
        hami.pipe({"work": {"backend": "Work"}, "entrypoint": text})
    assert caught.value.code == "plan-bad-entrypoint"
