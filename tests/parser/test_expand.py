"""What the short forms stand for: old spellings, placeholders, Reflect, instances by name, the phases of
IoC."""

from __future__ import annotations

from typing import Any

import pytest
from family_texts import (
    ASPECT_ALONE,
    MODEL_LOADING,
    NODE_BY_IOC,
    NODE_BY_LIST,
    NODE_BY_REFLECT,
    NODE_BY_SHARED_STATE,
)

from hami.errors import ConfigError, Source
from hami.parser import ALIASES, Expr, parse
from hami.parser.expand import Expansion, resolve_instances
from hami.parser.render import to_text


def expansion(**values: Any) -> Expansion:
    return Expansion("n", {**values, "node_name": "n"}, where="p.toml:1")


def expand(text: str, **values: Any) -> Expr:
    return expansion(**values).expand(parse(text))


def expanded(text: str, **values: Any) -> str:
    return to_text(expand(text, **values))


def kinds(expr: Expr, name: str) -> list[str]:
    return [part.kind for part in expr.walk() if part.name == name]


def error_of(text: str, **values: Any) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        expand(text, **values)
    return caught.value


# --- old spellings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "today"), [(old, today) for old, today in ALIASES.items() if today not in ("IoC", "Reflect")]
)
def test_an_old_spelling_becomes_todays_name(old: str, today: str) -> None:
    assert expand(f"{old}[X]").name == today


def test_no_spelling_leads_to_another_old_one() -> None:
    assert not set(ALIASES) & set(ALIASES.values())


def test_other_names_stay() -> None:
    assert expanded("Anything[Else(1), k.l]") == "Anything[Else(1), k.l]"


# --- placeholders ------------------------------------------------------------------------------------


def test_a_placeholder_in_a_name_becomes_part_of_it() -> None:
    assert expand("Forward[node.{node_name}]").children[0].name == "node.n"
    assert expand("{kind}Tensor", kind="Fix").name == "FixTensor"


def test_a_name_is_looked_up_after_its_placeholders_are_filled() -> None:
    assert expand("{kind}V0[A]", kind="Sequential").name == "S"


def test_a_placeholder_must_leave_a_name() -> None:
    error = error_of("{kind}", kind="A[B]")

    assert error.code == "expand-bad-name"
    assert "`A[B]`" in error.message


def test_a_whole_value_keeps_the_type_of_the_parameter() -> None:
    value = expand("A({sizes})", sizes=[1, 2]).args[0].value

    assert value.value == [1, 2]


def test_a_placeholder_inside_a_text_is_put_in() -> None:
    value = expand("A(models/{name}-{size}.onnx)", name="det", size=3).args[0].value

    assert value.value == "models/det-3.onnx"


def test_quoted_text_and_other_braces_stay() -> None:
    args = expand("A('{x}', de3{}, {1}, {a b})").args

    assert [argument.value.value for argument in args] == ["{x}", "de3{}", "{1}", "{a b}"]


def test_a_prefix_may_hold_a_placeholder() -> None:
    assert expand("L[(filter={how})A]", how="run").children[0].prefix[0].value.value == "run"


def test_an_unknown_placeholder_is_refused_with_the_nearest_name() -> None:
    error = error_of("A({modl})", model="m.onnx")

    assert error.code == "expand-unset-parameter"
    assert error.help == "did you mean `model`?"
    assert error.excerpt.endswith("^" * len("{modl}"))


# --- Reflect -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["Reflect[post]", "ProxyFromParam[post]", "Reflect[post, C]"])
def test_reflect_is_the_expression_in_a_parameter(form: str) -> None:
    assert expanded(f"S[A, {form}]", post="B[C]") == "S[A, B[C]]"


def test_reflect_without_the_parameter_is_its_default() -> None:
    assert expanded("S[Reflect[post, B(1)[C]]]") == "S[B(1)[C]]"


@pytest.mark.parametrize("form", ["Reflect[post]", "ProxyFromParam[post]"])
def test_reflect_without_parameter_and_default_is_identity(form: str) -> None:
    assert expanded(f"S[A, {form}]") == "S[A, Identity]"


def test_backend_proxy_is_the_backend() -> None:
    assert expanded("BackgroundThread[BackendProxy]", backend="S[A]") == "BackgroundThread[S[A]]"


def test_backend_proxy_needs_the_backend() -> None:
    error = error_of("BackendProxy")

    assert error.code == "expand-unset-parameter"
    assert "node `n` has no `backend`" in error.message


def test_a_reflected_expression_is_expanded_too() -> None:
    assert expanded("Reflect[a]", a="Sequential[Reflect[b], {kind}]", b="X", kind="Y") == "S[X, Y]"


def test_the_name_in_reflect_is_a_parameter_and_no_class() -> None:
    assert expanded("Reflect[Node]", Node="A") == "A"


