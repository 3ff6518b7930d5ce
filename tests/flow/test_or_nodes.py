"""Laws of `or` nodes: they run only where there is no result, and pass the frame by where there is one."""

from __future__ import annotations

from typing import Any

import pytest

import hami


@pytest.fixture(autouse=True)
def never() -> None:
    """`Never` gives no result, `Show` gives its frame."""
    hami.register("Never", lambda batch: None)
    hami.register("Show", lambda batch: [dict(item) for item in batch])


@pytest.fixture
def try_both(open_pipe: Any) -> hami.Pipeline:
    """A pipeline whose second node helps where the first one gives no result."""

    def only_even(batch: list[dict[str, Any]]) -> None:
        for item in batch:
            item["asked"] = True
            if item["data"] % 2 == 0:
                item["result"] = "even"

    hami.register("OnlyEven", only_even)
    hami.register("Fallback", lambda batch: [("fallback", item["data"]) for item in batch])
    hami.register("Last", lambda batch: [["last", item["data"]] for item in batch])
    return open_pipe(
        {
            "even": {"backend": "OnlyEven", "next": "other"},
            "other": {"backend": "Fallback", "or": True, "next": "last"},
            "last": {"backend": "Last"},
        }
    )


def test_an_or_node_runs_only_where_there_is_no_result(try_both: hami.Pipeline) -> None:
    assert try_both({"data": 2})["result"] == ["last", "even"]
    assert try_both({"data": 3})["result"] == ["last", ("fallback", 3)]
    assert try_both.stats()[1]["items"] == 1


def test_keys_written_before_an_or_node_stay(try_both: hami.Pipeline) -> None:
    for number in (2, 3):
        assert try_both({"data": number})["asked"] is True


def test_a_list_is_split_between_the_ways_of_an_or_node(try_both: hami.Pipeline) -> None:
    answers = [request["result"][1] for request in try_both([{"data": i} for i in range(6)])]
    assert answers == ["even", ("fallback", 1), "even", ("fallback", 3), "even", ("fallback", 5)]


def test_the_value_none_counts_as_a_result_for_or(open_pipe: Any) -> None:
    hami.register("Nothing", lambda batch: [None for _ in batch])
    hami.register("Other", lambda batch: ["other" for _ in batch])
    pipeline = open_pipe({"a": {"backend": "Nothing", "next": "b"}, "b": {"backend": "Other", "or": True}})
    assert pipeline({"data": 0}) == {"data": 0, "result": None}


def test_an_or_node_at_the_end_answers_either_way(open_pipe: Any) -> None:
    pipeline = open_pipe({"a": {"backend": "Never", "next": "b"}, "b": {"backend": "Pow", "or": True}})
    assert pipeline({"data": 3})["result"] == 9
    pipeline = open_pipe({"a": {"backend": "Pow", "next": "b"}, "b": {"backend": "Never", "or": True}})
    assert pipeline({"data": 3})["result"] == 9


def test_or_works_inside_s_as_well(open_pipe: Any) -> None:
    assert open_pipe("S[Never, (or)Pow]")({"data": 3})["result"] == 9
    assert open_pipe("S[Pow, (or)Never]")({"data": 3})["result"] == 9
    assert open_pipe("S[Never, (or)Pow, (or)Never, Pow]")({"data": 3})["result"] == 81


def test_without_or_a_missing_result_names_the_node(open_pipe: Any) -> None:
    pipeline = open_pipe({"a": {"backend": "Never", "next": "b"}, "b": {"backend": "Identity"}})
    with pytest.raises(hami.RequestError, match=r"`a`.*`result`"):
        pipeline({"data": 3})


def test_when_the_last_or_node_gives_nothing_the_request_fails(open_pipe: Any) -> None:
    pipeline = open_pipe({"a": {"backend": "Never", "next": "b"}, "b": {"backend": "Never", "or": True}})
    with pytest.raises(hami.RequestError, match=r"`b`.*`result`"):
        pipeline({"data": 3})


def test_the_plain_successor_of_a_node_without_result_is_skipped(open_pipe: Any, probe: Any) -> None:
    plain = probe("Plain")
    pipeline = open_pipe(
        {
            "output": "fallback",
            "a": {"backend": "Never", "next": "plain,fallback"},
            "plain": {"backend": "Plain"},
            "fallback": {"backend": "Pow", "or": True},
        }
    )
    assert pipeline({"data": 3})["result"] == 9
    assert plain.items == []


@pytest.mark.parametrize(("first", "expected"), [("Never", {"x": 3}), ("Pow", 9)])
def test_an_or_node_may_have_a_map(open_pipe: Any, first: str, expected: Any) -> None:
    pipeline = open_pipe(
        {
            "a": {"backend": first, "next": "b"},
            "b": {"backend": "Show", "or": True, "map": "input[data:x]", "next": "c"},
            "c": {"backend": "Identity"},
        }
    )
    assert pipeline({"data": 3})["result"] == expected
    assert pipeline.stats()[1]["items"] == (1 if first == "Never" else 0)


def test_an_error_is_no_missing_result(open_pipe: Any) -> None:
    hami.register("Raise", lambda batch: 1 // 0)
    pipeline = open_pipe({"a": {"backend": "Raise", "next": "b"}, "b": {"backend": "Pow", "or": True}})
    with pytest.raises(ZeroDivisionError):
        pipeline({"data": 3})


def test_a_chain_of_or_nodes_stops_at_the_first_result(open_pipe: Any, probe: Any) -> None:
    late = probe("Late")
    pipeline = open_pipe(
        {
            "a": {"backend": "Never", "next": "b"},
            "b": {"backend": "Never", "or": True, "next": "c"},
            "c": {"backend": "Pow", "or": True, "next": "d"},
            "d": {"backend": "Late", "or": True},
        }
    )
    assert pipeline({"data": 3})["result"] == 9
    assert late.items == []
