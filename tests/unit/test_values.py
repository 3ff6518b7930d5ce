"""Checking one value against its declaration."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from hami.backend import Param
from hami.plan.values import BadValueError, convert


def param(type: str = "any", **more: Any) -> Param:
    return Param("p", type, **more)


def refusal(declared: Param, value: Any) -> BadValueError:
    with pytest.raises(BadValueError) as caught:
        convert(declared, value)
    return caught.value


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        ("int", 4, 4),
        ("int", "4", 4),
        ("int", " -4 ", -4),
        ("int", 4.0, 4),
        ("int", 2**63 - 1, 2**63 - 1),
        ("float", 4, 4.0),
        ("float", 2.5, 2.5),
        ("float", "2.5", 2.5),
        ("float", "1e3", 1000.0),
        ("bool", True, True),
        ("bool", "false", False),
        ("bool", "True", True),
        ("str", "x", "x"),
        ("str", "", ""),
        ("path", "a/b", "a/b"),
        ("path", Path("a/b"), "a/b"),
        ("list", [1, 2], [1, 2]),
        ("list", (1, 2), [1, 2]),
        ("list", "a, b", ["a", "b"]),
        ("list", "[a,b]", ["a", "b"]),
        ("list", "", []),
        ("any", {"x": 1}, {"x": 1}),
        ("any", None, None),
    ],
)
def test_a_value_gets_the_declared_type(type: str, value: Any, expected: Any) -> None:
    found = convert(param(type, required=True), value)

    assert found == expected
    assert found.__class__ is expected.__class__


@pytest.mark.parametrize(
    ("type", "value"),
    [
        ("int", 4.5),
        ("int", "four"),
        ("int", "4.0"),
        ("int", True),
        ("int", [4]),
        ("int", 2**63),
        ("int", "9" * 200),
        ("int", math.inf),
        ("int", math.nan),
        ("int", "٣"),
        ("int", ""),
        ("float", "x"),
        ("float", True),
        ("float", math.nan),
        ("float", math.inf),
        ("float", "1e999"),
        ("float", 10**400),
        ("bool", 1),
        ("bool", "yes"),
        ("bool", "1"),
        ("str", 3),
        ("str", b"x"),
        ("path", ""),
        ("path", "a\0b"),
        ("path", 3),
        ("list", 3),
        ("list", {"a": 1}),
    ],
)
def test_another_value_is_refused(type: str, value: Any) -> None:
    error = refusal(param(type, required=True), value)

    assert "`p` must be" in str(error)
    assert error.help


def test_none_is_for_optional_parameters() -> None:
    assert convert(param("int"), None) is None
    assert "a whole number" in str(refusal(param("int", required=True), None))
    assert "a whole number" in str(refusal(param("int", default=3), None))


@pytest.mark.parametrize(
    ("value", "words"), [(-1, "at least 0 ms, got `-1`"), ("11", "at most 10 ms, got `11`")]
)
def test_bounds_are_given_with_their_unit(value: Any, words: str) -> None:
    assert words in str(refusal(param("float", min=0, max=10, unit="ms"), value))


def test_bounds_are_inclusive() -> None:
    declared = param("int", min=1, max=3)

    assert [convert(declared, value) for value in (1, 3)] == [1, 3]


def test_a_fractional_bound_is_shown_as_such() -> None:
    assert "at most 0.5," in str(refusal(param("float", max=0.5), 1))


def test_a_wrong_type_names_the_unit() -> None:
    assert "a number in ms, got `soon`" in str(refusal(param("float", unit="ms"), "soon"))


def test_bounds_do_not_concern_true_and_false() -> None:
    assert convert(param("any", min=5), True) is True


def test_a_wrong_choice_is_refused_with_the_nearest() -> None:
    declared = param("str", choices=("fifo", "priority", "edf"))

    assert convert(declared, "edf") == "edf"
    assert refusal(declared, "fifi").help == "did you mean `fifo`?"
    assert refusal(declared, "zzz").help == "use one of `fifo`, `priority`, `edf`"


def test_choices_are_compared_after_conversion() -> None:
    assert convert(param("int", choices=(8, 16)), "16") == 16


def test_relative_paths_start_from_the_folder() -> None:
    declared = param("path")

    assert convert(declared, "m.onnx", "/models") == "/models/m.onnx"
    assert convert(declared, "../m.onnx", "/models/a") == "/models/m.onnx"
    assert convert(declared, "/m.onnx", "/models") == "/m.onnx"
    assert convert(declared, "m.onnx") == "m.onnx"


def test_a_long_value_is_cut_in_the_message() -> None:
    assert len(str(refusal(param("int"), "x" * 10_000))) < 150
