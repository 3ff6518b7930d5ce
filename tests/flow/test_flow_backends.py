"""Laws of the small built-ins: `Or`, `Add`, `Remove`, `ThrowIfNoResult`, `Profile`, and the hidden names."""

from __future__ import annotations

import time
from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000


@pytest.fixture(autouse=True)
def backends() -> None:
    """`Never` gives no result, `Show` gives its frame."""
    hami.register("Never", lambda batch: None)
    hami.register("Show", lambda batch: [dict(item) for item in batch])


def code_of(call: Any, *arguments: Any) -> str:
    """Return the code of the error that the call raises."""
    with pytest.raises(hami.Error) as caught:
        call(*arguments)
    assert caught.value.help
    return caught.value.code


# --- Or -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Or[Pow]", 9),
        ("Or[Pow, Identity]", 9),
        ("Or[HasKey(k), Pow]", 9),
        ("Or[HasKey(k), S[Pow, HasKey(k)], AddInt]", 4),
        ("Or[Or[HasKey(k)], Pow]", 9),
        ("S[Or[HasKey(k), Pow], AddInt]", 10),
        ("List[Pow, Or[HasKey(k), AddInt]]", 4),
    ],
)
def test_or_tries_until_there_is_a_result(open_pipe: Any, text: str, expected: int) -> None:
    assert open_pipe(text)({"data": 3})["result"] == expected


def test_or_runs_the_next_one_only_for_items_without_a_result(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    hami.condition("big")(lambda item: item["data"] > 10)
    pipeline = open_pipe({"backend": "Or[big, Probe]", "max": 4, "batching_timeout": FOR_EVER_MS})
    pipeline([{"data": value} for value in (1, 20, 2, 30)])
    assert seen.batches == [[1, 2]]


def test_an_error_is_no_missing_result(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    pipeline = open_pipe("Or[Pow, Probe]")
    with pytest.raises(hami.RequestError):
        pipeline({"data": "text"})
    assert seen.batches == []


def test_or_that_finds_nothing_is_a_missing_result(open_pipe: Any) -> None:
    for text in ("Or[Never, Never]", "Or[HasKey(k), HasKey(l)]"):
        assert code_of(open_pipe(text), {"data": 3}) == "request-missing-result"


def test_a_node_whose_last_way_out_may_give_nothing_is_followed_by_or_nodes(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {"a": {"backend": "Or[HasKey(k), HasKey(l)]", "next": "b"}, "b": {"backend": "Pow", "or": True}}
    )
    assert pipeline({"data": 3})["result"] == 9


@pytest.mark.parametrize(
    "text",
    ["S[{}]", "List[{}]", "Or[{}]", "Tuple[{}]", "ThrowIfNoResult[{}]", "Profile[{}]", "HasKey(k)[{}]",
     "HasKey(k)[{0}, {0}]", "FakeInstance[{}]", "S[(HasKey(k)){}]", "ThreadPoolExecutor(1)[{}]"],
)  # fmt: skip
def test_containers_nest_deeply_without_growing_slow(open_pipe: Any, text: str) -> None:
    inner = "Identity"
    for _ in range(10 if "0" in text else 60):
        inner = text.format(inner)
    assert "result" in open_pipe(inner)({"data": 3, "k": 1})


# --- Add and Remove -----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1, 2.5, True, "text", b"bytes", [1, [2]], {"a": [1]}, "", -1])
def test_add_sets_a_key_that_the_caller_gets(open_pipe: Any, value: Any) -> None:
    pipeline = open_pipe({"backend": "Add", "key": "k", "value": value})
    assert pipeline({"data": 3}) == {"data": 3, "result": 3, "k": value}


def test_add_replaces_what_the_caller_had(open_pipe: Any) -> None:
    assert open_pipe("Add(k, 2)")({"data": 3, "k": 1}) == {"data": 3, "result": 3, "k": 2}


@pytest.mark.parametrize("value", [[1, [2]], {"a": [1]}])
def test_what_one_caller_does_with_an_added_value_is_not_seen_by_another(open_pipe: Any, value: Any) -> None:
    pipeline = open_pipe({"backend": "Add", "key": "k", "value": value})
    first = pipeline({"data": 3})
    first["k"].clear()
    assert pipeline({"data": 3})["k"] == value == pipeline({"data": 3})["k"]


def test_an_added_array_is_each_callers_own(open_pipe: Any) -> None:
    numpy = pytest.importorskip("numpy", reason="the arrays of the test")
    pipeline = open_pipe({"backend": "Add", "key": "k", "value": numpy.arange(3)})
    first = numpy.asarray(pipeline({"data": 3})["k"])
    first[:] = 9
    assert numpy.asarray(pipeline({"data": 3})["k"]).tolist() == [0, 1, 2]


def test_remove_takes_a_key_from_what_follows(open_pipe: Any) -> None:
    request = {"data": 3, "k": 1, "l": 2}
    shown = open_pipe("S[Remove(k), Show]")(request)
    assert shown["result"] == {"data": 3, "l": 2}
    assert shown["k"] == 1  # the caller's dict is the caller's
    assert open_pipe("S[Add(k, 1), Remove(k)]")({"data": 3}) == {"data": 3, "result": 3}
    assert open_pipe("Remove(nothing)")({"data": 3}) == {"data": 3, "result": 3}


def test_remove_reaches_the_next_node(open_pipe: Any) -> None:
    pipeline = open_pipe({"a": {"backend": "Remove(k)", "next": "b"}, "b": {"backend": "Show"}})
    assert pipeline({"data": 3, "k": 1})["result"] == {"data": 3}


def test_remove_in_one_branch_leaves_the_other_alone(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "root": {"backend": "Identity", "next": "without,with"},
            "without": {"backend": "S[Remove(k), Show]", "next": "both"},
            "with": {"backend": "Show", "next": "both"},
            "both": {"backend": "Show", "map": "without[result:without],with[result:with]"},
        }
    )
    both = pipeline({"data": 3, "k": 1})["result"]
    assert (both["without"], both["with"]) == ({"data": 3}, {"data": 3, "k": 1})


@pytest.mark.parametrize("key", ["result", "error"])
@pytest.mark.parametrize("text", ["Add({}, 1)", "Remove({})", "Profile(key={})[Pow]", "TimeStamp({})"])
def test_words_of_the_runtime_are_no_keys_to_change(text: str, key: str) -> None:
    assert code_of(hami.pipe, text.format(key)) == "build-param"


@pytest.mark.parametrize("text", ["Add", "Add(k)", "Remove", "Remove(a, b)"])
def test_keys_and_values_are_required(text: str) -> None:
    assert code_of(hami.pipe, text).startswith("plan-")


# --- ThrowIfNoResult ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "ThrowIfNoResult[Never]",
        "ThrowIfNoResult[HasKey(k)]",
        "S[HasKey(k), ThrowIfNoResult]",
        "S[HasKey(k), ThrowIfNoResult, Pow]",
        "S[Pow, S[HasKey(k), ThrowIfNoResult], (or)Pow]",
        "Or[ThrowIfNoResult[HasKey(k)], Pow]",
        "ThrowIfNoResult",
    ],
)
def test_an_item_without_a_result_is_refused_at_once(open_pipe: Any, text: str) -> None:
    pipeline = open_pipe({"a": {"backend": text, "next": "b"}, "b": {"backend": "Identity", "or": True}})
    assert code_of(pipeline, {"data": 3}) == "request-missing-result"


