"""What `min`, `opt` and `max` mean: a table of texts, models and profiles. No TensorRT is needed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from hami.backends.tensorrt.plan import Description, describe
from hami.backends.tensorrt.shapes import Port, Profile, make_profiles, parse_wishes
from hami.errors import BuildError

PICTURE = Port("x", (-1, 3, -1, -1))
ROWS = Port("x", (-1, 8))
FIXED = Port("x", (4, 8))
SCALAR = Port("scale", ())


def profiles(inputs: list[Port], low: Any = None, high: Any = None, best: Any = None) -> list[Profile]:
    """Return the profiles of texts as a node gives them."""
    return make_profiles(
        inputs, parse_wishes(low, "min"), parse_wishes(best, "opt"), parse_wishes(high, "max")
    )


# --- texts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, ()),
        (8, (8,)),
        ("8", (8,)),
        (" 8 ", (8,)),
        ("1x3x224x224", (((1, 3, 224, 224),),)),
        ("1x8,1x3", (((1, 8), (1, 3)),)),
        ("1x8;4x8", (((1, 8),), ((4, 8),))),
        ("1;4;16", (1, 4, 16)),
        ([1, "4x8"], (1, ((4, 8),))),
        ("1x8,1x3;2x8,2x3", (((1, 8), (1, 3)), ((2, 8), (2, 3)))),
    ],
)
def test_a_text_is_profiles_of_inputs_of_extents(value: Any, expected: Any) -> None:
    assert parse_wishes(value, "max") == expected


MEANINGLESS: list[Any] = [
    *(
        "",
        ";",
        "8;",
        "a",
        "1x",
        "x1",
        "1x3x?",
        "1X3",
        "-1",
        "-1x3",
        "0",
        "1x0",
        "1.5",
        "1,,2",
        "1 x 3",
        "1*3",
    ),
    *("１x３", "9" * 40, "1x3\0", 0, 1.5, True, [], {}, [None]),
]


@pytest.mark.parametrize("value", MEANINGLESS)
def test_a_text_that_means_nothing_is_refused_with_the_form(value: Any) -> None:
    with pytest.raises(BuildError, match="`max`") as caught:
        parse_wishes(value, "max")
    assert caught.value.code == "tensorrt-profile"
    assert "8" in caught.value.help


# --- profiles --------------------------------------------------------------------------------------


def test_without_any_text_a_dynamic_batch_is_one_row() -> None:
    (profile,) = profiles([ROWS])
    assert profile.shapes == {"x": ((1, 8), (1, 8), (1, 8))}
    assert (profile.min_rows, profile.max_rows) == (1, 1)


def test_a_number_is_rows_and_the_best_shape_is_the_largest() -> None:
    (profile,) = profiles([ROWS], high=16)
    assert profile.shapes == {"x": ((1, 8), (16, 8), (16, 8))}
    assert (profile.min_rows, profile.max_rows) == (1, 16)


def test_opt_lies_between() -> None:
    (profile,) = profiles([ROWS], low=2, high=16, best=4)
    assert profile.shapes["x"] == ((2, 8), (4, 8), (16, 8))
    assert (profile.min_rows, profile.max_rows) == (2, 16)


def test_rows_below_a_shape_keep_its_other_extents() -> None:
    (profile,) = profiles([PICTURE], low=1, high="8x3x224x224")
    assert profile.shapes["x"][0] == (1, 3, 224, 224)


def test_pictures_of_many_sizes_have_shapes_for_both_ends() -> None:
    (profile,) = profiles([PICTURE], low="1x3x32x32", high="4x3x512x512")
    assert profile.shapes["x"] == ((1, 3, 32, 32), (4, 3, 512, 512), (4, 3, 512, 512))


def test_each_profile_has_its_rows_and_one_text_serves_all() -> None:
    small, large = profiles([ROWS], low=1, high="4;16")
    assert (small.min_rows, small.max_rows, large.min_rows, large.max_rows) == (1, 4, 1, 16)


def test_several_inputs_share_rows() -> None:
    (profile,) = profiles([ROWS, Port("ids", (-1, -1))], low="1x8,1x2", high="4x8,4x16")
    assert profile.shapes["ids"] == ((1, 2), (4, 16), (4, 16))
    assert profile.max_rows == 4


def test_a_number_leaves_inputs_without_rows_alone() -> None:
    (profile,) = profiles([ROWS, SCALAR, Port("table", (5, 3))], high=4)
    assert profile.shapes["scale"] == ((), (), ())
    assert profile.shapes["table"][2] == (5, 3)


def test_a_fixed_batch_needs_no_text_and_takes_fewer_rows() -> None:
    assert profiles([FIXED])[0].max_rows == 4
    assert profiles([FIXED], high=2)[0].max_rows == 2
    assert profiles([FIXED], high="4x8")[0].shapes["x"][2] == (4, 8)


@pytest.mark.parametrize(
    ("inputs", "low", "high", "words"),
    [
        ([FIXED], None, 5, ["`5`", "fixed batch of `4`", "max = 4"]),
        ([PICTURE], None, 8, ["`x`", "?x3x?x?", "axis 2, 3"]),
        ([PICTURE], None, None, ["axis 2, 3"]),
        ([ROWS], None, "4x7", ["`4x7`", "`?x8`"]),
        ([ROWS], None, "4x8x1", ["`4x8x1`", "`?x8`"]),
        ([ROWS], None, "4x8,4x8", ["`2` shapes", "`1` inputs"]),
        ([ROWS], 5, 4, ["`5x8`", "`4x8`"]),
        ([ROWS], "1;2;3", "1;2", ["`2` profiles", "`3`"]),
        ([ROWS, Port("y", (-1, 8))], None, "4x8,5x8", ["different rows"]),
        ([PICTURE], "1x3x600x600", "8x3x512x512", ["`min`", "`1x3x600x600`"]),
    ],
)
def test_what_does_not_fit_the_model_is_refused_with_both_sides(
    inputs: list[Port], low: Any, high: Any, words: list[str]
) -> None:
    with pytest.raises(BuildError) as caught:
        profiles(inputs, low=low, high=high)
    for word in words:
        assert word in str(caught.value)
    assert caught.value.help


def test_an_opt_above_max_is_refused() -> None:
    with pytest.raises(BuildError, match="`opt`"):
        profiles([ROWS], high=4, best=5)


# --- descriptions ----------------------------------------------------------------------------------


def described(inputs: list[Port], outputs: list[Port], names: dict[str, str] | None = None) -> Description:
    return describe(
        [(port, "float32") for port in inputs], [(port, "float32") for port in outputs], (), names
    )


def test_a_dynamic_axis_0_counts_rows() -> None:
    found = described([ROWS, SCALAR, Port("table", (5, 3))], [Port("y", (-1, 4)), Port("mean", (3,))])
    assert [spec.has_rows for spec in found.inputs] == [True, False, False]
    assert [spec.has_rows for spec in found.outputs] == [True, False]
    assert found.fixed_rows is None


def test_a_fixed_batch_counts_rows_where_all_inputs_have_it() -> None:
    found = described([FIXED, Port("z", (4,))], [Port("y", (4, 2)), Port("flat", (32,)), Port("sum", ())])
    assert found.fixed_rows == 4
    assert [spec.has_rows for spec in found.outputs] == [True, False, False]


def test_inputs_of_different_fixed_extents_have_no_rows() -> None:
    found = described([Port("a", (2, 3)), Port("b", (3, 4))], [Port("y", (2, 4))])
    assert not any(spec.has_rows for spec in (*found.inputs, *found.outputs))


def test_an_output_that_names_its_axis_otherwise_has_no_rows() -> None:
    ports = [ROWS], [Port("boxes", (-1, 4)), Port("y", (-1, 4))]
    found = described(*ports, {"x": "batch", "boxes": "found", "y": "batch"})
    assert [spec.has_rows for spec in found.outputs] == [False, True]


def test_a_description_survives_json() -> None:
    inputs = [(ROWS, "float32"), (SCALAR, "int64")]
    found = describe(inputs, [(Port("y", (-1, 4)), "float16")], profiles([ROWS, SCALAR], high="1;8"))
    assert Description.from_json(json.loads(json.dumps(found.to_json()))) == found
