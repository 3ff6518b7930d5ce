"""Every form of the language, and the tree that it gives."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys

import pytest
from family_texts import MODEL_LOADING, TEXTS

from hami.errors import ConfigError
from hami.parser import MAX_NESTING, Argument, Expr, Value, parse


def names(expr: Expr) -> list[str]:
    return [part.name for part in expr.walk()]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_the_texts_of_the_family_are_accepted_as_they_stand(text: str) -> None:
    assert parse(text)


def test_a_name_alone_is_a_backend() -> None:
    assert parse("A") == Expr("A")


def test_brackets_hold_a_dependency() -> None:
    assert parse("A[B]") == Expr("A", phases=((Expr("B"),),))


def test_brackets_nest() -> None:
    assert names(parse("A[B[C[D]]]")) == ["A", "B", "C", "D"]


def test_one_class_may_stand_at_several_levels() -> None:
    assert names(parse("S[S[S[A]], S]")) == ["S", "S", "S", "A", "S"]


def test_a_list_keeps_its_order() -> None:
    expr = parse("A[B,C[D],E]")

    assert [child.name for child in expr.children] == ["B", "C", "E"]


def test_a_trailing_comma_is_allowed_in_a_list() -> None:
    assert parse("A[B,]") == parse("A[B]")


def test_a_trailing_comma_is_allowed_at_the_end_of_a_phase() -> None:
    assert parse("IoC[A,;B,]") == parse("IoC[A;B]")


def test_a_trailing_comma_is_allowed_at_the_end_of_the_text() -> None:
    assert parse("A,") == Expr("A")


def test_a_semicolon_separates_the_phases_of_ioc() -> None:
    expr = parse("IoC[A, B; F]")

    assert expr.phases == ((Expr("A"), Expr("B")), (Expr("F"),))
    assert expr.children == (Expr("A"), Expr("B"), Expr("F"))


@pytest.mark.parametrize("name", ["IoC", "IoCV0"])
def test_ioc_has_phases_by_any_of_its_spellings(name: str) -> None:
    assert len(parse(f"{name}[A;B]").phases) == 2


def test_a_semicolon_inside_a_name_with_a_placeholder_is_left_to_the_plan() -> None:
    assert len(parse("{kind}[A;B]").phases) == 2


def test_arguments_come_before_the_brackets() -> None:
    expr = parse("A(x, k=v)[B]")

    assert expr.args == (Argument(None, Value("text", "x")), Argument("k", Value("text", "v")))
    assert expr.children == (Expr("B"),)


def test_empty_parentheses_mean_no_arguments() -> None:
    assert parse("A()[B]") == parse("A[B]")


@pytest.mark.parametrize(
    ("text", "prefix"),
    [
        ("(.onnx)A", (Argument(None, Value("text", ".onnx")),)),
        ("(or)A", (Argument(None, Value("text", "or")),)),
        ("(filter=run)A", (Argument("filter", Value("text", "run")),)),
        ("(a, b=1)A", (Argument(None, Value("text", "a")), Argument("b", Value("number", 1)))),
    ],
)
def test_a_prefix_stands_before_an_item(text: str, prefix: tuple[Argument, ...]) -> None:
    assert parse(text).prefix == prefix
    assert parse(f"L[X, {text}]").children[1].prefix == prefix


def test_a_prefix_and_arguments_stand_together() -> None:
    expr = parse("(or)A(1)[B]")

    assert (len(expr.prefix), len(expr.args), len(expr.children)) == (1, 1, 1)


@pytest.mark.parametrize(
    "name",
    [
        "A",
        "_a",
        "A1",
        "ns::A",
        "a.b.c",
        "node.0",
        "a::b.c",
        "node.{node_name}",
        "{x}",
        "{x}_{y}",
        "A{x}B",
        "größe",
        "名前",
    ],
)
def test_names_have_parts_and_placeholders(name: str) -> None:
    assert parse(name).name == name
    assert parse(f"F[{name}]").children[0].name == name


def test_white_space_is_free_outside_quotes() -> None:
    assert parse(" A ( x , k = v ) \n\t[ B ;\r\n C ] ".replace("A ", "IoC ")) == parse("IoC(x,k=v)[B;C]")


@pytest.mark.parametrize(
    "text",
    [
        "A[B] # the end",
        "# first\nA[B]",
        "A # here\n[B]",
        "A[\n# a line\nB\n# and another\n]",
        "A[B\t#\n]",
        "A[B]\n#",
    ],
)
def test_a_comment_begins_at_the_start_of_a_line_or_after_space(text: str) -> None:
    assert parse(text) == parse("A[B]")


def test_a_hash_inside_a_word_is_no_comment() -> None:
    assert parse("A(#fff, a#b)").args == (
        Argument(None, Value("text", "#fff")),
        Argument(None, Value("text", "a#b")),
    )


def test_a_comment_may_hold_brackets_and_quotes() -> None:
    assert parse("A[B # ]]] \"'\n, C]") == parse("A[B, C]")


def test_a_comment_ends_an_argument() -> None:
    assert parse("A(a b # c, d)\n, e)") == parse("A(a b, e)")


def test_every_part_knows_its_place() -> None:
    expr = parse("A(x)[\n  B(k=1),\n  C]", file="p.toml", line=10, column=5)
    second = expr.children[1]
    keyword = expr.children[0].args[0]

    assert expr.span is not None and expr.span.where_column == "p.toml:10:5"
    assert second.span is not None and second.span.where_column == "p.toml:12:3"
    assert keyword.span is not None and keyword.span.where_column == "p.toml:11:5"
    assert keyword.value.span is not None and keyword.value.span.where_column == "p.toml:11:7"


def test_places_do_not_matter_for_equality() -> None:
    assert parse("A[B,C(1)]") == parse("A [ B , C ( 1 ) ]", file="other")
    assert hash(parse("A[B]")) == hash(parse("A[ B ]"))


def test_expressions_are_immutable() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        parse("A").name = "B"  # type: ignore[misc]


def test_expressions_can_be_pickled_and_copied() -> None:
    expr = parse(MODEL_LOADING)

    assert pickle.loads(pickle.dumps(expr)) == expr == copy.deepcopy(expr)


def test_an_expression_shows_its_text() -> None:
    assert str(parse("A( x )[B,C]")) == "A(x)[B, C]"
    assert repr(parse("A[B]")) == "Expr('A[B]')"


def test_the_greatest_nesting_is_accepted() -> None:
    text = "A[" * (MAX_NESTING - 1) + "A" + "]" * (MAX_NESTING - 1)

    expr = parse(text)

    assert len(names(expr)) == MAX_NESTING
    assert parse(str(expr)) == expr
    assert hash(expr)


@pytest.mark.parametrize("opener", ["A[", "A(x[", "A((", "[", "(", "A(x=[", "(a)B["])
def test_a_hundred_thousand_brackets_are_an_error_of_the_text(opener: str) -> None:
    with pytest.raises(ConfigError):
        parse(opener * 100_000)


@pytest.mark.parametrize("closers", ["", "]" * 100_000])
def test_too_much_nesting_says_so(closers: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse("A[" * 100_000 + "A" + closers)

    assert caught.value.code == "parse-nesting"
    assert str(MAX_NESTING) in caught.value.message


def test_nesting_is_limited_deep_inside_other_calls() -> None:
    def deeper(levels: int) -> Expr:
        return (
            deeper(levels - 1) if levels else parse("A[" * (MAX_NESTING - 1) + "A" + "]" * (MAX_NESTING - 1))
        )

    assert deeper((sys.getrecursionlimit() - 600) // 2)


def test_a_long_list_is_accepted() -> None:
    assert len(parse("S[" + "A(x=1)," * 5000 + "]").children) == 5000


@pytest.mark.parametrize("value", [None, 3, b"A", ["A"]])
def test_only_text_can_be_parsed(value: object) -> None:
    with pytest.raises(TypeError, match="an expression is a text"):
        parse(value)  # type: ignore[arg-type]
