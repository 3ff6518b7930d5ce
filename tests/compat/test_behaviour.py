"""How pipelines of the family behave: chains, joins, `or` nodes, missing results, batches, names."""

from __future__ import annotations

from typing import Any

import pytest

import hami

FIFTY_MS = 50
FOR_EVER_MS = 600_000


@pytest.fixture(autouse=True)
def show() -> None:
    """`Show` gives its frame."""
    hami.register("Show", lambda batch: [dict(item) for item in batch])


def test_a_chain_hands_results_on_as_data(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "a": {"backend": "AddInt", "next": "b"},
            "b": {"backend": "Pow", "next": "c"},
            "c": {"backend": "AddInt"},
        }
    )
    assert pipeline({"data": 3})["result"] == 17


def test_a_chain_with_map_sees_the_mapped_keys_only(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "a": {"backend": "S[Pow, Add(note, here)]", "next": "b"},
            "b": {"backend": "Show", "map": "a[result:data,note:heard]"},
        }
    )
    answer = pipeline({"data": 3, "other": 1})
    assert answer["result"] == {"data": 9, "heard": "here"}
    assert answer["data"] == 3


def test_a_map_may_take_the_callers_keys(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "a": {"backend": "Pow", "next": "b"},
            "b": {"backend": "Pow", "next": "c"},
            "c": {"backend": "Show", "map": "a[result:first],b[result:data],input[data:given]"},
        }
    )
    assert pipeline({"data": 3})["result"] == {"first": 9, "data": 81, "given": 3}


def test_a_diamond_joins_what_its_branches_made(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "root": {"backend": "AddInt", "next": "left,right"},
            "left": {"backend": "Pow", "next": "join"},
            "right": {"backend": "AddInt(100)", "next": "join"},
            "join": {"backend": "Show", "map": "left[result:left],right[result:right]"},
        }
    )
    assert pipeline({"data": 3})["result"] == {"left": 16, "right": 104}
    answers = pipeline([{"data": value} for value in range(50)])
    assert [a["result"] for a in answers] == [{"left": (v + 1) ** 2, "right": v + 101} for v in range(50)]


def test_a_join_without_map_is_an_error_that_names_the_node() -> None:
    with pytest.raises(hami.ConfigError, match="`join`") as caught:
        hami.pipe(
            {
                "root": {"backend": "Identity", "next": "left,right"},
                "left": {"backend": "Pow", "next": "join"},
                "right": {"backend": "Pow", "next": "join"},
                "join": {"backend": "Identity"},
            }
        )
    assert "map" in caught.value.help


def test_or_nodes_run_where_there_is_no_result(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "a": {"backend": "HasKey(k)", "next": "b"},
            "b": {"backend": "Pow", "or": True, "next": "c"},
            "c": {"backend": "AddInt"},
        }
    )
    assert (pipeline({"data": 3})["result"], pipeline({"data": 3, "k": 1})["result"]) == (10, 4)


def test_a_chain_of_or_nodes_ends_with_the_first_result(open_pipe: Any) -> None:
    nodes = {
        f"n{index}": {
            "backend": f"S[HasKey(k{index}), AddInt({index})]",
            "or": index > 0,
            "next": f"n{index + 1}",
        }
        for index in range(3)
    }
    pipeline = open_pipe({**nodes, "n3": {"backend": "Pow", "or": True}})
    assert [pipeline({"data": 10, f"k{i}": 0})["result"] for i in range(4)] == [10, 11, 12, 100]


def test_a_missing_result_inside_the_graph_names_its_node(open_pipe: Any) -> None:
    hami.register("Never", lambda batch: None)
    pipeline = open_pipe({"inner": {"backend": "Never", "next": "last"}, "last": {"backend": "Identity"}})
    with pytest.raises(hami.RequestError, match="`inner`") as caught:
        pipeline({"data": 3})
    assert caught.value.code == "request-missing-result"


def test_a_missing_result_at_the_end_names_its_node(open_pipe: Any) -> None:
    hami.register("Never", lambda batch: None)
    pipeline = open_pipe({"first": {"backend": "Identity", "next": "last"}, "last": {"backend": "Never"}})
    request = {"data": 3, "result": "stale"}
    with pytest.raises(hami.RequestError, match="`last`"):
        pipeline(request)
    assert request == {"data": 3}


def test_ten_dicts_into_max_4_run_as_4_4_2(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "max": 4, "batching_timeout": FOR_EVER_MS})
    answers = pipeline([{"data": value} for value in range(10)])
    assert [len(batch) for batch in seen.batches] == [4, 4, 2]
    assert [answer["result"] for answer in answers] == list(range(10))


def test_one_caller_never_waits_for_the_timeout(open_pipe: Any) -> None:
    pipeline = open_pipe({"backend": "Identities", "max": 8, "batching_timeout": FIFTY_MS})
    for value in range(20):
        assert pipeline({"data": value})["result"] == value
    assert pipeline.stats()[0]["releases"] == {"everyone_here": 20}


def test_two_pipelines_with_the_same_names_live_in_one_process(open_pipe: Any) -> None:
    def graph(backend: str) -> dict[str, Any]:
        return {
            "a": {"backend": backend, "instance_num": 2, "next": "b"},
            "b": {"backend": "S[List[Register(own)[AddInt]], Forward[own]]"},
        }

    first, second = open_pipe(graph("Pow")), open_pipe(graph("Identity"))
    assert (first({"data": 3})["result"], second({"data": 3})["result"]) == (11, 5)
    first.close()
    assert second({"data": 4})["result"] == 6


def test_anonymous_pipelines_live_side_by_side(open_pipe: Any) -> None:
    pipelines = [open_pipe(f"AddInt({index})") for index in range(10)]
    assert [pipeline({"data": 0})["result"] for pipeline in pipelines] == list(range(10))


# --- going round again ---


@pytest.mark.parametrize(
    "source",
    [
        {"backend": "Restart[Count]"},
        {"backend": "Count", "entrypoint": "Restart[DagDispatcher]"},
        {"a": {"backend": "Identity", "next": "b"}, "b": {"backend": "Restart[Count]"}},
    ],
    ids=["expression", "entrypoint", "node"],
)
def test_restart_until_data_is_five_gives_six(open_pipe: Any, source: Any) -> None:
    seen: list[int] = []

    @hami.register("Count")
    def count(batch: list[dict[str, Any]]) -> None:
        for item in batch:
            seen.append(item["data"])
            item["result"] = item["data"] + 1
            item["restart"] = item["data"] != 5

    request = {"data": 1}
    assert open_pipe(source)(request) == {"data": 1, "result": 6}
    assert seen == [1, 2, 3, 4, 5]
