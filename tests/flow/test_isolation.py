"""Laws of one bad item: it fails alone, its batch mates get their results, and re-runs are few."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000


@pytest.fixture
def run(open_pipe: Any) -> Callable[..., tuple[list[dict[str, Any]], list[list[Any]]]]:
    """Return a function that runs requests as one batch; it gives the requests and the runs.

    A failed request has its exception under `error`: that of another run, alone.
    """

    def run_batch(
        data: list[Any], work: Callable[[list[dict[str, Any]]], Any], traits: Any = None, **settings: Any
    ) -> tuple[list[dict[str, Any]], list[list[Any]]]:
        runs: list[list[Any]] = []

        def forward(self: Any, batch: list[dict[str, Any]]) -> Any:
            runs.append([item["data"] for item in batch])
            return work(batch)

        hami.register("Once", type("Once", (hami.Backend,), {**(traits or {}), "forward": forward}))
        pipeline = open_pipe(
            {"backend": "Once", "max": len(data), "batching_timeout": FOR_EVER_MS, **settings}
        )
        requests = [{"data": value} for value in data]
        try:
            pipeline(requests)
        except BaseException:
            first = list(runs)
            for request in requests:
                if "result" not in request:
                    request["error"] = pipeline.submit({"data": request["data"]}).exception(10)
            runs[:] = first
        return requests, runs

    return run_batch


def refuse_negative(batch: list[dict[str, Any]]) -> list[Any]:
    """Raise for the whole batch when one item is negative."""
    for item in batch:
        if item["data"] < 0:
            raise ValueError(f"negative: {item['data']}")
    return [item["data"] * 2 for item in batch]


def bound(size: int) -> float:
    """Return how many further runs one bad item among `size` may cost."""
    return 2 * math.log2(size) + 1


def test_healthy_items_get_results_and_the_bad_one_its_exception(run: Any) -> None:
    requests, _ = run([1, 2, -1, 3], refuse_negative)
    assert [request.get("result") for request in requests] == [2, 4, None, 6]
    assert str(requests[2]["error"]) == "negative: -1"


@pytest.mark.parametrize("size", [2, 3, 4, 5, 7, 8, 9, 16, 17, 33, 64])
def test_one_bad_item_costs_a_logarithm_of_further_runs(run: Any, size: int) -> None:
    for bad in {0, 1, size // 2, size - 2, size - 1} & set(range(size)):
        data = list(range(size))
        data[bad] = -1
        requests, runs = run(data, refuse_negative)
        assert len(runs) - 1 <= bound(size), f"item {bad} of {size}: {runs}"
        assert [request.get("result") for request in requests] == [
            None if value < 0 else value * 2 for value in data
        ]


@pytest.mark.parametrize("bad", [{0, 1}, {0, 7}, {3, 4, 5}, set(range(8)), {1, 3, 5, 7}])
def test_every_bad_item_of_several_fails_with_its_own_exception(run: Any, bad: set[int]) -> None:
    data = [-i - 1 if i in bad else i for i in range(8)]
    requests, _ = run(data, refuse_negative)
    for value, request in zip(data, requests, strict=True):
        if value < 0:
            assert str(request["error"]) == f"negative: {value}" and "result" not in request
        else:
            assert request["result"] == value * 2


def test_a_batch_without_errors_runs_once(run: Any) -> None:
    _, runs = run(list(range(16)), refuse_negative)
    assert runs == [list(range(16))]


def test_a_lone_item_that_fails_runs_once(run: Any) -> None:
    _, runs = run([-1], refuse_negative)
    assert runs == [[-1]]


def test_a_second_run_sees_items_as_the_first_one_did(open_pipe: Any) -> None:
    seen: list[list[dict[str, Any]]] = []

    def forward(batch: list[dict[str, Any]]) -> list[Any]:
        seen.append([dict(item) for item in batch])
        for item in batch:
            item["data"] = "changed"
            item["extra"] = "changed"
            item["result"] = "half done"
            item.pop("mine")
        if any(item["bad"] for item in batch):
            raise ValueError("bad")
        return ["done" for _ in batch]

    hami.register("Messy", forward)
    pipeline = open_pipe({"backend": "Messy", "max": 4, "batching_timeout": FOR_EVER_MS})
    requests = [{"data": i, "bad": i == 2, "mine": "m"} for i in range(4)]
    with pytest.raises(ValueError, match="bad"):
        pipeline(requests)
    for batch in seen:
        for item in batch:
            assert item == {"data": item["data"], "bad": item["data"] == 2, "mine": "m"}
    assert requests[2] == {"data": 2, "bad": True, "mine": "m"}
    assert requests[0] == {"data": 0, "bad": False, "mine": "m", "extra": "changed", "result": "done"}


@pytest.mark.parametrize("how", ["trait", "setting"])
def test_a_backend_that_must_not_run_twice_fails_as_a_whole(run: Any, how: str) -> None:
    traits = {"is_idempotent": False} if how == "trait" else {}
    settings = {"isolate_errors": False} if how == "setting" else {}
    requests, runs = run([1, -1, 2], refuse_negative, traits, **settings)
    assert runs == [[1, -1, 2]]
    assert all("result" not in request for request in requests)


@pytest.mark.parametrize(
    "error",
    [MemoryError("no memory"), RuntimeError("CUDA error: an illegal memory access"), KeyboardInterrupt()],
)
def test_after_errors_of_the_machine_nothing_runs_again(run: Any, error: BaseException) -> None:
    def work(batch: list[dict[str, Any]]) -> Any:
        raise error

    requests, runs = run([1, 2, 3, 4], work)
    assert runs == [[1, 2, 3, 4]]
    assert all(type(request["error"]) is type(error) for request in requests)


def test_a_memory_error_in_a_second_run_ends_the_search(run: Any) -> None:
    def work(batch: list[dict[str, Any]]) -> Any:
        raise ValueError if len(batch) == 4 else MemoryError

    _, runs = run([1, 2, 3, 4], work)
    assert max(map(len, runs[1:])) == 2
    assert len(runs) <= 3


def test_an_item_may_fail_alone_without_any_second_run(open_pipe: Any) -> None:
    runs = []

    def forward(batch: list[dict[str, Any]]) -> None:
        runs.append(len(batch))
        for item in batch:
            if item["data"] < 0:
                item["error"] = ValueError("refused")
            else:
                item["result"] = item["data"]

    hami.register("Each", forward)
    requests = [{"data": value} for value in (1, -1, 2)]
    with pytest.raises(ValueError, match="refused"):
        open_pipe({"backend": "Each", "max": 3, "batching_timeout": FOR_EVER_MS})(requests)
    assert runs == [3]
    assert [request.get("result") for request in requests] == [1, None, 2]
    assert "error" not in requests[1]


def test_an_error_wins_over_a_result_of_the_same_item(open_pipe: Any) -> None:
    def forward(batch: list[dict[str, Any]]) -> None:
        for item in batch:
            item.update(result=1, error=ValueError("still"))

    hami.register("BothKeys", forward)
    with pytest.raises(ValueError, match="still"):
        open_pipe("BothKeys")({"data": 1})


def test_an_error_of_none_is_no_error(open_pipe: Any) -> None:
    hami.register("Fine", lambda batch: [item.update(error=None, result=1) for item in batch] and None)
    assert open_pipe("Fine")({"data": 1})["result"] == 1


def test_the_rest_of_a_chain_runs_for_the_healthy_items_only(open_pipe: Any, probe: Any) -> None:
    hami.register("Refuse", refuse_negative)
    last = probe("Last")
    pipeline = open_pipe(
        {
            "first": {"backend": "Refuse", "max": 4, "batching_timeout": FOR_EVER_MS, "next": "last"},
            "last": {"backend": "Last"},
        }
    )
    with pytest.raises(ValueError, match="negative"):
        pipeline([{"data": value} for value in (1, -1, 2, 3)])
    assert sorted(last.items) == [2, 4, 6]


def test_inside_one_expression_a_bad_item_fails_alone_too(open_pipe: Any, probe: Any) -> None:
    hami.register("Refuse", refuse_negative)
    last = probe("Last")
    pipeline = open_pipe({"backend": "S[Refuse, Last]", "max": 4, "batching_timeout": FOR_EVER_MS})
    requests = [{"data": value} for value in (1, -1, 2, 3)]
    with pytest.raises(ValueError, match="negative"):
        pipeline(requests)
    assert [request.get("result") for request in requests] == [2, None, 4, 6]
    assert sorted(set(last.items)) == [2, 4, 6]


def test_an_item_whose_caller_has_gone_drops_out_between_runs(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any
) -> None:
    plug = probe("Plug")
    runs: list[list[int]] = []
    futures: list[Any] = []

    def forward(batch: list[dict[str, Any]]) -> list[int]:
        runs.append([item["data"] for item in batch])
        if len(batch) == 4:
            assert futures[3].cancel()
        return refuse_negative(batch)

    hami.register("Leaving", forward)
    pipeline = open_pipe(
        {"plug": {"backend": "Plug", "next": "work"}, "work": {"backend": "Leaving", "max": 4}}
    )
    plug.shut()
    futures += [pipeline.submit({"data": value}) for value in (-1, 1, 2, 3)]
    plug.open()
    assert isinstance(futures[0].exception(10), ValueError)
    assert [future.result(10)["result"] for future in futures[1:3]] == [2, 4]
    assert sum(run.count(3) for run in runs) <= 1


def test_a_stat_counts_the_items_that_failed(open_pipe: Any) -> None:
    hami.register("Refuse", refuse_negative)
    pipeline = open_pipe({"backend": "Refuse", "max": 4, "batching_timeout": FOR_EVER_MS})
    with pytest.raises(ValueError, match="negative"):
        pipeline([{"data": value} for value in (1, -1, -2, 3)])
    stats = pipeline.stats()[0]
    assert (stats["items"], stats["errors"], stats["batch_rows"]) == (4, 2, {4: 1})


# --- wrong results --------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 3, 5, 100])
def test_a_list_of_another_length_is_an_error_that_names_node_expected_and_got(run: Any, count: int) -> None:
    requests, runs = run([1, 2, 3, 4], lambda batch: [0] * count if len(batch) == 4 else [0] * len(batch))
    assert runs == [[1, 2, 3, 4]]
    assert all("result" not in request for request in requests)


def test_the_error_of_a_wrong_count_says_what_was_expected(open_pipe: Any) -> None:
    hami.register("Short", lambda batch: [0] * (len(batch) - 1))
    pipeline = open_pipe({"short": {"backend": "Short", "max": 4, "batching_timeout": FOR_EVER_MS}})
    with pytest.raises(hami.RequestError, match=r"short.*4 items.*3 results") as caught:
        pipeline([{"data": i} for i in range(4)])
    assert caught.value.code == "backend-result-count" and caught.value.help


@pytest.mark.parametrize("returned", [5, "abcd", b"abcd", {"a": 1}, {1, 2, 3, 4}, object()])
def test_something_else_than_a_list_is_an_error_that_names_its_type(open_pipe: Any, returned: Any) -> None:
    hami.register("Odd", lambda batch: returned)
    with pytest.raises(hami.RequestError, match=type(returned).__name__):
        open_pipe("Odd")({"data": 1})


def test_a_tuple_of_results_is_taken(open_pipe: Any) -> None:
    hami.register("Pair", lambda batch: tuple(item["data"] for item in batch))
    assert open_pipe("Pair")({"data": 1})["result"] == 1


def test_a_key_never_set_is_an_error_of_that_item_alone(open_pipe: Any) -> None:
    def forward(batch: list[dict[str, Any]]) -> None:
        for item in batch:
            if item["data"] != 2:
                item["result"] = item["data"]

    hami.register("Forgets", forward)
    requests = [{"data": i} for i in range(4)]
    with pytest.raises(hami.RequestError, match=r"`node`.*`result`"):
        open_pipe({"backend": "Forgets", "max": 4, "batching_timeout": FOR_EVER_MS})(requests)
    assert [request.get("result") for request in requests] == [0, 1, None, 3]


def test_none_set_or_returned_is_a_result(open_pipe: Any) -> None:
    hami.register("SetsNone", lambda batch: [item.update(result=None) for item in batch] and None)
    hami.register("ReturnsNone", lambda batch: [None for _ in batch])
    for source in ("SetsNone", "ReturnsNone"):
        assert open_pipe(source)({"data": 1}) == {"data": 1, "result": None}


def test_a_list_returned_wins_over_results_set_in_the_items(open_pipe: Any) -> None:
    def forward(batch: list[dict[str, Any]]) -> list[str]:
        for item in batch:
            item["result"] = "set"
        return ["returned" for _ in batch]

    hami.register("Twice", forward)
    assert open_pipe("Twice")({"data": 1})["result"] == "returned"


@pytest.mark.parametrize("harm", ["clear", "reverse", "extend", "replace"])
def test_what_a_backend_does_to_its_list_does_not_mix_up_the_items(open_pipe: Any, harm: str) -> None:
    def forward(batch: list[dict[str, Any]]) -> list[Any]:
        results = [item["data"] for item in batch]
        {
            "clear": batch.clear,
            "reverse": batch.reverse,
            "extend": lambda: batch.extend([{}, {}]),
            "replace": lambda: batch.__setitem__(0, {"data": "other"}),
        }[harm]()
        return results

    hami.register("Harms", forward)
    requests = [{"data": i} for i in range(4)]
    open_pipe({"backend": "Harms", "max": 4, "batching_timeout": FOR_EVER_MS})(requests)
    assert [request["result"] for request in requests] == [0, 1, 2, 3]


@pytest.mark.parametrize("key", [5, None, ("a",)])
def test_a_key_that_is_no_text_is_an_error_of_that_item(open_pipe: Any, key: Any) -> None:
    def forward(batch: list[dict[str, Any]]) -> list[Any]:
        for item in batch:
            if item["data"] == 1:
                item[key] = 1
        return [0 for _ in batch]

    hami.register("OddKey", forward)
    requests = [{"data": i} for i in range(3)]
    with pytest.raises(hami.RequestError, match="key"):
        open_pipe({"backend": "OddKey", "max": 3, "batching_timeout": FOR_EVER_MS})(requests)
    assert [request.get("result") for request in requests] == [0, None, 0]


def test_an_exception_class_fails_an_item_like_an_exception(open_pipe: Any) -> None:
    hami.register("Lazy", lambda batch: [item.update(error=ValueError) for item in batch] and None)
    with pytest.raises(ValueError):
        open_pipe("Lazy")({"data": 1})


@pytest.mark.parametrize("error", ["text", 5, object, [ValueError()]])
def test_an_error_that_is_no_exception_is_an_error_of_the_backend(open_pipe: Any, error: Any) -> None:
    hami.register("Odd", lambda batch: [item.update(error=error, result=1) for item in batch] and None)
    with pytest.raises(hami.RequestError, match="`error`"):
        open_pipe("Odd")({"data": 1})
