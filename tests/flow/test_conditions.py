"""Laws of conditions: what `C`, `C[A]` and `C[A, B]` do with each item, in an expression and as a node."""

from __future__ import annotations

from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000


@pytest.fixture(autouse=True)
def predicates() -> None:
    """`big` holds above 10; `Show` gives its frame."""
    hami.condition("big")(lambda item: item["data"] > 10)
    hami.register("Show", lambda batch: [dict(item) for item in batch])


def results(pipeline: hami.Pipeline, values: list[Any], **keys: Any) -> list[Any]:
    """Return the result of each value; the code of the error, or its class, where there is none."""
    found = []
    for value in values:
        try:
            found.append(pipeline({"data": value, **keys})["result"])
        except hami.Error as error:
            found.append(error.code)
        except Exception as error:
            found.append(type(error))
    return found


# --- the forms ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("big", ["request-missing-result", 20]),
        ("big[Pow]", [3, 400]),
        ("big[Pow, AddInt]", [4, 400]),
        ("big[big[Pow, AddInt], AddInt(2)]", [5, 400]),
        ("S[Pow, big[AddInt]]", [9, 401]),
        ("S[AddInt, big, Pow]", ["request-missing-result", 441]),
        ("S[big, (or)AddInt]", [4, 20]),
        ("big[S[Pow, big], Pow]", [9, 400]),
    ],
)
def test_a_condition_chooses_what_runs(open_pipe: Any, text: str, expected: list[Any]) -> None:
    assert results(open_pipe(text), [3, 20]) == expected


def test_has_key_sees_the_callers_keys(open_pipe: Any) -> None:
    pipeline = open_pipe("HasKey(k)[Pow, Identity]")
    assert pipeline({"data": 3})["result"] == 3
    for value in (1, None, "", object()):
        assert pipeline({"data": 3, "k": value})["result"] == 9
    assert open_pipe("NotHasKey(k)[Pow, Identity]")({"data": 3})["result"] == 9
    assert open_pipe("NotHasKey(key=k)[Pow, Identity]")({"data": 3, "k": None})["result"] == 3


@pytest.mark.parametrize("key", ["", "ключ", "a b", "result_of_all"])
def test_has_key_takes_any_key(open_pipe: Any, key: str) -> None:
    pipeline = open_pipe({"backend": "HasKey[Pow]", "key": key})
    assert (pipeline({"data": 3, key: 0})["result"], pipeline({"data": 3})["result"]) == (9, 3)


def test_has_key_sees_what_an_earlier_stage_wrote_or_removed(open_pipe: Any) -> None:
    assert open_pipe("S[Add(k, 1), HasKey(k)[Pow]]")({"data": 3})["result"] == 9
    assert open_pipe("S[Remove(k), HasKey(k)[Pow]]")({"data": 3, "k": 1})["result"] == 3

    def forget(batch: list[dict[str, Any]]) -> None:
        for item in batch:
            del item["k"]
            item["result"] = item["data"]

    hami.register("Forget", forget)
    assert open_pipe("S[Forget, HasKey(k)[Pow]]")({"data": 3, "k": 1})["result"] == 3


def test_the_parts_of_a_batch_run_as_one_batch_each(open_pipe: Any, probe: Any) -> None:
    large, small = probe("Large"), probe("Small")
    pipeline = open_pipe({"backend": "big[Large, Small]", "max": 6, "batching_timeout": FOR_EVER_MS})
    answers = pipeline([{"data": value} for value in (1, 20, 2, 30, 3, 40)])
    assert [answer["result"] for answer in answers] == [1, 20, 2, 30, 3, 40]
    assert (large.batches, small.batches) == ([[20, 30, 40]], [[1, 2, 3]])


