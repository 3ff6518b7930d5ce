"""Laws of `ForEach`: one child request per element, results in order, and no thread that waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import hami

np = pytest.importorskip("numpy")

FOR_EVER_MS = 600_000


@pytest.fixture
def each(open_pipe: Any) -> Callable[..., hami.Pipeline]:
    """Return a function that makes a ForEach over one node: `each("Backend", "on_error=keep", max=4)`."""

    def make(work: str, arguments: str = "", **settings: Any) -> Any:
        text = f"ForEach(target=work{', ' if arguments else ''}{arguments})"
        return open_pipe({"each": {"backend": text}, "work": {"backend": work, **settings}})

    return make


def refuse_negative(item: dict[str, Any]) -> Any:
    """Work that raises for a negative number."""
    if item["data"] < 0:
        raise ValueError(f"negative: {item['data']}")
    return item["data"] * 2


# --- results --------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 7, 1000])
def test_results_come_in_the_order_of_the_elements(each: Any, count: int) -> None:
    pipeline = each("Pow", instance_num=2)
    assert pipeline({"data": list(range(count))})["result"] == [i * i for i in range(count)]


def test_an_empty_list_gives_an_empty_list_and_runs_nothing(each: Any, probe: Any) -> None:
    seen = probe()
    request = each("Probe")({"data": []})
    assert request == {"data": [], "result": []}
    assert seen.batches == []


def test_elements_keep_their_identity(each: Any) -> None:
    elements = [object(), None, "text", b"bytes", [], {}, (), 10**30]
    answers = each("Identity")({"data": elements})["result"]
    assert all(one is other for one, other in zip(answers, elements, strict=True))


def test_the_callers_list_is_left_alone(each: Any) -> None:
    elements = [1, 2, 3]
    request = {"data": elements}
    result = each("Pow")(request)["result"]
    assert request["data"] is elements == [1, 2, 3] and result is not elements


def test_one_element_may_give_a_list(each: Any, probe: Any) -> None:
    probe(work=lambda item: [item["data"]] * 2)
    assert each("Probe")({"data": [1, 2]})["result"] == [[1, 1], [2, 2]]


def test_an_array_is_taken_apart_along_axis_0(each: Any) -> None:
    data = np.arange(6.0).reshape(3, 2)
    answers = each("Identities", max=8)({"data": data})["result"]
    assert [answer.tolist() for answer in answers] == data.tolist()
    assert [answer.shape for answer in answers] == [(2,)] * 3


@pytest.mark.parametrize(
    "data",
    [np.zeros((0, 3)), np.arange(4)[::-1], np.arange(6).reshape(2, 3).T, np.arange(6).reshape(2, 3)[:, ::2]],
    ids=["no_rows", "reversed", "transposed", "strided"],
)
def test_arrays_of_any_layout_are_taken_apart(each: Any, data: Any) -> None:
    answers = each("Identity")({"data": data})["result"]
    assert [np.asarray(answer).tolist() for answer in answers] == data.tolist()


def test_rows_of_an_array_share_its_memory(each: Any, probe: Any) -> None:
    def write(item: dict[str, Any]) -> None:
        item["data"][...] = 7

    probe(work=write)
    data = np.zeros((3, 2))
    each("Probe")({"data": data})
    assert data.tolist() == [[7.0, 7.0]] * 3


@pytest.mark.parametrize(
    "data", [None, 5, "text", b"bytes", {"a": 1}, {1, 2}, object(), iter([1]), np.float64(1.0), np.array(1)]
)
def test_anything_else_than_a_list_is_a_request_error(each: Any, data: Any) -> None:
    with pytest.raises(hami.RequestError, match="list") as caught:
        each("Identity")({"data": data})
    assert caught.value.help


def test_a_missing_key_is_a_request_error_that_names_it(each: Any) -> None:
    with pytest.raises(hami.RequestError, match="`boxes`"):
        each("Identity", "key=boxes")({"data": [1]})


def test_key_names_what_is_taken_apart(each: Any) -> None:
    request = each("Pow", "key=boxes")({"data": "picture", "boxes": [1, 2]})
    assert request == {"data": "picture", "boxes": [1, 2], "result": [1, 4]}


# --- children -------------------------------------------------------------------------------------


def test_a_child_has_data_and_nothing_else_of_its_parent(each: Any, probe: Any) -> None:
    probe(work=dict)
    parent = {"data": ["x"], "mine": 1, "other": 2}
    assert each("Probe")(parent)["result"] == [{"data": "x"}]


@pytest.mark.parametrize("text", ["pass=mine", "pass=[mine]", 'pass="mine"'])
def test_pass_names_one_further_key(each: Any, probe: Any, text: str) -> None:
    probe(work=dict)
    mine = object()
    answer = each("Probe", text)({"data": ["x"], "mine": mine, "other": 2})["result"]
    assert answer == [{"data": "x", "mine": mine}]


@pytest.mark.parametrize("how", ["brackets", "text", "setting", "setting_text"])
def test_pass_takes_several_keys(open_pipe: Any, probe: Any, how: str) -> None:
    probe(work=lambda item: sorted(item))
    argument = {"brackets": ", pass=[a, b]", "text": ', pass="a, b"'}.get(how, "")
    setting = {"setting": {"pass": ["a", "b"]}, "setting_text": {"pass": "a,b"}}.get(how, {})
    pipeline = open_pipe(
        {
            "each": {"backend": f"ForEach(target=work{argument})", **setting},
            "work": {"backend": "Probe"},
        }
    )
    assert pipeline({"data": [1], "a": 1, "b": 2, "c": 3})["result"] == [["a", "b", "data"]]


def test_data_cannot_be_passed_since_it_is_the_element(each: Any) -> None:
    with pytest.raises((hami.ConfigError, hami.BuildError), match="data"):
        each("Identity", "key=boxes, pass=[data]")


def test_a_key_to_pass_may_be_absent(each: Any, probe: Any) -> None:
    probe(work=sorted)
    assert each("Probe", "pass=[mine]")({"data": [1]})["result"] == [["data"]]


def test_context_reaches_the_children(each: Any, probe: Any) -> None:
    probe(work=lambda item: item["context"])
    context = object()
    assert each("Probe")({"data": [1, 2], "context": context})["result"] == [context, context]


def test_what_children_write_stays_with_them(each: Any, probe: Any) -> None:
    probe(work=lambda item: item.update(new=1, data="changed"))
    assert each("Probe")({"data": [1]}) == {"data": [1], "result": [None]}


def test_children_of_one_parent_share_batches(each: Any) -> None:
    pipeline = each("Identities", max=4, batching_timeout=FOR_EVER_MS)
    pipeline({"data": list(range(10))})
    assert pipeline.stats()[0]["batch_rows"] == {4: 2, 2: 1}


def test_children_batch_with_those_of_others(each: Any, probe: Any, waiting: Any, eventually: Any) -> None:
    seen = probe()
    pipeline = each("Probe", max=4, batching_timeout=FOR_EVER_MS)
    seen.shut()
    plug = pipeline.submit({"data": ["plug"]})
    seen.wait_for_runs(1)
    futures = [pipeline.submit({"data": [i, i + 10]}) for i in range(4)]
    assert eventually(lambda: waiting(pipeline) == 8)
    seen.open()
    assert [future.result(10)["result"] for future in (plug, *futures)] == [
        ["plug"],
        [0, 10],
        [1, 11],
        [2, 12],
        [3, 13],
    ]
    assert [len(batch) for batch in seen.batches] == [1, 4, 4]


def test_a_waiting_parent_holds_no_thread(each: Any, probe: Any, eventually: Any, waiting: Any) -> None:
    seen = probe()
    pipeline = each("Probe")
    seen.shut()
    futures = [pipeline.submit({"data": [i, i]}) for i in range(500)]
    assert eventually(lambda: waiting(pipeline) == 999)
    seen.open()
    assert [future.result(20)["result"] for future in futures] == [[i, i] for i in range(500)]


# --- subgraphs ------------------------------------------------------------------------------------


def test_the_subgraph_may_be_a_chain_with_a_join(open_pipe: Any) -> None:
    hami.register("Sum", lambda batch: [item["a"] + item["b"] for item in batch])
    pipeline = open_pipe(
        {
            "first": {"backend": "Identity", "next": "each"},
            "each": {"backend": "ForEach(target=root)", "next": "last"},
            "root": {"backend": "Identity", "next": "square,same"},
            "square": {"backend": "Pow", "next": "sum"},
            "same": {"backend": "Identity", "next": "sum"},
            "sum": {"backend": "Sum", "map": "square[result:a],same[result:b]"},
            "last": {"backend": "Identity"},
        }
    )
    assert pipeline({"data": [1, 2, 3]})["result"] == [2, 6, 12]


def test_input_of_a_map_inside_is_the_childs_own(open_pipe: Any) -> None:
    hami.register("Show", lambda batch: [dict(item) for item in batch])
    pipeline = open_pipe(
        {
            "each": {"backend": "ForEach(target=root, pass=[k])"},
            "root": {"backend": "Pow", "next": "show"},
            "show": {"backend": "Show", "map": "root[result:r],input[data:d,k:k]"},
        }
    )
    assert pipeline({"data": [3], "k": "k"})["result"] == [{"r": 9, "d": 3, "k": "k"}]


def test_two_for_each_may_enter_the_same_target(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "one": {"backend": "ForEach(target=work)", "next": "two"},
            "two": {"backend": "ForEach(target=work)"},
            "work": {"backend": "Pow"},
        }
    )
    assert pipeline({"data": [1, 2, 3]})["result"] == [1, 16, 81]


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
def test_for_each_nests_to_any_depth(open_pipe: Any, depth: int) -> None:
    nodes: dict[str, Any] = {
        f"each{i}": {"backend": f"ForEach(target={f'each{i + 1}' if i + 1 < depth else 'work'})"}
        for i in range(depth)
    }
    pipeline = open_pipe({**nodes, "work": {"backend": "Pow"}})
    data: Any = 3
    expected: Any = 9
    for _ in range(depth):
        data, expected = [data, data], [expected, expected]
    assert pipeline({"data": data})["result"] == expected


def test_ragged_lists_keep_their_form(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "outer": {"backend": "ForEach(target=inner)"},
            "inner": {"backend": "ForEach(target=work)"},
            "work": {"backend": "Pow"},
        }
    )
    assert pipeline({"data": [[], [1], [2, 3], []]})["result"] == [[], [1], [4, 9], []]


def test_a_node_without_result_inside_is_an_error_of_that_element(each: Any) -> None:
    def only_even(batch: list[dict[str, Any]]) -> None:
        for item in batch:
            if item["data"] % 2 == 0:
                item["result"] = 0

    hami.register("Even", only_even)
    assert each("Even", "on_error=drop")({"data": [0, 1, 2]})["result"] == [0, 0]


# --- errors ---------------------------------------------------------------------------------------


def test_by_default_the_first_error_in_order_fails_the_parent(each: Any, probe: Any) -> None:
    probe(work=refuse_negative)
    request = {"data": [1, -2, 3, -4]}
    with pytest.raises(ValueError, match="negative: -2"):
        each("Probe", max=4, batching_timeout=FOR_EVER_MS)(request)
    assert request == {"data": [1, -2, 3, -4]}


def test_the_error_that_comes_first_in_order_wins_over_one_earlier_in_time(each: Any) -> None:
    second_failed = threading.Event()

    def forward(batch: list[dict[str, Any]]) -> list[Any]:
        if batch[0]["data"] == 0:
            second_failed.wait(10)
            raise ValueError("first in order")
        second_failed.set()
        raise ValueError("first in time")

    hami.register("Race", forward)
    pipeline = each("Race", instance_num=2)
    for _ in range(10):
        second_failed.clear()
        with pytest.raises(ValueError, match="first in order"):
            pipeline({"data": [0, 1]})


def test_after_an_error_queued_siblings_never_run(each: Any, probe: Any) -> None:
    seen = probe(work=refuse_negative)
    pipeline = each("Probe")
    with pytest.raises(ValueError, match="-1"):
        pipeline({"data": [-1, *range(50)]})
    assert pipeline({"data": [100]})["result"] == [200]
    assert len(seen.items) < 10 and seen.items[-1] == 100


@pytest.mark.parametrize("on_error", ["keep", "drop"])
def test_on_error_says_what_a_failed_element_becomes(each: Any, probe: Any, on_error: str) -> None:
    probe(work=refuse_negative)
    result = each("Probe", f"on_error={on_error}")({"data": [1, -2, 3, -4]})["result"]
    if on_error == "drop":
        assert result == [2, 6]
        return
    assert [result[0], result[2]] == [2, 6]
    assert [(type(result[i]), str(result[i])) for i in (1, 3)] == [
        (ValueError, "negative: -2"),
        (ValueError, "negative: -4"),
    ]


@pytest.mark.parametrize(("on_error", "expected"), [("keep", 3), ("drop", 0)])
def test_all_elements_may_fail(each: Any, probe: Any, on_error: str, expected: int) -> None:
    probe(work=refuse_negative)
    assert len(each("Probe", f"on_error={on_error}")({"data": [-1, -2, -3]})["result"]) == expected


def test_kept_exceptions_go_on_as_data(open_pipe: Any, probe: Any) -> None:
    probe(work=refuse_negative)
    hami.register("Count", lambda batch: [sum(isinstance(x, ValueError) for x in batch[0]["data"])])
    pipeline = open_pipe(
        {
            "each": {"backend": "ForEach(target=work, on_error=keep)", "next": "count"},
            "work": {"backend": "Probe"},
            "count": {"backend": "Count"},
        }
    )
    assert pipeline({"data": [1, -1, -2]})["result"] == 2


def test_a_batch_of_children_of_several_parents_fails_only_the_guilty_one(
    each: Any, probe: Any, eventually: Any, waiting: Any
) -> None:
    seen = probe("Probe", refuse_negative)
    pipeline = each("Probe", max=8, batching_timeout=FOR_EVER_MS)
    seen.shut()
    plug = pipeline.submit({"data": [5]})
    seen.wait_for_runs(1)
    good, bad = pipeline.submit({"data": [1, 2]}), pipeline.submit({"data": [3, -1]})
    assert eventually(lambda: waiting(pipeline) == 4)
    seen.open()
    assert plug.result(10)["result"] == [10]
    assert good.result(10)["result"] == [2, 4]
    assert isinstance(bad.exception(10), ValueError)


def test_an_error_deep_inside_reaches_the_caller(open_pipe: Any, probe: Any) -> None:
    probe(work=refuse_negative)
    pipeline = open_pipe(
        {
            "outer": {"backend": "ForEach(target=inner)"},
            "inner": {"backend": "ForEach(target=work, on_error=drop)"},
            "work": {"backend": "Probe"},
        }
    )
    assert pipeline({"data": [[1, -1], [-1], [2]]})["result"] == [[2], [], [4]]
    with pytest.raises(hami.RequestError, match="list"):
        pipeline({"data": [[1], 5]})


def test_cancelling_the_parent_cancels_its_queued_children(each: Any, probe: Any) -> None:
    seen = probe()
    pipeline = each("Probe")
    seen.shut()
    future = pipeline.submit({"data": list(range(20))})
    seen.wait_for_runs(1)
    assert future.cancel()
    seen.open()
    assert pipeline({"data": ["after"]})["result"] == ["after"]
    assert seen.items == [0, "after"]


def test_an_unknown_on_error_is_refused(each: Any) -> None:
    with pytest.raises(hami.ConfigError, match="on_error"):
        each("Identity", "on_error=ignore")
