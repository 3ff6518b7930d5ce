"""Macros: what `hami.alias` accepts, and where arguments and children of a macro go."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from hami.errors import ConfigError
from hami.parser import ALIASES, MAX_NESTING, Expr, alias, macro_names, parse
from hami.parser.aliases import FAMILY_MACROS
from hami.parser.expand import Expansion
from hami.parser.render import to_text


def expand(text: str, **values: Any) -> Expr:
    return Expansion("n", values).expand(parse(text))


def expanded(text: str) -> str:
    return to_text(expand(text))


def given(expr: Expr, name: str) -> dict[str | None, Any]:
    """Return the keywords handed down to a backend, the first of a name wins."""
    [part] = [part for part in expr.walk() if part.name == name]
    found: dict[str | None, Any] = {}
    for argument in part.given:
        found.setdefault(argument.name, argument.value.value)
    return found


def refusal(name: Any, definition: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        alias(name, definition)
    return caught.value


def define_in(module: str, name: str, definition: str) -> None:
    """Define a macro as code of another module would."""
    exec(f"alias({name!r}, {definition!r})", {"__name__": module, "alias": alias})


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        ("A", "A[X]"),
        ("A[B]", "A[B[X]]"),
        ("A[B,C]", "A[B, C[X]]"),
        ("A[B,C[D]]", "A[B, C[D[X]]]"),
        ("A[B[C],D]", "A[B[C], D[X]]"),
        ("A(1)[B(2)]", "A(1)[B(2)[X]]"),
        ("IoC[A;B]", "IoC[A; B[X]]"),
    ],
)
def test_the_last_innermost_backend_gets_the_children(definition: str, expected: str) -> None:
    alias("Z", definition)

    assert expanded("Z[X]") == expected


def test_a_macro_without_children_is_its_definition() -> None:
    alias("Z", "A[B, C[D]]")

    assert expanded("S[Z, Z]") == "S[A[B, C[D]], A[B, C[D]]]"


def test_all_children_go_to_the_innermost() -> None:
    alias("Z", "A[B]")

    assert expanded("Z[X, Y(1)[W]]") == "A[B[X, Y(1)[W]]]"


def test_macros_may_use_each_other_in_any_order_of_definition() -> None:
    alias("Y", "A[Z]")
    alias("Z", "B[C]")

    assert expanded("Y[X]") == "A[B[C[X]]]"


def test_a_macro_may_be_the_child_of_itself() -> None:
    alias("Z", "A[B]")

    assert expanded("Z[Z[X]]") == "A[B[A[B[X]]]]"


def test_a_macro_may_hold_old_spellings_and_reflect() -> None:
    alias("Z", "Sequential[Reflect[p, D], E]")

    assert to_text(expand("Z", p="P")) == "S[P, E]"


def test_a_macro_for_ioc_takes_phases() -> None:
    alias("Z", "IoC")

    assert expanded("Z[A;B]") == "IoC[A; B]"


def test_a_macro_for_something_else_refuses_phases() -> None:
    alias("Z", "S")

    with pytest.raises(ConfigError, match="only `IoC` has phases"):
        expand("Z[A;B]")


def test_positional_arguments_go_to_the_outermost_backend() -> None:
    alias("Z", "A(1, k=2)[B]")

    assert expanded("Z(3)[X]") == "A(1, 3, k=2)[B[X]]"


def test_keywords_of_the_definition_are_handed_to_all_its_backends() -> None:
    alias("Z", "A[B,C[D]]", max=4)

    expr = expand("Z[X]")

    assert [given(expr, name) for name in "ABCD"] == [{"max": 4}] * 4
    assert given(expr, "X") == {}


def test_keywords_of_the_use_win_over_the_definition() -> None:
    alias("Z", "A[B]", max=4, min=2)

    assert given(expand("Z(max=8)"), "B") == {"max": 8, "min": 2}


def test_the_inner_macro_wins_over_the_outer() -> None:
    alias("Y", "A", max=1)
    alias("Z", "S[Y, B]", max=2, min=3)

    expr = expand("Z")

    assert given(expr, "A") == {"max": 1, "min": 3}
    assert given(expr, "B") == {"max": 2, "min": 3}


def test_a_prefix_on_a_macro_goes_to_the_outermost_backend() -> None:
    alias("Z", "A[B]")

    assert expanded("L[(or)Z]") == "L[(or)A[B]]"


def test_a_macro_is_known_by_its_name_in_phase_2() -> None:
    alias("Z", "A[B]")

    expr = expand("IoC[Z; Forward[Z]]")

    assert [part.kind for part in expr.walk() if part.name == "A"] == ["create", "bound"]


def test_a_backend_from_a_macro_stands_where_the_macro_is_used() -> None:
    alias("Z", "A[B]")

    [use] = [part for part in expand("S[X,\n Z]").walk() if part.name == "B"]

    assert use.span is not None
    assert use.span.where_column == "expression:2:2"


@pytest.mark.parametrize("definition", ["Reflect[p]", "S[A, Reflect[p]]", "Forward[x]", "S[BackendProxy]"])
def test_a_macro_that_ends_in_a_name_takes_no_children(definition: str) -> None:
    alias("Z", definition)

    with pytest.raises(ConfigError) as caught:
        expand("Z[X]", backend="A")
    assert caught.value.code == "expand-macro-children"


@pytest.mark.parametrize("definition", ["Z", "A[Z]", "S[A, B[Z]]"])
def test_a_macro_cannot_contain_itself(definition: str) -> None:
    assert "leads back to itself" in refusal("Z", definition).message


def test_macros_cannot_contain_each_other() -> None:
    alias("A1", "S[A2]")
    alias("A2", "S[A3]")

    assert "leads back to itself" in refusal("A3", "S[A1]").message
    assert set(macro_names()) - set(FAMILY_MACROS) == {"A1", "A2"}


@pytest.mark.parametrize("name", FAMILY_MACROS)
def test_a_short_form_of_the_family_is_there_and_stays(name: str) -> None:
    assert name in macro_names()
    assert expand(name, post_processor="A", model="m.onnx")
    assert "is a name of the language" in refusal(name, "A").message


@pytest.mark.parametrize("name", ["", "1A", "a b", "A[B]", "{x}", "a-b", None, 3])
def test_a_macro_needs_a_name(name: object) -> None:
    assert refusal(name, "A").code == "alias-refused"


@pytest.mark.parametrize(
    "name", [*ALIASES, "IoC", "S", "Reflect", "Forward", "InstanceFromParam", "BackendProxy"]
)
def test_a_macro_cannot_take_a_name_of_the_language(name: str) -> None:
    assert "name of the language" in refusal(name, "A").message


def test_a_definition_must_be_an_expression() -> None:
    assert refusal("Z", "A[B").code == "parse-unclosed-bracket"
    assert refusal("Z", "A[B").where == "alias Z:1:2"
    assert refusal("Z", 3).code == "alias-refused"


def test_the_defining_module_may_define_anew() -> None:
    alias("Z", "A")
    alias("Z", "B")

    assert expanded("Z") == "B"


def test_another_module_may_repeat_a_definition_and_not_change_it() -> None:
    define_in("one", "Z", "A[ B ]")
    define_in("two", "Z", "A[B]")

    with pytest.raises(ConfigError, match="is already `A\\[ B \\]` \\(by `one`\\)"):
        define_in("three", "Z", "C")


def test_a_refused_definition_changes_nothing() -> None:
    alias("Z", "A")
    refusal("Z", "Z[B]")

    assert expanded("Z") == "A"


def test_macros_that_grow_without_bound_are_refused() -> None:
    alias("M0", "S[A, A]")
    for level in range(1, 40):
        alias(f"M{level}", f"S[M{level - 1}, M{level - 1}]")

    with pytest.raises(ConfigError) as caught:
        expand("M39")
    assert caught.value.code == "expand-too-large"


def test_macros_that_nest_too_deeply_are_refused() -> None:
    alias("D0", "S[" * 50 + "A" + "]" * 50)
    for level in range(1, 30):
        alias(f"D{level}", f"D{level - 1}[D0]")

    with pytest.raises(ConfigError) as caught:
        expand("D29")
    assert caught.value.code == "expand-too-large"
    assert str(MAX_NESTING) in caught.value.message


def test_macros_may_be_defined_and_used_by_many_threads() -> None:
    failures: list[BaseException] = []

    def define(number: int) -> None:
        try:
            for step in range(50):
                alias(f"T{number}", f"A{step}[B]")
                assert to_text(expand(f"T{number}[X]")) == f"A{step}[B[X]]"
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=define, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