@pytest.mark.parametrize(
    "text", ["ThrowIfNoResult[Pow]", "S[Pow, ThrowIfNoResult]", "S[HasKey(k)[Pow], Pow]"]
)
def test_an_item_with_a_result_passes(open_pipe: Any, text: str) -> None:
    assert open_pipe(text)({"data": 3})["result"] == 9


def test_only_the_items_without_a_result_fail(open_pipe: Any) -> None:
    hami.condition("big")(lambda item: item["data"] > 10)
    pipeline = open_pipe(
        {"backend": "S[big, ThrowIfNoResult, Pow]", "max": 2, "batching_timeout": FOR_EVER_MS}
    )
    requests = [{"data": 3}, {"data": 20}]
    assert code_of(pipeline, requests) == "request-missing-result"
    assert [request.get("result") for request in requests] == [None, 400]


def test_as_an_or_node_it_refuses_what_comes_without_a_result(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {"a": {"backend": "HasKey(k)", "next": "b"}, "b": {"backend": "ThrowIfNoResult", "or": True}}
    )
    assert pipeline({"data": 3, "k": 1})["result"] == 3
    assert code_of(pipeline, {"data": 3}) == "request-missing-result"


# --- Profile ------------------------------------------------------------------------------------------


def test_profile_writes_nothing_unless_asked(open_pipe: Any) -> None:
    assert open_pipe("Profile[Pow]")({"data": 3}) == {"data": 3, "result": 9}


