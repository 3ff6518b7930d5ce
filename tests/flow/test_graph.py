"""Laws of the graph: chains, entries, outputs, and branches that run side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import hami


@pytest.fixture
def register() -> Callable[..., None]:
    """Return a function that registers backends which are one function of an item each."""

    def register_all(**backends: Callable[[dict[str, Any]], Any]) -> None:
        for name, work in backends.items():

            def forward(batch: list[dict[str, Any]], work: Any = work) -> list[Any]:
                return [work(item) for item in batch]

            hami.register(name, forward)

    return register_all


# --- chains ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [1, 2, 3, 10])
def test_in_a_chain_the_result_of_one_is_the_data_of_the_next(
    open_pipe: Any, register: Any, length: int
) -> None:
    register(**{f"Add{i}": lambda item, i=i: [*item["data"], i] for i in range(length)})
    nodes = {
        f"n{i}": {"backend": f"Add{i}", **({"next": f"n{i + 1}"} if i + 1 < length else {})}
        for i in range(length)
    }
    assert open_pipe(nodes)({"data": []})["result"] == list(range(length))


def test_the_written_order_of_nodes_does_not_matter(open_pipe: Any) -> None:
    nodes = {
        "last": {"backend": "Pow"},
        "middle": {"backend": "Pow", "next": "last"},
        "first": {"backend": "Pow", "next": "middle"},
    }
    assert open_pipe(nodes)({"data": 2})["result"] == 256


def test_s_is_a_chain_inside_one_node(open_pipe: Any, register: Any) -> None:
    register(Half=lambda item: item["data"] / 2)
    assert open_pipe("S[Pow, Half, S[Pow, Identity]]")({"data": 4})["result"] == 64


def test_every_node_has_its_own_parameters(open_pipe: Any) -> None:
    @hami.register
    class AddAmount(hami.Backend):
        amount = hami.param(0)

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            return [item["data"] + self.amount for item in batch]

    nodes = {
        "amount": 1,
        "a": {"backend": "AddAmount", "next": "b"},
        "b": {"backend": "AddAmount", "amount": 10, "next": "c"},
        "c": {"backend": "AddAmount(amount=100)", "amount": 1000},
    }
    assert open_pipe(nodes)({"data": 0})["result"] == 111


def test_two_pipelines_with_the_same_names_do_not_know_each_other(open_pipe: Any, register: Any) -> None:
    register(One=lambda item: "one", Two=lambda item: "two")
    first = open_pipe({"a": {"backend": "One", "next": "b"}, "b": {"backend": "Identity"}})
    second = open_pipe({"a": {"backend": "Two", "next": "b"}, "b": {"backend": "Identity"}})
    third = open_pipe("Identity"), open_pipe("Identity")
    assert (first({"data": 0})["result"], second({"data": 0})["result"]) == ("one", "two")
    assert [pipeline({"data": 3})["result"] for pipeline in third] == [3, 3]


# --- entries --------------------------------------------------------------------------------------

TWO_ROOTS = {
    "left": {"backend": "Left", "next": "out"},
    "right": {"backend": "Right", "next": "out"},
    "out": {"backend": "Keys", "map": "left[result:l],right[result:r]"},
}


@pytest.fixture
def two_roots(register: Any) -> dict[str, Any]:
    """A graph whose result says which of its two entries ran."""
    register(
        Left=lambda item: "left",
        Right=lambda item: "right",
        Keys=lambda item: {key: item[key] for key in ("l", "r") if key in item},
    )
    return dict(TWO_ROOTS)


@pytest.mark.parametrize(("name", "expected"), [("left", {"l": "left"}), ("right", {"r": "right"})])
def test_node_name_says_where_a_request_enters(
    open_pipe: Any, two_roots: Any, name: str, expected: Any
) -> None:
    pipeline = open_pipe(two_roots)
    assert pipeline({"data": 0, "node_name": name})["result"] == expected
    assert [
        r["result"] for r in pipeline([{"data": 0, "node_name": name}, {"data": 0, "node_name": "left"}])
    ] == [
        expected,
        {"l": "left"},
    ]


def test_with_several_entries_a_request_must_name_one(open_pipe: Any, two_roots: Any) -> None:
    with pytest.raises(hami.RequestError, match="node_name") as caught:
        open_pipe(two_roots)({"data": 0})
    assert "fanout" in caught.value.help


@pytest.mark.parametrize("name", ["out", "nobody", ""])
def test_only_an_entry_can_be_named(open_pipe: Any, two_roots: Any, name: str) -> None:
    with pytest.raises(hami.RequestError, match="entry"):
        open_pipe(two_roots)({"data": 0, "node_name": name})


def test_with_fanout_a_request_starts_at_all_entries(open_pipe: Any, two_roots: Any) -> None:
    pipeline = open_pipe({"fanout": "roots", **two_roots})
    assert pipeline({"data": 0})["result"] == {"l": "left", "r": "right"}
    assert pipeline({"data": 0, "node_name": "left"})["result"] == {"l": "left"}


def test_the_one_entry_may_be_named(open_pipe: Any) -> None:
    pipeline = open_pipe({"a": {"backend": "Pow", "next": "b"}, "b": {"backend": "Pow"}})
    assert pipeline({"data": 2, "node_name": "a"})["result"] == 16


def test_the_subgraph_of_for_each_cannot_be_entered(open_pipe: Any) -> None:
    pipeline = open_pipe({"each": {"backend": "ForEach(target=work)"}, "work": {"backend": "Pow"}})
    with pytest.raises(hami.RequestError, match="entry"):
        pipeline({"data": 2, "node_name": "work"})


# --- outputs --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("output", "expected"), [("square", 9), ("same", 3)])
def test_output_names_the_leaf_that_answers(open_pipe: Any, output: str, expected: int) -> None:
    pipeline = open_pipe(
        {
            "output": output,
            "root": {"backend": "Identity", "next": "square, same"},
            "square": {"backend": "Pow"},
            "same": {"backend": "Identity"},
        }
    )
    for _ in range(20):
        assert pipeline({"data": 3})["result"] == expected


def test_a_leaf_beside_the_output_runs_too(open_pipe: Any, probe: Any, eventually: Any) -> None:
    seen = probe()
    pipeline = open_pipe(
        {
            "output": "answer",
            "root": {"backend": "Identity", "next": "answer,side"},
            "answer": {"backend": "Identity"},
            "side": {"backend": "Probe"},
        }
    )
    assert pipeline({"data": 3})["result"] == 3
    assert eventually(lambda: seen.items == [3])


# --- branches -------------------------------------------------------------------------------------


def test_independent_branches_run_in_parallel(open_pipe: Any, probe: Any) -> None:
    left, right = probe("Left"), probe("Right")
    hami.register("Sum", lambda batch: [item["l"] + item["r"] for item in batch])
    pipeline = open_pipe(
        {
            "root": {"backend": "Identity", "next": "left,right"},
            "left": {"backend": "Left", "next": "join"},
            "right": {"backend": "Right", "next": "join"},
            "join": {"backend": "Sum", "map": "left[result:l],right[result:r]"},
        }
    )
    left.shut()
    right.shut()
    future = pipeline.submit({"data": 2})
    left.wait_for_runs(1)
    right.wait_for_runs(1)
    left.open()
    right.open()
    assert future.result(10)["result"] == 4


def test_an_error_of_one_branch_is_the_answer_and_the_other_ends_quietly(open_pipe: Any, probe: Any) -> None:
    probe("Fails", work=lambda item: 1 // item["data"])
    slow = probe("Slow")
    pipeline = open_pipe(
        {
            "root": {"backend": "Identity", "next": "fails,slow"},
            "fails": {"backend": "Fails", "next": "join"},
            "slow": {"backend": "Slow", "next": "join"},
            "join": {"backend": "Identity", "map": "fails[result:data],slow[result:x]"},
        }
    )
    slow.shut()
    request = {"data": 0}
    with pytest.raises(ZeroDivisionError):
        pipeline(request)
    assert request == {"data": 0}
    slow.open()
    assert pipeline({"data": 1})["result"] == 1


# --- figures --------------------------------------------------------------------------------------


def test_stats_have_a_row_for_every_node_that_runs_batches(open_pipe: Any) -> None:
    pipeline = open_pipe({"a": {"backend": "Identity", "next": "b"}, "b": {"backend": "Identities"}})
    pipeline([{"data": i} for i in range(5)])
    rows = pipeline.stats()
    assert [(row["node"], row["items"], row["errors"], row["waiting"]) for row in rows] == [
        ("a", 5, 0, 0),
        ("b", 5, 0, 0),
    ]
    assert rows[1]["batch_rows"] == {1: 5} and sum(rows[1]["releases"].values()) == 5


def test_the_text_of_a_pipeline_names_its_nodes(open_pipe: Any) -> None:
    pipeline = open_pipe({"a": {"backend": "Identity", "next": "b"}, "b": {"backend": "Identity"}})
    assert repr(pipeline) == "<hami.Pipeline open: a, b>"
    pipeline.close()
    assert "closed" in repr(pipeline)
