"""How errors are worded, and that they survive being copied and sent to another process."""

from __future__ import annotations

import copy
import pickle

import pytest

from hami import errors
from hami.errors import ConfigError, Error, Source, Span, did_you_mean, excerpt, nearest, quoted

KINDS = [
    (errors.ConfigError, ValueError, 400),
    (errors.BuildError, RuntimeError, 500),
    (errors.RequestError, ValueError, 422),
    (errors.QueueFull, Exception, 429),
    (errors.DeadlineExceeded, TimeoutError, 504),
    (errors.Cancelled, Exception, 499),
    (errors.Closed, RuntimeError, 503),
]


def test_an_error_reads_as_the_specification_says() -> None:
    error = ConfigError(
        "node `classify` has no parameter `batching_timeot`",
        code="config-unknown-key",
        where="pipeline.toml:9",
        excerpt=excerpt("batching_timeot = 4", 9, 1, len("batching_timeot")),
        help="did you mean `batching_timeout`?",
    )

    assert (
        str(error)
        == """\
pipeline.toml:9: config-unknown-key: node `classify` has no parameter `batching_timeot`
9 | batching_timeot = 4
  | ^^^^^^^^^^^^^^^
help: did you mean `batching_timeout`?"""
    )


def test_missing_parts_leave_no_trace() -> None:
    assert str(ConfigError("it is wrong", code="a-b")) == "a-b: it is wrong"
    assert str(ConfigError("it is wrong", code="a-b", where="x")) == "x: a-b: it is wrong"


@pytest.mark.parametrize(("kind", "base", "status"), KINDS)
def test_each_kind_has_its_base_and_status(kind: type[Error], base: type[Exception], status: int) -> None:
    assert issubclass(kind, Error)
    assert issubclass(kind, base)
    assert kind.http_status == status


@pytest.mark.parametrize("kind", [kind for kind, _, _ in KINDS])
def test_each_kind_has_a_code_of_its_own(kind: type[Error]) -> None:
    assert kind("text").code == kind.default_code
    assert [other.default_code for other, _, _ in KINDS].count(kind.default_code) == 1


@pytest.mark.parametrize("kind", [Error, *(kind for kind, _, _ in KINDS)])
@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))]
)
def test_an_error_survives_copying(kind: type[Error], copied: object) -> None:
    error = kind("text `x`", code="a-b", where="w:1", help="do it", excerpt="1 | x\n  | ^")
    error.extra = [1]  # type: ignore[attr-defined]

    other = copied(error)  # type: ignore[operator]

    assert type(other) is kind
    assert str(other) == str(error)
    assert vars(other) == vars(error)
    assert other is not error


def test_control_characters_are_shown_as_replacement() -> None:
    assert str(ConfigError("a\x1bb\ud800c", code="c")) == "c: a\ufffdb\ufffdc"


@pytest.mark.parametrize(
    ("line", "column", "width", "expected"),
    [
        ("abc", 1, 1, "7 | abc\n  | ^"),
        ("abc", 2, 2, "7 | abc\n  |  ^^"),
        ("abc", 2, 99, "7 | abc\n  |  ^^"),
        ("abc", 4, 1, "7 | abc\n  |    ^"),
        ("abc", 2, 0, "7 | abc\n  |  ^"),
        ("", 1, 1, "7 |\n  | ^"),
        ("\tabc", 2, 3, "7 | \tabc\n  | \t^^^"),
        ("名前x", 3, 1, "7 | 名前x\n  |     ^"),
        ("e\u0301x", 3, 1, "7 | e\u0301x\n  |  ^"),
    ],
)
def test_carets_stand_below_what_is_meant(line: str, column: int, width: int, expected: str) -> None:
    assert excerpt(line, 7, column, width) == expected


def test_the_margin_is_as_wide_as_the_line_number() -> None:
    assert excerpt("x", 1234, 1) == "1234 | x\n     | ^"


@pytest.mark.parametrize("column", [1, 50, 500, 990, 1000])
def test_a_long_line_is_cut_to_a_window_around_the_caret(column: int) -> None:
    line = "".join(chr(ord("a") + i % 26) for i in range(1000))

    source, carets = excerpt(line, 1, column).split("\n")

    assert len(source) < 120
    assert source[carets.index("^")] == line[column - 1]


def test_a_source_counts_lines_and_columns_from_one() -> None:
    source = Source("ab\ncd\n\nx", "f")

    assert [source.position(offset) for offset in (0, 1, 3, 4, 6, 7)] == [
        (1, 1),
        (1, 2),
        (2, 1),
        (2, 2),
        (3, 1),
        (4, 1),
    ]


def test_a_source_may_start_anywhere_in_its_file() -> None:
    source = Source("ab\ncd", "f", line=10, column=5)

    assert source.position(1) == (10, 6)
    assert source.position(4) == (11, 2)


def test_an_inner_source_tells_places_in_the_outer_one() -> None:
    outer = Source('key = "a\\tb"', "f.toml")
    inner = Source("a\tb", outer=outer, offsets=(7, 8, 10, 11))

    assert Span(inner, 2, 3).where_column == "f.toml:1:11"
    assert Span(inner, 1, 2).excerpt == '1 | key = "a\\tb"\n  |         ^'
    assert Span(inner, 0, 3).excerpt.endswith("^^^^")


def test_a_span_without_a_file_is_in_an_expression() -> None:
    assert Span(Source("a"), 0, 1).where == "expression:1"
    assert Span(Source("a"), 0, 1).where_column == "expression:1:1"


def test_a_span_makes_an_error() -> None:
    error = Span(Source("a b", "f"), 2, 3).error("c-d", "wrong", "do", with_column=True)

    assert (error.code, error.where, error.message, error.help) == ("c-d", "f:1:3", "wrong", "do")


@pytest.mark.parametrize(
    ("name", "candidates", "expected"),
    [
        ("batching_timeot", ["batching_timeout", "max", "backend"], ["batching_timeout"]),
        ("MODEL", ["model", "mode"], ["model"]),
        ("xyz", ["model"], []),
        ("a", [], []),
    ],
)
def test_the_nearest_name_is_found(name: str, candidates: list[str], expected: list[str]) -> None:
    assert nearest(name, candidates) == expected


def test_a_very_long_name_is_compared_quickly() -> None:
    assert nearest("x" * 1_000_000, ["model"]) == []


def test_a_suggestion_is_a_question() -> None:
    assert did_you_mean("modl", ["model"]) == "did you mean `model`?"
    assert did_you_mean("zzz", ["model"], otherwise="look it up") == "look it up"


def test_names_are_quoted_and_cut() -> None:
    assert quoted(["a", "b"]) == "`a`, `b`"
    assert quoted("abcdef", limit=2) == "`a`, `b`, ..."
