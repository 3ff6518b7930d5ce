"""The scanner that finds keys and values in the text of a TOML file."""

from __future__ import annotations

import random
import sys
from typing import Any

import pytest

from hami.config.toml_positions import Position, find_positions

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def key_of(text: str, *path: str) -> str:
    position = find_positions(text)[path]
    return text[position.key_start : position.key_end]


def value_of(text: str, *path: str) -> str:
    position = find_positions(text)[path]
    return text[position.value_start : position.value_end]


@pytest.mark.parametrize(
    ("text", "path", "key", "value"),
    [
        ("a = 1", ("a",), "a", "1"),
        ("  a=1  # c", ("a",), "a", "1"),
        ("# a = 0\n\na = 1", ("a",), "a", "1"),
        ("[t]\na = 1", ("t", "a"), "a", "1"),
        ("[ t ] # c\na = 1", ("t", "a"), "a", "1"),
        ('["t x"]\n"a b" = 1', ("t x", "a b"), '"a b"', "1"),
        ("['t']\n'a' = 1", ("t", "a"), "'a'", "1"),
        ("t.a = 1", ("t", "a"), "t.a", "1"),
        ("t . a = 1\nt.b = 2", ("t", "b"), "t.b", "2"),
        ("t = {a = 1, b = 2}", ("t", "b"), "b", "2"),
        ("t = { a.b = 1 }", ("t", "a"), "a", "1"),
        ("a = [1, 2]", ("a",), "a", "[1, 2]"),
        ("a = [\n 1, # ]\n [2, ']'],\n]\nb = 3", ("a",), "a", "[\n 1, # ]\n [2, ']'],\n]"),
        ("a = [\n 1, # ]\n [2, ']'],\n]\nb = 3", ("b",), "b", "3"),
        ('a = [{x = "}"}]\nb = 3', ("b",), "b", "3"),
        ("[t]\na = {x = {y = [1]}}\nb = 1", ("t", "b"), "b", "1"),
        ("a = 1979-05-27 07:32:00", ("a",), "a", "1979-05-27 07:32:00"),
        ("[[l]]\na = 1\n[t]\nb = 2", ("t", "b"), "b", "2"),
        ("[t.u.v]\na = 1\n[w]\nb = 2", ("w", "b"), "b", "2"),
    ],
)
def test_keys_and_values_are_found(text: str, path: tuple[str, ...], key: str, value: str) -> None:
    assert key_of(text, *path) == key
    assert value_of(text, *path) == value


def test_the_header_of_a_table_is_its_key() -> None:
    text = "\n[decode]\na = 1\n[ x . y ]\n"

    assert key_of(text, "decode") == "decode"
    assert key_of(text, "x") == "x"


@pytest.mark.parametrize(
    ("literal", "starts"),
    [
        ('"ab"', [1, 2, 3]),
        ("'a\\b'", [1, 2, 3, 4]),
        (r'"a\tb"', [1, 2, 4, 5]),
        (r'"\u00e9\U0001F600x"', [1, 7, 17, 18]),
        (r'"\"\\"', [1, 3, 5]),
        ('"""a\nb"""', [3, 4, 5, 6]),
        ('"""\na"""', [4, 5]),
        ("'''\na'b'''", [4, 5, 6, 7]),
        ('"""a\\\n   \n  b"""', [3, 12, 13]),
        ('"""a""b"""', [3, 4, 5, 6, 7]),
        ('"""a"""""', [3, 4, 5, 6]),
        ("'''a''''", [3, 4, 5]),
        ('""', [1]),
        ('""""""', [3]),
    ],
)
def test_every_character_of_a_text_is_found(literal: str, starts: list[int]) -> None:
    text = f"k = {literal}\n"
    position = find_positions(text)[("k",)]

    assert position.text == tomllib.loads(text)["k"]
    assert [offset - 4 for offset in position.offsets] == starts
    assert text[position.value_start : position.value_end] == literal


# pieces from which whole files are drawn
SCALARS = [
    "1",
    "-2.5",
    "true",
    "inf",
    "2020-01-01",
    '"a"',
    "'b'",
    '"\\"]"',
    "'#'",
    '"""x\n"y" """',
    "'''\n]'''",
    '""',
]


def random_value(random_: random.Random, levels: int) -> str:
    kind = random_.random()
    if levels and kind < 0.2:
        items = [random_value(random_, levels - 1) for _ in range(random_.randint(0, 3))]
        return "[" + random_.choice([", ", ",\n # ]\n "]).join(items) + "]"
    if levels and kind < 0.4:
        return (
            "{"
            + ", ".join(f"k{i} = {random_inline(random_, levels - 1)}" for i in range(random_.randint(0, 3)))
            + "}"
        )
    return random_.choice(SCALARS)


def random_inline(random_: random.Random, levels: int) -> str:
    return random_value(random_, levels).replace("\n", " ").replace("#", "") if levels else "1"


def random_file(random_: random.Random) -> str:
    lines = []
    for table in range(random_.randint(0, 4)):
        if table:
            lines.append(
                random_.choice([f"[t{table}]", f"[ 't{table}' ] # c", f"[[l{table}]]", f"[t{table}.'x y'.z]"])
            )
        for key in range(random_.randint(0, 4)):
            name = random_.choice([f"k{key}", f'"k {key}"', f"d{key}.a", f"d{key} . 'b c'"])
            lines.append(random_.choice(["", "  "]) + f"{name} = {random_value(random_, 3)} # c")
        lines += random_.choice([[], [""], ["# [no]", "\t# k = 1"]])
    return "\n".join(lines)


def flat(data: dict[str, Any]) -> dict[tuple[str, ...], Any]:
    """Return all values down to two levels by path."""
    found: dict[tuple[str, ...], Any] = {}
    for key, value in data.items():
        found[(key,)] = value
        if isinstance(value, dict):
            found.update({(key, inner): inner_value for inner, inner_value in value.items()})
    return found


@pytest.mark.parametrize("seed", range(300))
def test_all_keys_of_a_random_file_are_found(seed: int) -> None:
    text = random_file(random.Random(seed))
    try:
        data = tomllib.loads(text)
    except ValueError:
        return
    positions = find_positions(text)

    for path, value in flat(data).items():
        position = positions[path]
        assert isinstance(position, Position)
        if isinstance(value, str):
            assert position.text == value
        if not isinstance(value, (dict, list)):
            assert (
                tomllib.loads("v = " + text[position.value_start : position.value_end])["v"] == value
                or value != value
            )
