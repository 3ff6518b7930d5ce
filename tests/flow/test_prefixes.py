"""Laws of prefixes: what `(or)X`, `(name)X` and their kin do to a stage, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000


@pytest.fixture(autouse=True)
def predicates() -> None:
    """`big` holds above 10."""
    hami.condition("big")(lambda item: item["data"] > 10)


def results(pipeline: hami.Pipeline, values: list[Any], **keys: Any) -> list[Any]:
    return [pipeline({"data": value, **keys})["result"] for value in values]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("S[(big)Pow]", [3, 400]),
        ("S[(big)Pow, AddInt]", [4, 401]),
        ("S[AddInt, (big)Pow]", [4, 441]),
        ("S[AddInt, (big)Pow, AddInt]", [5, 442]),
        ("S[Pow, (big)AddInt, (big)AddInt]", [9, 402]),
        ("S[(filter=big)Pow]", [3, 400]),
        ("S[(filter=run)Pow]", [9, 400]),
        ("S[(run)Pow]", [9, 400]),
        ("S[(big)S[AddInt, (big)Pow], AddInt]", [4, 442]),
        ("S[(big)big[Pow]]", [3, 400]),
        ("S[(big)IoC[Pow; Forward[Pow]]]", [3, 400]),
        ("S[(big)Reflect[unset, Pow]]", [3, 400]),
        ("List[Identity, (big)Pow]", [3, 400]),
        ("List[(big)Pow, (or)AddInt]", [4, 400]),
        ("S[big, (or)Pow]", [9, 20]),
        ('S[("big")Pow]', [3, 400]),
    ],
)
def test_a_stage_runs_where_its_condition_holds(open_pipe: Any, text: str, expected: list[int]) -> None:
    assert results(open_pipe(text), [3, 20]) == expected


@pytest.mark.parametrize(
    "prefix", ["HasKey(k)", "HasKey=k", "HasKey(key=k)", "filter=HasKey(k)", '"HasKey(k)"', " HasKey( k ) "]
)
def test_a_condition_of_the_core_takes_its_arguments(open_pipe: Any, prefix: str) -> None:
    pipeline = open_pipe(f"S[({prefix})Pow, AddInt]")
    assert (results(pipeline, [3]), results(pipeline, [3], k=None)) == ([4], [10])


def test_parameters_of_the_node_reach_a_condition(open_pipe: Any) -> None:
    pipeline = open_pipe({"backend": "S[(NotHasKey)Pow]", "key": "k"})
    assert (results(pipeline, [3]), results(pipeline, [3], k=1)) == ([9], [3])


def test_placeholders_are_filled_in_a_prefix(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {"backend": "S[(filter={how})Pow, (HasKey({which}))Pow]", "how": "big", "which": "k"}
    )
    assert (results(pipeline, [3, 20]), results(pipeline, [3], k=1)) == ([3, 400], [9])


def test_a_name_with_dots_is_a_condition(open_pipe: Any) -> None:
    hami.condition("size.big")(lambda item: item["data"] > 10)
    assert results(open_pipe("S[(size.big)Pow]"), [3, 20]) == [3, 400]


def test_the_items_of_a_stage_run_as_one_batch(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "S[Identity, (big)Probe]", "max": 5, "batching_timeout": FOR_EVER_MS})
    pipeline([{"data": value} for value in (1, 20, 2, 30, 3)])
    assert seen.batches == [[20, 30]]


def test_a_failed_predicate_fails_its_item_and_no_other(open_pipe: Any) -> None:
    pipeline = open_pipe({"backend": "S[(big)Pow, AddInt]", "max": 3, "batching_timeout": FOR_EVER_MS})
    requests: list[dict[str, Any]] = [{"data": 3}, {"data": "x"}, {"data": 20}]
    with pytest.raises(TypeError):
        pipeline(requests)
    assert [request.get("result") for request in requests] == [4, None, 401]


def test_a_skipped_first_stage_needs_data_as_identity_does(open_pipe: Any) -> None:
    with pytest.raises(hami.RequestError) as caught:
        open_pipe("S[(HasKey(k))Pow, Identity]")({"other": 1})
    assert caught.value.code == "request-missing-key"


def test_stages_in_place_stay_in_place_with_conditions_of_the_core(open_pipe: Any) -> None:
    for text, is_in_place in (("S[(HasKey(k))Pow]", True), ("S[(big)Pow]", False)):
        pipeline = open_pipe(text)
        pipeline({"data": 3})
        assert ("in_place" in pipeline.stats()[0]["releases"]) is is_in_place


def test_a_stage_that_gives_no_result_after_all_is_an_error(open_pipe: Any) -> None:
    hami.register("Never", lambda batch: None)
    pipeline = open_pipe("S[(big)Never]")
    assert results(pipeline, [3]) == [3]
    with pytest.raises(hami.RequestError, match="without a `result`"):
        pipeline({"data": 20})


def test_a_chain_puts_the_items_own_data_back(open_pipe: Any) -> None:
    hami.register("Show", lambda batch: [item["data"] for item in batch])
    assert results(open_pipe("List[S[Pow, Pow], Show]"), [3]) == [3]
    assert results(open_pipe("Or[S[Pow, HasKey(k)], Show]"), [3]) == [3]


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        ("S[(bg)Pow]", "plan-unknown-prefix", "`big`"),
        ("S[(HasKy(k))Pow]", "plan-unknown-prefix", "`HasKey`"),
        ("S[(HasKy=k)Pow]", "plan-unknown-prefix", "`HasKey`"),
        ("S[(filter=rum)Pow]", "plan-unknown-prefix", "`run`"),
        ("S[(orr)Pow]", "plan-unknown-prefix", "`or`"),
        ("S[(Pow)Pow]", "plan-unknown-prefix", "no condition"),
        ("S[(or=1)Pow]", "plan-bad-prefix", "`(or)X`"),
        ("S[(filter=or)Pow]", "plan-bad-prefix", "`(or)X`"),
        ("S[(run(1))Pow]", "plan-bad-prefix", "`(run)X`"),
        ("S[(big, big)Pow]", "plan-bad-prefix", "one condition"),
        ("S[(big[Pow])Pow]", "plan-bad-prefix", "more than a name"),
        ("S[(3)Pow]", "plan-bad-prefix", "`3`"),
        ("S[(true)Pow]", "plan-bad-prefix", "`true`"),
        ('S[("")Pow]', "parse-empty", ""),
        ("S[(big x)Pow]", "parse-after-end", "x"),
        ("S[(HasKey)Pow]", "plan-missing-parameter", "key"),
        ("S[(HasKey(k, l))Pow]", "plan-too-many-arguments", "at most 1"),
        ("S[(HasKey(kee=k))Pow]", "plan-unknown-argument", "`key`"),
        ("(big)Pow", "plan-misplaced-prefix", "`big[Pow]`"),
        ("Or[(big)Pow, Identity]", "plan-misplaced-prefix", "`big[Pow]`"),
        ("big[(big)Pow]", "plan-misplaced-prefix", "`big[Pow]`"),
    ],
)
def test_what_is_no_prefix_is_refused_with_help(text: str, code: str, word: str) -> None:
    with pytest.raises(hami.ConfigError) as caught:
        hami.pipe(text)
    assert (caught.value.code, bool(caught.value.help), bool(caught.value.where)) == (code, True, True)
    assert word in str(caught.value)


def test_an_error_inside_a_prefix_has_its_place(tmp_path: Any) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text('[a]\nbackend = "S[Pow, (HasKey(k, l))Pow]"\n')
    with pytest.raises(hami.ConfigError) as caught:
        hami.pipe(file)
    assert caught.value.where.endswith("pipeline.toml:2")
    assert caught.value.excerpt.endswith("|" + " " * 30 + "^")


def test_suffixes_are_left_to_their_backends() -> None:
    hami.pipe("S[(.onnx)Pow, (.trt)Identity]").close()
    hami.pipe("List[(.onnx,.trt)Pow]").close()