def test_no_part_runs_with_zero_items(open_pipe: Any, probe: Any) -> None:
    large, small = probe("Large"), probe("Small")
    pipeline = open_pipe({"backend": "big[Large, Small]", "max": 2, "batching_timeout": FOR_EVER_MS})
    pipeline([{"data": 1}, {"data": 2}])
    assert (large.batches, small.batches) == ([], [[1, 2]])


def test_an_item_that_fails_in_one_branch_leaves_the_other_alone(open_pipe: Any, probe: Any) -> None:
    probe("Divide", lambda item: 1 // (item["data"] - 20))
    pipeline = open_pipe({"backend": "big[Divide, Pow]", "max": 4, "batching_timeout": FOR_EVER_MS})
    requests = [{"data": value} for value in (3, 20, 21, 4)]
    with pytest.raises(ZeroDivisionError):
        pipeline(requests)
    assert [request.get("result") for request in requests] == [9, None, 1, 16]


def test_a_branch_below_its_min_fails_its_items_only(open_pipe: Any, probe: Any) -> None:
    seen = probe("Pairs", batch_range=(2, 8))
    pipeline = open_pipe({"backend": "big[Pairs, Pow]", "max": 8, "batching_timeout": FOR_EVER_MS})
    requests = [{"data": value} for value in (20, 1, 2, 3)]
    with pytest.raises(hami.RequestError, match="at least 2") as caught:
        pipeline(requests)
    assert (caught.value.code, seen.batches) == ("request-too-small", [])
    assert [request.get("result") for request in requests] == [None, 1, 4, 9]


def test_shapes_do_not_mix_in_a_branch(open_pipe: Any, probe: Any) -> None:
    numpy = pytest.importorskip("numpy", reason="the arrays of the test")
    seen = probe("Shapes", lambda item: item["data"].shape)
    hami.condition("always")(lambda item: True)
    pipeline = open_pipe({"backend": "always[Shapes]", "max": 4, "batching_timeout": 0})
    pipeline([{"data": numpy.zeros(size)} for size in (2, 3, 2, 3)])
    for batch in seen.batches:
        assert len({array.shape for array in batch}) == 1


def test_thousands_of_items_in_one_call_are_each_answered_rightly(open_pipe: Any) -> None:
    pipeline = open_pipe({"backend": "S[big[Pow], (big)AddInt]", "max": 512})
    answers = pipeline([{"data": value} for value in range(5000)])
    assert [answer["result"] for answer in answers] == [v * v + 1 if v > 10 else v for v in range(5000)]


# --- as nodes -----------------------------------------------------------------------------------------


def test_where_it_does_not_hold_the_successors_are_skipped(open_pipe: Any, probe: Any) -> None:
    seen = probe("Next")
    pipeline = open_pipe({"if": {"backend": "big", "next": "then"}, "then": {"backend": "Next"}})
    assert results(pipeline, [3, 20]) == ["request-missing-result", 20]
    assert seen.items == [20]


def test_a_condition_and_an_or_node_make_a_choice(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {"if": {"backend": "big", "next": "else"}, "else": {"backend": "Pow", "or": True, "next": "last"},
         "last": {"backend": "AddInt"}}
    )  # fmt: skip
    assert results(pipeline, [3, 20]) == [10, 21]


def test_keys_of_a_skipped_branch_are_absent_at_the_join(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "root": {"backend": "Identity", "next": "large,all"},
            "large": {"backend": "big", "next": "square"},
            "square": {"backend": "Pow", "next": "join"},
            "all": {"backend": "Identity", "next": "join"},
            "join": {"backend": "Show", "map": "square[result:square],all[result:data]"},
        }
    )
    shown = [pipeline({"data": value})["result"] for value in (3, 20)]
    assert [(frame["data"], frame.get("square")) for frame in shown] == [(3, None), (20, 400)]
    assert "square" not in shown[0]


def test_conditions_as_elements_of_for_each(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "each": {"backend": "ForEach(target=work, on_error=drop)"},
            "work": {"backend": "big[Pow, Identity]"},
        }
    )
    assert pipeline({"data": [3, 20]})["result"] == [3, 400]


