"""Every way in which a text can be wrong: the code, the place, the caret, what was expected, and the help."""

from __future__ import annotations

import pytest

from hami.errors import ConfigError
from hami.parser import parse


def error_of(text: str, **place: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse(text, **place)  # type: ignore[arg-type]
    return caught.value


def underlined(error: ConfigError) -> str:
    """Return the characters above the carets."""
    source, carets = error.excerpt.split("\n")
    first, last = carets.index("^"), carets.rindex("^")
    return source[first : last + 1]


# text, code, line:column, what the carets underline, a part of the message
ERRORS = {
    "an empty text": ("", "parse-empty", "1:1", "", "empty text"),
    "only space": (" \n ", "parse-empty", "1:1", " ", "empty text"),
    "only a comment": ("# nothing", "parse-empty", "1:1", "#", "empty text"),
    "an unclosed bracket": ("A[B, C", "parse-unclosed-bracket", "1:2", "[", "before the end of the text"),
    "the innermost unclosed bracket": ("A[B[C", "parse-unclosed-bracket", "1:4", "[", "before the end"),
    "an unclosed bracket lines above": (
        "A[\n B,\n C",
        "parse-unclosed-bracket",
        "1:2",
        "[",
        "before the end",
    ),
    "an unclosed parenthesis": ("A(x", "parse-unclosed-bracket", "1:2", "(", "before the end of the text"),
    "an unclosed bracket in a value": ("A(x=f[1)", "parse-unclosed-bracket", "1:6", "[", "before `)`"),
    "the wrong closing bracket": ("A[B)", "parse-unclosed-bracket", "1:2", "[", "before `)`"),
    "the wrong closing parenthesis": ("A(x]", "parse-unclosed-bracket", "1:2", "(", "before `]`"),
    "a closing bracket too many": ("A[B]]", "parse-unopened-bracket", "1:5", "]", "closes nothing"),
    "a closing parenthesis alone": ("A)", "parse-unopened-bracket", "1:2", ")", "closes nothing"),
    "a name after brackets": ("A[B]C", "parse-after-end", "1:5", "C", "after the end of the expression: `C`"),
    "a name after a name": ("A B", "parse-after-end", "1:3", "B", "after the end"),
    "a word after arguments": ("A(x)foo", "parse-after-end", "1:5", "foo", "after the end"),
    "a dash in a name": ("A-B", "parse-after-end", "1:2", "-B", "after the end"),
    "two pairs of brackets": ("A[B][C]", "parse-after-end", "1:5", "[", "after the end"),
    "two pairs of parentheses": ("A(x)(y)", "parse-after-end", "1:5", "(", "after the end"),
    "arguments after brackets": (
        "A[B](x)",
        "parse-arguments-after-brackets",
        "1:5",
        "(",
        "before the brackets",
    ),
    "the same inside": ("S[A[B](x)]", "parse-arguments-after-brackets", "1:7", "(", "before the brackets"),
    "empty brackets": ("A[]", "parse-empty-brackets", "1:2", "[]", "nothing inside"),
    "brackets with a space": ("A[ ]", "parse-empty-brackets", "1:2", "[ ]", "nothing inside"),
    "no comma between items": ("A[B C]", "parse-missing-comma", "1:5", "C", "expected"),
    "no comma after brackets": ("S[A[B]C]", "parse-missing-comma", "1:7", "C", "`,`"),
    "no comma between values": ("A('x' y)", "parse-unexpected", "1:7", "y", "expected"),
    "a leading comma": ("A[,B]", "parse-missing-backend", "1:3", ",", "expected a backend's name"),
    "two commas": ("A[B,,C]", "parse-missing-backend", "1:5", ",", "expected a backend's name"),
    "an empty second phase": ("IoC[A;]", "parse-missing-backend", "1:7", "]", "expected a backend's name"),
    "an empty first phase": ("IoC[;A]", "parse-missing-backend", "1:5", ";", "expected a backend's name"),
    "only a comma": (",", "parse-missing-backend", "1:1", ",", "expected a backend's name"),
    "a comma as the only argument": ("A(,)", "parse-missing-value", "1:3", ",", "expected a value"),
    "a trailing comma in arguments": ("A(x,)", "parse-missing-value", "1:5", ")", "expected a value"),
    "a keyword without a value": ("A(k=)", "parse-missing-value", "1:5", ")", "expected a value"),
    "a value without a keyword": ("A(=1)", "parse-unexpected-equals", "1:3", "=", "expected a value"),
    "two equals signs": ("A(a=b=c)", "parse-unexpected-equals", "1:6", "=", "unexpected `=`"),
    "an equals sign outside": ("A=1", "parse-unexpected-equals", "1:2", "=", "unexpected `=`"),
    "several expressions": ("A, B", "parse-several-expressions", "1:4", "B", "got 2"),
    "two phases outside": ("A; B", "parse-several-expressions", "1:4", "B", "got 2"),
    "a positional after a keyword": (
        "A(k=1, x)",
        "parse-positional-after-keyword",
        "1:8",
        "x",
        "after a keyword",
    ),
    "the same in a prefix": ("(k=1, x)A", "parse-positional-after-keyword", "1:7", "x", "after a keyword"),
    "a keyword twice": ("A(k=1, k=2)", "parse-duplicate-keyword", "1:8", "k", "`k` is given twice"),
    "an unclosed quote": ('A("x, y)', "parse-unclosed-quote", "1:3", '"', "never closed"),
    "an apostrophe": ("A(it's)", "parse-unclosed-quote", "1:5", "'", "never closed"),
    "a quote after text": ("A(x'y')", "parse-unexpected-quote", "1:4", "'", "a whole value"),
    "a quote outside": ("A['B']", "parse-unexpected-quote", "1:3", "'", "a whole value"),
    "an empty prefix": ("()A", "parse-empty-prefix", "1:1", "()", "nothing inside"),
    "a prefix of nothing": ("(or)", "parse-unexpected-end", "1:5", "", "expected a backend's name"),
    "two prefixes": ("(or)(or)A", "parse-unexpected", "1:5", "(", "expected a backend's name"),
    "a digit first": ("1A", "parse-unexpected", "1:1", "1A", "expected a backend's name"),
    "a bracket first": ("[A]", "parse-unexpected", "1:1", "[", "expected a backend's name"),
    "a name that ends in a dot": ("A[node.]", "parse-unexpected", "1:7", ".", "unexpected `.`"),
    "a phase outside IoC": ("S[A;B]", "parse-phases", "1:1", "S", "only `IoC` has phases"),
    "a phase outside IoC inside": ("IoC[A;S[B;C]]", "parse-phases", "1:7", "S", "only `IoC` has phases"),
}


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_an_error_says_what_and_where(case: tuple[str, str, str, str, str]) -> None:
    text, code, place, carets, message = case

    error = error_of(text)

    assert error.code == code
    assert error.where == f"expression:{place}"
    assert underlined(error).strip() == carets.strip()
    assert message in error.message
    assert error.help
    assert str(error) == f"{error.where}: {code}: {error.message}\n{error.excerpt}\nhelp: {error.help}"


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_an_error_is_a_value_error_of_hami(case: tuple[str, str, str, str, str]) -> None:
    with pytest.raises(ValueError, match=case[1]):
        parse(case[0])


def test_the_place_counts_from_the_start_of_the_text_in_its_file() -> None:
    error = error_of("A[B,\n C D]", file="p.toml", line=7, column=20)

    assert error.where == "p.toml:8:4"
    assert error.excerpt == "8 |  C D]\n  |    ^"


def test_the_first_line_is_shifted_by_its_column() -> None:
    error = error_of("A B", file="p.toml", line=7, column=20)

    assert error.where == "p.toml:7:22"
    assert error.excerpt == "7 | A B\n  |   ^"


def test_only_the_line_in_question_is_shown() -> None:
    error = error_of("S[\n A,\n B C,\n D]")

    assert error.excerpt == "3 |  B C,\n  |    ^"


def test_a_help_shows_how_to_write_it() -> None:
    assert error_of("A[B](x)").help == "write `A(x)[B]` instead of `A[B](x)`"
    assert error_of("A[B").help == "add `]`"
    assert error_of("A(B").help == "add `)`"


def test_expected_choices_are_named() -> None:
    assert error_of("A[B C]").message == "unexpected `C`, expected `(` or `[` or `,` or `]`"
    assert error_of("A(k=)").message == "unexpected `)`, expected a value"


def test_a_long_line_is_cut_around_the_caret() -> None:
    error = error_of("S[" + "A, " * 100 + "B C" + ", D" * 100 + "]")
    source, carets = error.excerpt.split("\n")

    assert len(source) < 120
    assert source[carets.index("^")] == "C"
    assert "…" in source


def test_the_caret_stands_below_wide_characters() -> None:
    error = error_of("A(名前, x=1, x=2)")
    carets = error.excerpt.split("\n")[1]

    assert carets.index("^") == len("1 | A(....., x=1, ") - 1


def test_tabs_stay_tabs_above_and_below() -> None:
    error = error_of("\tA\tB")

    assert error.excerpt == "1 | \tA\tB\n  | \t \t^"


def test_control_characters_are_not_printed() -> None:
    assert "\x1b" not in str(error_of("A \x1b[31m"))
    assert "\0" not in str(error_of("A(\0 b\0') \0"))