def test_a_prefix_on_reflect_goes_to_the_expression() -> None:
    assert expanded("L[(or)Reflect[p]]", p="A") == "L[(or)A]"


@pytest.mark.parametrize("values", [{"a": "Reflect[a]"}, {"a": "S[Reflect[b]]", "b": "Reflect[a]"}])
def test_an_expression_that_contains_itself_is_refused(values: dict[str, Any]) -> None:
    assert error_of("Reflect[a]", **values).code == "expand-cycle"


def test_one_parameter_may_be_reflected_twice() -> None:
    assert expanded("S[Reflect[a], Reflect[a]]", a="X") == "S[X, X]"


@pytest.mark.parametrize("value", [3, None, ["A"], {"a": 1}])
def test_a_reflected_parameter_must_be_text(value: object) -> None:
    assert error_of("Reflect[a]", a=value).code == "expand-bad-expression"


@pytest.mark.parametrize(
    "text",
    [
        "Reflect",
        "Reflect(a)",
        "Reflect[a, B, C]",
        "Reflect[a(1)]",
        "Reflect[a[B]]",
        "Reflect(x)[a]",
        "BackendProxy[a]",
        "BackendProxy(x)",
        "InstanceFromParam",
        "InstanceFromParam[a, B]",
        "Forward",
        "Forward[a, b]",
        "Forward[a(1)]",
        "Forward[a[b]]",
    ],
)
def test_a_form_with_the_wrong_insides_is_refused(text: str) -> None:
    assert error_of(text, a="X", backend="X").code == "expand-bad-form"


def test_an_error_in_a_reflected_expression_points_into_its_own_text() -> None:
    run = Expansion("n", {"p": "A[B"}, {"p": Source("A[B", "p.toml", 7, 9)})

    with pytest.raises(ConfigError) as caught:
        run.expand(parse("S[Reflect[p]]"))

    assert caught.value.where == "p.toml:7:10"


def test_expansion_notes_what_it_read() -> None:
    run = expansion(a="X", b=1)
    run.expand(parse("S[Reflect[a], A({b}), Reflect[c], Forward[node.{node_name}]]"))

    assert run.reads == {"a", "b", "c", "node_name"}
    assert [name.name for name in run.unset] == ["c"]


# --- instances by name -------------------------------------------------------------------------------


def test_instance_from_param_names_an_instance() -> None:
    expr = expand("S[InstanceFromParam[dep]]", dep="node.a")

    assert kinds(expr, "node.a") == ["instance"]


def test_instance_from_param_needs_the_parameter() -> None:
    assert error_of("InstanceFromParam[dep]").code == "expand-unset-parameter"


@pytest.mark.parametrize("value", [3, "A[B]", "", "a b"])
def test_instance_from_param_needs_a_name(value: object) -> None:
    assert error_of("InstanceFromParam[dep]", dep=value).code == "expand-bad-name"


def test_forward_means_an_instance() -> None:
    assert kinds(expand("Forward[other]"), "other") == ["instance"]


def test_forward_takes_an_instance_from_a_parameter() -> None:
    assert kinds(expand("Forward[InstanceFromParam[dep]]", dep="x.0"), "x.0") == ["instance"]


def test_a_known_instance_is_found() -> None:
    expr = resolve_instances(expand("Forward[other]"), {"other"}, "w")

    assert kinds(expr, "other") == ["instance"]


def test_an_unknown_instance_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_instances(expand("Forward[node.clasify]"), {"node.classify"}, "w")

    assert caught.value.code == "expand-unknown-instance"
    assert caught.value.help == "did you mean `node.classify`?"


def test_without_any_instance_the_help_says_so() -> None:
    with pytest.raises(ConfigError, match="registers none"):
        resolve_instances(expand("Forward[x]"), set(), "w")


@pytest.mark.parametrize("name", ["DI", "DI_v0", "Aspect", "Block", "Proxy"])
def test_names_inside_di_may_be_instances(name: str) -> None:
    expr = resolve_instances(expand(f"{name}[A, known]"), {"known"}, "w")

    assert (kinds(expr, "A"), kinds(expr, "known")) == (["create"], ["instance"])


def test_a_name_elsewhere_is_always_a_class() -> None:
    expr = resolve_instances(expand("S[known]"), {"known"}, "w")

    assert kinds(expr, "known") == ["create"]


def test_something_with_arguments_is_always_made() -> None:
    expr = resolve_instances(expand("DI[known(1), known[X]]"), {"known"}, "w")

    assert kinds(expr, "known") == ["create", "create"]


# --- IoC ---------------------------------------------------------------------------------------------


def test_a_bare_name_in_phase_2_is_the_one_of_phase_1() -> None:
    assert kinds(expand("IoC[A, B; S[A, X]]"), "A") == ["create", "bound"]


def test_forward_in_phase_2_finds_phase_1() -> None:
    assert kinds(expand("IoC[A; Forward[A]]"), "A") == ["create", "bound"]