@pytest.mark.parametrize("text", ["HasKey(k)", "HasKey(k)[Pow]", "HasKey(k)[Pow, Identity]", "Random[Pow]"])
def test_conditions_of_the_core_run_in_place(open_pipe: Any, text: str) -> None:
    pipeline = open_pipe(text)
    pipeline.submit({"data": 3, "k": 1}).result(10)
    pipeline({"data": 3, "k": 1})
    assert pipeline.stats()[0]["releases"]["in_place"] == 1


def test_conditions_in_python_do_not_run_on_the_callers_thread(open_pipe: Any) -> None:
    pipeline = open_pipe("big[Pow]")
    pipeline({"data": 20})
    assert "in_place" not in pipeline.stats()[0]["releases"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("HasKey", "plan-missing-parameter"),
        ("HasKey(k)[A, B, C]", "plan-unknown-backend"),
        ("HasKey(k)[Pow, Pow, Pow]", "plan-num-children"),
        ("big(3)", "plan-too-many-arguments"),
        ("big[Pow, Pow, Pow]", "plan-num-children"),
        ("Random(2)", "plan-bad-value"),
        ("Random(-0.1)", "plan-bad-value"),
        ("Random(seed=x)", "plan-bad-value"),
    ],
)
def test_wrong_uses_are_refused_with_help(text: str, code: str) -> None:
    with pytest.raises(hami.ConfigError) as caught:
        hami.pipe(text)
    assert (caught.value.code, bool(caught.value.help)) == (code, True)


# --- chance -------------------------------------------------------------------------------------------


def choices(pipeline: hami.Pipeline, count: int = 400) -> list[int]:
    """Return 1 for each call that went to the first branch."""
    return [pipeline({"data": 1})["result"] - 1 for _ in range(count)]


def test_random_holds_for_its_share_and_never_or_always_at_the_ends(open_pipe: Any) -> None:
    assert 60 < sum(choices(open_pipe("Random(0.25)[AddInt]"))) < 140
    assert sum(choices(open_pipe("Random(0)[AddInt]"))) == 0
    assert sum(choices(open_pipe("Random(1)[AddInt]"))) == 400


def test_random_makes_the_same_choices_again_and_other_ones_with_another_seed(open_pipe: Any) -> None:
    first = choices(open_pipe("Random[AddInt]"))
    assert choices(open_pipe("Random[AddInt]")) == first
    assert choices(open_pipe("Random(seed=1)[AddInt]")) != first


def test_two_randoms_of_one_expression_choose_apart(open_pipe: Any) -> None:
    pipeline = open_pipe("S[Random[AddInt(1)], Random[AddInt(10)]]")
    assert {pipeline({"data": 0})["result"] for _ in range(200)} == {0, 1, 10, 11}


def test_two_instances_of_a_random_choose_apart(open_pipe: Any) -> None:
    both = open_pipe({"backend": "ThreadPoolExecutor(num_threads=2)[Random[AddInt]]", "max": 2,
                      "batching_timeout": FOR_EVER_MS})  # fmt: skip
    pairs = {tuple(a["result"] for a in both([{"data": 0}, {"data": 0}])) for _ in range(100)}
    assert len(pairs) == 4


# --- predicates in Python -----------------------------------------------------------------------------


def test_what_a_predicate_raises_fails_that_item_only(open_pipe: Any) -> None:
    pipeline = open_pipe({"backend": "big[Pow]", "max": 4, "batching_timeout": FOR_EVER_MS})
    requests = [{"data": value} for value in (3, "x", None, 20)]
    with pytest.raises(TypeError) as caught:
        pipeline(requests)
    assert [request.get("result") for request in requests] == [3, None, None, 400]
    assert "node `node`" in caught.value.__notes__[0]


