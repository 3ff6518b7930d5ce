"""Argument values: quoted strings, numbers, true and false, bare text, placeholders."""

from __future__ import annotations

import math
from typing import Any

import pytest

from hami.errors import ConfigError
from hami.parser import Value, parse


def value_of(text: str) -> Value:
    """Return the value of the only argument."""
    [argument] = parse(f"A(k={text})").args
    [positional] = parse(f"A({text})").args
    assert positional.value == argument.value
    return argument.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("-3", -3),
        ("+7", 7),
        ("007", 7),
        ("1.5", 1.5),
        (".5", 0.5),
        ("2.", 2.0),
        ("1e3", 1000.0),
        ("-1.5E-3", -0.0015),
        ("9" * 300, int("9" * 300)),
    ],
)
def test_numbers(text: str, value: float) -> None:
    found = value_of(text)

    assert (found.kind, found.value, type(found.value)) == ("number", value, type(value))


@pytest.mark.parametrize(
    "text", ["1x3x224x224", "1.2.3", "1e", "0x10", "1_000", "--1", "nan", "inf", "9" * 5000, "٣"]
)
def test_what_only_looks_like_a_number_is_text(text: str) -> None:
    assert (value_of(text).kind, value_of(text).value) == ("text", text)


def test_a_number_beyond_floats_is_infinite() -> None:
    assert value_of("1e999").value == math.inf


@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False)])
def test_true_and_false(text: str, value: bool) -> None:
    assert (value_of(text).kind, value_of(text).value) == ("bool", value)


@pytest.mark.parametrize("text", ["True", "yes", "truer", "on"])
def test_other_words_for_truth_are_text(text: str) -> None:
    assert value_of(text).kind == "text"


@pytest.mark.parametrize(
    "text",
    [
        "models/det.onnx",
        "C:\\models\\det.onnx",
        "1x3x224x224;4x3x224x224",
        "a b  c",
        "http://host:80/x?y&z",
        "f(a,b)",
        "[1,2,[3,4]]",
        "f(a=b,c)[d,e](g)",
        "x (y, z) w",
        '["a,b", "c]"]',
        "f(')')",
        "de3{}",
        "{",
        "}{",
        "{1,2}",
        '{"a": 1, "b": ","}',
        "a{b c}d",
        "*",
        "a;b",
        "größe",
        "-",
        "%",
        "()",
        "[]",
    ],
)
def test_bare_text_is_kept_as_it_stands(text: str) -> None:
    assert (value_of(text).kind, value_of(text).value) == ("text", text)


def test_space_around_bare_text_does_not_belong_to_it() -> None:
    assert value_of("  a b \n").value == "a b"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('"a,b=(c"', "a,b=(c"),
        ("'it is \"quoted\"'", 'it is "quoted"'),
        (r'"a\"b"', 'a"b'),
        (r"'it\'s'", "it's"),
        (r'"\n\t\r\\\/\0"', "\n\t\r\\/\0"),
        (r'"\x41\u00e9\U0001F600"', "Aé😀"),
        ('""', ""),
        ("''", ""),
        ('"two\nlines"', "two\nlines"),
        ('" # no comment"', " # no comment"),
        ('"{name}"', "{name}"),
        ('"3"', "3"),
        ('"true"', "true"),
    ],
)
def test_quoted_strings(text: str, value: str) -> None:
    assert (value_of(text).kind, value_of(text).value) == ("string", value)


@pytest.mark.parametrize(
    ("text", "shown", "column"),
    [
        (r'"\q"', r"\q", 4),
        (r'"ab\u12"', r"\u", 6),
        (r'"\ud800"', r"\ud800", 4),
        (r'"\U00110000"', r"\U00110000", 4),
    ],
)
def test_a_wrong_escape_is_pointed_at(text: str, shown: str, column: int) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(f"A({text})")

    assert caught.value.code == "parse-bad-escape"
    assert caught.value.where == f"expression:1:{column}"
    assert f"`{shown}`" in caught.value.message


@pytest.mark.parametrize("name", ["x", "node_name", "größe", "_x1"])
def test_braces_around_an_identifier_are_a_placeholder(name: str) -> None:
    assert (value_of(f"{{{name}}}").kind, value_of(f"{{{name}}}").value) == ("placeholder", name)


@pytest.mark.parametrize("text", ["{}", "{1}", "{a b}", "{a-b}", "{ a }", "{{a}"])
def test_braces_around_anything_else_are_text(text: str) -> None:
    assert value_of(text).kind == "text"


def test_a_placeholder_inside_a_longer_text_is_left_to_expansion() -> None:
    assert (value_of("models/{name}.onnx").kind, value_of("models/{name}.onnx").value) == (
        "text",
        "models/{name}.onnx",
    )


@pytest.mark.parametrize("key", ["k", "long_name", "_k", "a.b", "A::max", "k-1", "schlüssel"])
def test_keywords(key: str) -> None:
    assert parse(f"A({key} = 1)").args[0].name == key


def test_several_arguments() -> None:
    args = parse("A(1, two, 'three', k=4, l=[5,6])").args
    found: list[tuple[str | None, Any]] = [(argument.name, argument.value.value) for argument in args]

    assert found == [(None, 1), (None, "two"), (None, "three"), ("k", 4), ("l", "[5,6]")]


def test_a_number_and_a_text_that_looks_like_it_differ() -> None:
    assert parse("A(1)") != parse('A("1")')
    assert parse("A(true)") != parse("A(1)")