def test_names_bind_at_any_depth_of_phase_2() -> None:
    assert kinds(expand("IoC[A; S[X[Y[A]]]]"), "A") == ["create", "bound"]


def test_a_name_with_arguments_or_brackets_is_made_anew() -> None:
    assert kinds(expand("IoC[A; S[A(1), A[X]]]"), "A") == ["create", "create", "create"]


def test_a_name_in_phase_1_is_made_anew() -> None:
    assert kinds(expand("IoC[A, S[A]; X]"), "A") == ["create", "create"]


def test_di_in_phase_1_uses_what_was_made_before() -> None:
    assert kinds(expand("IoC[A, DI[B, A]; DI]"), "A") == ["create", "bound"]


def test_di_in_phase_1_cannot_use_what_is_made_later() -> None:
    error = error_of("IoC[DI[B, A], A; DI]")

    assert error.code == "expand-made-later"
    assert error.help == "write `A` before the item that uses it"


def test_a_phase_1_item_is_known_by_old_and_new_spelling() -> None:
    assert kinds(expand("IoC[Aspect[A]; Block]"), "DI") == ["create", "bound"]


def test_a_phase_1_item_is_known_by_its_written_name_and_its_class() -> None:
    expr = expand("IoC[BackendProxy; S[Forward[BackendProxy], A]]", backend="A")

    assert kinds(expr, "A") == ["create", "bound", "bound"]


def test_the_innermost_ioc_wins() -> None:
    expr = expand("IoC[A, B; IoC[A; S[A, B]]]")

    assert kinds(expr, "A") == ["create", "create", "bound"]
    assert kinds(expr, "B") == ["create", "bound"]


def test_phase_1_names_end_with_their_ioc() -> None:
    assert kinds(expand("S[IoC[A; A], A]"), "A") == ["create", "bound", "create"]


def test_what_phase_1_lacks_in_phase_2_may_be_an_instance() -> None:
    expr = resolve_instances(expand("IoC[A; S[known, B]]"), {"known"}, "w")

    assert (kinds(expr, "known"), kinds(expr, "B")) == (["instance"], ["create"])


def test_phase_1_wins_over_an_instance() -> None:
    expr = resolve_instances(expand("IoC[A; A]"), {"A"}, "w")

    assert kinds(expr, "A") == ["create", "bound"]


def test_two_items_of_one_class_are_refused() -> None:
    error = error_of("IoC[Aspect[A], X, Block[B]; X]")

    assert error.code == "expand-ioc-duplicate"
    assert "`DI`" in error.message
    assert error.excerpt.endswith("^" * len("Block"))


@pytest.mark.parametrize("text", ["IoC", "IoC[A]", "IoC[A,B]", "IoC[A;B;C]", "IoC[A;B,C]"])
def test_ioc_needs_two_phases_and_one_expression_that_runs(text: str) -> None:
    assert error_of(text).code == "expand-ioc-phases"


def test_a_semicolon_is_refused_once_a_placeholder_is_no_ioc() -> None:
    assert error_of("{kind}[A;B]", kind="S").code == "parse-phases"
    assert expanded("{kind}[A;B]", kind="IoC") == "IoC[A; B]"


# --- the texts of the family -------------------------------------------------------------------------


def test_model_loading_binds_the_engine_of_phase_1() -> None:
    expr = resolve_instances(expand(MODEL_LOADING), set(), "w")

    assert kinds(expr, "TensorrtInferTensor") == ["create", "bound"]
    assert kinds(expr, "Identity") == ["create"]
    assert [loader.prefix[0].value.value for loader in expr.children[0].children] == [".onnx", ".trt"]


@pytest.mark.parametrize("text", [NODE_BY_IOC, NODE_BY_REFLECT])
def test_a_node_by_ioc_forwards_to_its_registered_instance(text: str) -> None:
    expr = resolve_instances(expand(text, backend="X"), {"node.n", "n.0"}, "w")

    assert kinds(expr, "X") == ["create"]
    assert kinds(expr, "node.n") == ["instance"]


@pytest.mark.parametrize("text", [NODE_BY_LIST, NODE_BY_SHARED_STATE])
def test_a_node_by_list_holds_the_backend(text: str) -> None:
    assert kinds(expand(text, backend="X"), "X") == ["create"]


def test_shared_state_binds_batching_and_dispatcher() -> None:
    expr = expand(NODE_BY_SHARED_STATE, backend="X")

    assert kinds(expr, "Batching") == kinds(expr, "InstanceDispatcher") == ["create", "bound"]


def test_aspect_alone_runs_the_aspect_of_phase_1() -> None:
    expr = expand(ASPECT_ALONE)

    assert kinds(expr, "DI") == ["create", "bound"]
    assert kinds(expr, "InstanceDispatcher") == ["create", "bound"]