def test_profile_tells_each_item_the_time_of_its_run(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {"backend": "Profile(key=ms)[Identities(4)]", "max": 4, "batching_timeout": FOR_EVER_MS}
    )
    answers = pipeline([{"data": value} for value in range(4)])
    assert len({answer["ms"] for answer in answers}) == 1
    assert 0 < answers[0]["ms"] < 10_000


def test_profile_passes_errors_on(open_pipe: Any) -> None:
    def fail(batch: list[Any]) -> None:
        raise LookupError("no")

    hami.register("Fail", fail)
    with pytest.raises(LookupError, match="no"):
        open_pipe("Profile(key=ms)[Fail]")({"data": 3})
    with pytest.raises(hami.RequestError):
        open_pipe("Profile(key=ms)[Pow]")({"data": "x"})


# --- the family's rarer names -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Tuple[Pow, Identity, AddInt]", [9, 3, 4]),
        ("Tuple[S[Pow, Pow], Pow]", [81, 9]),
        ("Tuple[Tuple[Pow], Identity]", [[9], 3]),
        ("S[Pow, Tuple[Pow]]", [81]),
        ("Placeholder", 3),
        ("Init[Pow, Identity]", 3),
        ("Init", 3),
        ("Launch[Pow]", 9),
        ("AddInt", 4),
        ("AddInt(-10)", -7),
        ("LogTime(here)", 3),
        ("PrintKeys", 3),
    ],
)
def test_the_rarer_names_do_what_they_say(open_pipe: Any, text: str, expected: Any) -> None:
    assert open_pipe(text)({"data": 3})["result"] == expected


def test_a_tuple_with_a_child_that_gives_nothing_gives_nothing(open_pipe: Any) -> None:
    pipeline = open_pipe({"a": {"backend": "Tuple[Pow, HasKey(k), Pow]", "next": "b"},
                          "b": {"backend": "AddInt", "or": True}})  # fmt: skip
    assert pipeline({"data": 3})["result"] == 4
    assert pipeline({"data": 3, "k": 1})["result"] == [9, 3, 9]


def test_one_bad_item_of_a_tuple_fails_alone(open_pipe: Any) -> None:
    pipeline = open_pipe({"backend": "Tuple[Identity, Pow]", "max": 4, "batching_timeout": FOR_EVER_MS})
    requests: list[dict[str, Any]] = [{"data": value} for value in (1, "x", 2, 3)]
    assert code_of(pipeline, requests) == "request-type"
    assert [request.get("result") for request in requests] == [[1, 1], None, [2, 4], [3, 9]]


@pytest.mark.parametrize("data", ["x", 2.5, True, None, 2**63 - 1, 2**64])
def test_add_int_refuses_what_it_cannot_add(open_pipe: Any, data: Any) -> None:
    assert code_of(open_pipe("AddInt"), {"data": data}) == "request-type"


def test_runtime_error_says_its_message(open_pipe: Any) -> None:
    with pytest.raises(hami.Error, match="on purpose"):
        open_pipe("RuntimeError(on purpose)")({"data": 3})


def test_time_stamp_sets_the_seconds_since_1970(open_pipe: Any) -> None:
    before = time.time()
    answer = open_pipe("TimeStamp(t)")({"data": 3})
    assert answer["result"] == 3
    assert before - 1 <= answer["t"] <= time.time() + 1


def test_keys_are_printed_on_one_line_whatever_they_hold(open_pipe: Any, capfd: Any) -> None:
    open_pipe({"keys": {"backend": "S[Add(k, 1), Add('a\\nb', 1), PrintKeys]"}})({"data": 3})
    lines = capfd.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("keys: ") and "`k`" in lines[0] and "`a?b`" in lines[0]


def test_log_time_prints_its_label(open_pipe: Any, capfd: Any) -> None:
    open_pipe("S[LogTime(before), LogTime]")({"data": 3})
    before, own = capfd.readouterr().err.splitlines()
    assert before.startswith("before: 1") and own.startswith("node: 1")


def test_the_rarer_names_are_hidden_and_found(capfd: Any) -> None:
    from hami.backend import declarations

    hami.pipe("Pow").close()
    hidden = {name for name, one in declarations().items() if one.is_hidden and one.family == "compatibility"}
    assert hidden >= {"Tuple", "Placeholder", "Init", "Launch", "AddInt", "RuntimeError", "PrintKeys"}
    assert all(declarations()[name].doc for name in hidden)
