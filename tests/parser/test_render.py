"""Expr -> text and tree."""

from __future__ import annotations

import pytest
from family_texts import TEXTS

from hami.parser import Argument, Expr, Value, parse
from hami.parser.expand import Expansion
from hami.parser.render import to_text, to_tree


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_texts_of_the_family_survive_a_round_trip(text: str) -> None:
    expr = parse(text)

    assert parse(to_text(expr)) == expr
    assert to_text(parse(to_text(expr))) == to_text(expr)


@pytest.mark.parametrize(
    "text",
    [
        "A",
        "A(x, k=v)[B, C[D]; E]".replace("A", "IoC"),
        "(or)A",
        "(filter=run)A(1)[(.onnx)B]",
        'A("quoted \\"text\\"\\n\\t\\\\", k="")',
        "A(1, -2.5, 1e3, true, false, {p}, a{p}b, de3{})",
        "A(f(a,b)[c=d], {1,2})",
        "node.{node_name}",
        "A('it\\'s', \"\\0\")",
        "A(a b  c)",
        "(a,#b)A(#fff,#000, x,k=#abc)",
    ],
)
def test_text_survives_a_round_trip(text: str) -> None:
    assert parse(to_text(parse(text))) == parse(text)


def test_text_is_normalised() -> None:
    assert to_text(parse("IoC( x,k = 'v' )[ A ,\n B ; C ]")) == 'IoC(x, k="v")[A, B; C]'


def test_values_of_parameters_are_shown_as_json() -> None:
    def shown(value: object) -> str:
        return to_text(Expr("A", (Argument("k", Value("object", value)),)))

    assert shown([1, "x", None]) == 'A(k=[1, "x", null])'
    assert shown("a b") == 'A(k="a b")'
    assert shown({1, 2}) == "A(k={1, 2})"
    assert len(shown("x" * 50 and list(range(1000)))) < 80


def test_a_tree_has_one_line_for_each_backend() -> None:
    assert (
        to_tree(parse("A(1)[B, C[D, E], (or)F]"))
        == """\
A(1)
├─ B
├─ C
│  ├─ D
│  └─ E
└─ (or)F"""
    )


def test_a_tree_shows_phases_and_what_is_bound() -> None:
    expr = Expansion("n").expand(parse("IoC[A[X], B; S[A, Forward[other]]]"))

    assert (
        to_tree(expr)
        == """\
IoC
├─ 1: A
│     └─ X
├─ 1: B
└─ 2: S
      ├─ A (from phase 1)
      └─ Forward
         └─ other (instance)"""
    )