def test_a_predicate_sees_all_keys_and_cannot_change_them(open_pipe: Any) -> None:
    seen = []

    def spoil(item: dict[str, Any]) -> bool:
        seen.append(dict(item))
        item.clear()
        item["result"] = "spoilt"
        return True

    hami.condition("spoil")(spoil)
    request = {"data": 3, "other": [1], "k": 2}
    assert open_pipe("spoil[Pow]")(request) == {"data": 3, "other": [1], "k": 2, "result": 9}
    assert seen == [{"data": 3, "other": [1], "k": 2}]


@pytest.mark.parametrize(("answer", "holds"), [(1, True), ("", False), (None, False), ([0], True)])
def test_any_truth_value_is_an_answer(open_pipe: Any, answer: Any, holds: bool) -> None:
    hami.condition("say")(lambda item: answer)
    assert open_pipe("say[Pow]")({"data": 3})["result"] == (9 if holds else 3)


def test_an_answer_without_truth_fails_its_item(open_pipe: Any) -> None:
    class Neither:
        def __bool__(self) -> bool:
            raise LookupError("neither")

    hami.condition("say")(lambda item: Neither() if item["data"] < 0 else True)
    pipeline = open_pipe({"backend": "say[Pow]", "max": 2, "batching_timeout": FOR_EVER_MS})
    requests = [{"data": -1}, {"data": 3}]
    with pytest.raises(LookupError, match="neither"):
        pipeline(requests)
    assert requests[1]["result"] == 9


def test_a_predicate_may_call_a_pipeline(open_pipe: Any) -> None:
    inner = open_pipe("Pow")
    hami.condition("deep")(lambda item: inner({"data": item["data"]})["result"] > 10)
    assert results(open_pipe("deep[AddInt]"), [3, 4]) == [3, 5]


def test_methods_and_builtins_and_callable_objects_are_predicates(open_pipe: Any) -> None:
    class Above:
        def __init__(self, limit: int) -> None:
            self.limit = limit

        def __call__(self, item: dict[str, Any]) -> bool:
            return bool(item["data"] > self.limit)

    hami.condition("above")(Above(5))
    hami.condition("filled")(bool)
    assert results(open_pipe("above[Pow]"), [5, 6]) == [5, 36]
    assert open_pipe("filled[Pow]")({"data": 3})["result"] == 9


def test_a_name_means_one_thing_only() -> None:
    def other(item: dict[str, Any]) -> bool:
        return True

    hami.condition("other")(other)
    hami.condition("other")(other)  # the same again, as when a module is loaded anew
    refused = [
        lambda: hami.condition("other")(lambda item: True),
        lambda: hami.register("other", other),
        lambda: hami.register("big", other),
        lambda: hami.condition("Show")(other),
        lambda: hami.condition("Pow")(other),
        lambda: hami.condition("HasKey")(other),
        lambda: hami.condition("IoCV0")(other),
        lambda: hami.condition("or")(other),
        lambda: hami.condition("run")(other),
        lambda: hami.condition("filter")(other),
        lambda: hami.condition("two words")(other),
        lambda: hami.condition("")(other),
        lambda: hami.condition(".onnx")(other),
        lambda: hami.condition(3)(other),  # type: ignore[arg-type]
    ]
    hami.pipe("Pow").close()  # from now on the names of the core are known
    for register in refused:
        with pytest.raises(hami.ConfigError) as caught:
            register()
        assert (caught.value.code, bool(caught.value.help)) == ("register-refused", True)


async def _async(item: Any) -> bool:
    return True


def _generator(item: Any) -> Any:
    yield True


@pytest.mark.parametrize("predicate", [None, 3, _async, _generator, lambda: True, lambda a, b: True])
def test_what_cannot_answer_is_no_predicate(predicate: Any) -> None:
    with pytest.raises(hami.ConfigError) as caught:
        hami.condition("bad")(predicate)
    assert (caught.value.code, bool(caught.value.help)) == ("register-refused", True)
