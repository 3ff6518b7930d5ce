"""Any text gives an Expr or a ConfigError, and every Expr survives a round trip.

HAMI_FUZZ_EXAMPLES is the number of texts, ten thousand by default. A part of them is any Unicode text, a part
is drawn from the characters that matter to the grammar, and a part are correct texts with a few changes.
"""

from __future__ import annotations

import os
import random
import re
from collections.abc import Sequence

import pytest
from family_texts import TEXTS
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from hami.errors import ConfigError
from hami.parser import parse
from hami.parser.expand import Expansion
from hami.parser.render import to_text, to_tree

NUM_TEXTS = int(os.environ.get("HAMI_FUZZ_EXAMPLES", "10000"))
TEXTS_PER_SEED = 20

fuzz = settings(
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
    max_examples=max(NUM_TEXTS // 5, 1),
)
fuzz_seeds = settings(fuzz, max_examples=max(NUM_TEXTS * 3 // 5 // TEXTS_PER_SEED, 1))

PIECES = [
    *"()[]{},;=\"'#\\ \n\t.:-+/*<>|_~$",
    *[
        "A",
        "B",
        "IoC",
        "IoCV0",
        "S",
        "Reflect",
        "Forward",
        "DI",
        "node.",
        "::",
        "x",
        "k=",
        "1",
        "2.5",
        "true",
        "名",
    ],
    *[
        "{p}",
        "{node_name}",
        "(or)",
        "(.onnx)",
        '"q"',
        "'q'",
        "\\n",
        "\\u00e9",
        "# c\n",
        "a b",
        "\x00",
        "\u2028",
        "\ufeff",
    ],
]
WORDS = [
    "A",
    "B",
    "S",
    "IoC",
    "DI",
    "Forward",
    "Reflect",
    "ns::A",
    "node.{node_name}",
    "Batching",
    "{kind}Tensor",
]
VALUES = [
    "1",
    "-2.5",
    "true",
    "x",
    "a b",
    "'q,'",
    '"\\""',
    "f(a,[b])",
    "{p}",
    "m-{p}.onnx",
    "de3{}",
    "1x3;2",
    "{1,2}",
    "k",
]


SEPARATORS = (", ", ",", " ,\n", "; ")


def grow(random_: random.Random, levels: int, separators: Sequence[str] = SEPARATORS) -> str:
    """Return an expression, correct as far as phases are."""
    text = random_.choice(WORDS)
    if random_.random() < 0.2:
        text = random_.choice(["(or)", "(.onnx)", "(filter=run)"]) + text
    if random_.random() < 0.4:
        values = [random_.choice(VALUES) for _ in range(random_.randint(1, 3))]
        values += [f"k{i}={random_.choice(VALUES)}" for i in range(random_.randint(0, 2))]
        text += f"({random_.choice([', ', ',']).join(values)})"
    if levels and random_.random() < 0.7:
        children = [grow(random_, levels - 1, separators) for _ in range(random_.randint(1, 3))]
        text += f"[{random_.choice(separators).join(children)}]"
    return text


def change(random_: random.Random, text: str) -> str:
    """Return the text with a few pieces inserted, removed, replaced, doubled or moved."""
    for _ in range(random_.randint(0, 4)):
        start, end = sorted(random_.randint(0, len(text)) for _ in range(2))
        end = min(end, start + random_.choice([1, 1, 2, 8, 1000]))
        piece = random_.choice([random_.choice(PIECES), text[start:end], ""])
        at = random_.choice([start, end])
        text = text[:at] + piece + text[end:]
    return text


def check(text: str) -> None:
    """Check the law for one text."""
    note(f"text: {text!r}")
    try:
        expr = parse(text)
    except ConfigError as error:
        check_error(error)
        return
    assert parse(to_text(expr)) == expr
    values = {"p": "P[Q]", "kind": "Fix", "backend": "X", "node_name": "n", "x": 1}
    try:
        expanded = Expansion("n", values, where="n").expand(expr)
    except ConfigError as error:
        check_error(error)
        return
    assert to_tree(expanded)


def check_error(error: ConfigError) -> None:
    """Check that an error has everything that a user needs, and can be printed."""
    assert re.fullmatch(r"(parse|expand)-[a-z-]+", error.code)
    assert error.where
    assert error.message
    assert error.help
    assert all(line.isprintable() or "\t" in line for line in str(error).split("\n"))
    if error.excerpt:
        source, carets = error.excerpt.split("\n")
        assert len(source) < 250
        assert re.fullmatch(r" *\| [ \t]*\^+", carets)


@pytest.mark.timeout(0)
@fuzz
@given(st.text())
def test_fuzz_any_text_gives_a_result_or_a_config_error(text: str) -> None:
    check(text)


@pytest.mark.timeout(0)
@fuzz
@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_fuzz_the_pieces_of_the_grammar_in_any_order(text: str) -> None:
    check(text)


@pytest.mark.timeout(0)
@fuzz_seeds
@given(st.integers(min_value=0, max_value=2**63))
def test_fuzz_correct_texts_with_changes(seed: int) -> None:
    random_ = random.Random(seed)
    family = list(TEXTS.values())
    for _ in range(TEXTS_PER_SEED):
        text = random_.choice(family) if random_.random() < 0.3 else grow(random_, 4)
        check(change(random_, text))


@pytest.mark.parametrize("seed", range(50))
def test_grown_texts_without_phases_are_correct(seed: int) -> None:
    random_ = random.Random(seed)

    assert parse(grow(random_, 4, [", "]))
