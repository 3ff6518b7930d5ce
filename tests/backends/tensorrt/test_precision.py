"""Narrow types written into ONNX graphs: what ONNX Runtime computes with them, and what stays as it was."""

from __future__ import annotations

from collections import Counter
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from backends import onnx_models
from hami.backends.tensorrt.precision import convert, has_quantization, narrow

FLOAT = TensorProto.FLOAT


def answers(model: onnx.ModelProto, **inputs: np.ndarray) -> list[np.ndarray]:
    """Run a model with ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return session.run(None, inputs)


def converted(model: onnx.ModelProto, kind: str = "float16") -> onnx.ModelProto:
    """Return a converted copy."""
    copy = onnx.ModelProto.FromString(model.SerializeToString())
    convert(copy, kind)
    return copy


def types(model: onnx.ModelProto) -> dict[str, int]:
    """Return the element type of every tensor, as ONNX infers it."""
    inferred = onnx.shape_inference.infer_shapes(model).graph
    ports = (*inferred.input, *inferred.value_info, *inferred.output)
    return {port.name: port.type.tensor_type.elem_type for port in ports}


def operators(model: onnx.ModelProto) -> Counter[str]:
    return Counter(node.op_type for node in model.graph.node)


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


# --- rounding --------------------------------------------------------------------------------------


def test_bfloat16_rounds_as_the_reference_does() -> None:
    values = np.concatenate(
        [
            numbers(10_000) * 10.0 ** np.arange(10_000, dtype=np.float32).clip(0, 30),
            np.array([0, -0.0, 1, 1.00390625, 1.01171875, np.inf, -np.inf, 3.4e38, 1e-40], np.float32),
        ]
    ).astype(np.float32)
    tensor = narrow(values, "bfloat16", "weight")
    assert (tensor.data_type, list(tensor.dims)) == (TensorProto.BFLOAT16, list(values.shape))
    expected = values.astype(ml_dtypes.bfloat16)
    got = np.frombuffer(tensor.raw_data, ml_dtypes.bfloat16)
    np.testing.assert_array_equal(got.view(np.uint16), expected.view(np.uint16))


def test_not_a_number_stays_one_in_bfloat16() -> None:
    bits = np.array([0x7F800001, 0xFFFFFFFF, 0x7FC00000], np.uint32)
    got = np.frombuffer(narrow(bits.view(np.float32), "bfloat16", "x").raw_data, ml_dtypes.bfloat16)
    assert np.isnan(got.astype(np.float32)).all()


# --- answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["mlp", "image", "double", "double_fixed1", "mean", "total"])
def test_float16_answers_like_float32_within_its_precision(name: str) -> None:
    model = onnx_models.MODELS[name]()
    shape = {"image": (2, 3, 8, 8), "mlp": (4, 8), "mean": (4, 3)}.get(name, (1, 2))
    data = numbers(*shape)
    for got, expected in zip(answers(converted(model), x=data), answers(model, x=data), strict=True):
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=1e-2, atol=1e-2 * np.abs(expected).max())


def test_the_computation_is_really_narrow() -> None:
    model = converted(onnx_models.mlp())
    data = numbers(4, 8)
    assert not np.array_equal(answers(model, x=data)[0], answers(onnx_models.mlp(), x=data)[0])
    found = types(model)
    assert found["hidden_float16"] == found["active_float16"] == TensorProto.FLOAT16
    assert all(weight.data_type == TensorProto.FLOAT16 for weight in model.graph.initializer)


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", sorted(set(onnx_models.MODELS) - {"list_output", "text_input"}))
def test_inputs_and_outputs_keep_their_types_and_the_graph_stays_valid(name: str, kind: str) -> None:
    model = onnx_models.MODELS[name]()
    changed = converted(model, kind)
    assert changed.graph.input == model.graph.input
    assert changed.graph.output == model.graph.output
    if kind == "float16":
        onnx.checker.check_model(changed, full_check=True)


def test_integers_are_left_alone() -> None:
    ids = np.array([[0, 4, 2]], np.int64)
    changed = converted(onnx_models.tokens())
    np.testing.assert_allclose(
        answers(changed, ids=ids)[0], answers(onnx_models.tokens(), ids=ids)[0], rtol=1e-3
    )
    untouched = onnx_models.same(TensorProto.INT32)
    assert converted(untouched) == untouched


def test_one_cast_serves_all_that_need_it() -> None:
    model = onnx_models.make_model(
        [("x", FLOAT, ["batch", 4])],
        [("y", FLOAT, ["batch", 4]), ("z", FLOAT, ["batch", 4])],
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Softmax", ["a"], ["y"]),
            helper.make_node("Exp", ["a"], ["b"]),
            helper.make_node("Add", ["x", "b"], ["z"]),
        ],
    )
    changed = converted(model)
    assert operators(changed)["Cast"] == 4  # x down, a up, b down, z up
    data = numbers(2, 4)
    for got, expected in zip(answers(changed, x=data), answers(model, x=data), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-2, atol=1e-2)


# --- what stays in float32 -------------------------------------------------------------------------


def test_exponentials_and_sums_stay_in_float32() -> None:
    model = onnx_models.make_model(
        [("x", FLOAT, ["batch", 4])],
        [("y", FLOAT, ["batch", 1])],
        [
            helper.make_node("Mul", ["x", "large"], ["a"]),
            helper.make_node("ReduceSumSquare", ["a"], ["b"], axes=[1]),
            helper.make_node("Sqrt", ["b"], ["y"]),
        ],
        large=np.array(1000, np.float32),
    )
    data = np.ones((1, 4), np.float32)
    assert types(converted(model))["b"] == TensorProto.FLOAT
    np.testing.assert_allclose(answers(converted(model), x=data * 0.1)[0], 200, rtol=1e-2)


def test_a_weight_that_float16_cannot_hold_keeps_its_node_in_float32() -> None:
    model = onnx_models.make_model(
        [("x", FLOAT, ["batch", 2])],
        [("y", FLOAT, ["batch", 2])],
        [helper.make_node("Mul", ["x", "huge"], ["a"]), helper.make_node("Mul", ["a", "tiny"], ["y"])],
        huge=np.array(1e6, np.float32),
        tiny=np.array(1e-6, np.float32),
    )
    got = answers(converted(model), x=np.array([[1e-2, -2e-2]], np.float32))[0]
    np.testing.assert_allclose(got, [[1e-2, -2e-2]], rtol=0.1)
    kept = {weight.name for weight in converted(model, "bfloat16").graph.initializer}
    assert kept == {"huge_bfloat16", "tiny_bfloat16"}


def test_infinity_is_no_reason_to_stay() -> None:
    model = onnx_models.make_model(
        [("x", FLOAT, ["batch", 2])],
        [("y", FLOAT, ["batch", 2])],
        [helper.make_node("Max", ["x", "floor"], ["y"])],
        floor=np.array(-np.inf, np.float32),
    )
    assert [weight.name for weight in converted(model).graph.initializer] == ["floor_float16"]


def test_inputs_that_an_operator_takes_only_in_float32_stay() -> None:
    model = onnx_models.make_model(
        [("x", FLOAT, [1, 1, 4, 4])],
        [("y", FLOAT, [1, 1, 8, 8])],
        [helper.make_node("Resize", ["x", "", "scales"], ["y"], mode="linear")],
        scales=np.array([1, 1, 2, 2], np.float32),
    )
    changed = converted(model)
    assert {weight.name: weight.data_type for weight in changed.graph.initializer} == {"scales": FLOAT}
    data = numbers(1, 1, 4, 4)
    np.testing.assert_allclose(answers(changed, x=data)[0], answers(model, x=data)[0], rtol=1e-2, atol=1e-2)


def test_operators_of_other_domains_are_left_alone() -> None:
    model = onnx_models.make_model(
        [("x", FLOAT, ["batch", 2])],
        [("y", FLOAT, ["batch", 2])],
        [
            helper.make_node("Relu", ["x"], ["a"]),
            helper.make_node("Special", ["a"], ["b"], domain="some.plugin"),
            helper.make_node("Identity", ["b"], ["y"]),
        ],
    )
    model.opset_import.append(helper.make_opsetid("some.plugin", 1))
    changed = converted(model)
    (special,) = (node for node in changed.graph.node if node.op_type == "Special")
    assert (list(special.input), list(special.output)) == (["a"], ["b"])


def branch(name: str, operator: str) -> onnx.GraphProto:
    """Return a graph without inputs that uses `a` of the graph around it."""
    return helper.make_graph(
        [helper.make_node(operator, ["a"], [name])],
        name,
        [],
        [helper.make_tensor_value_info(name, FLOAT, None)],
    )


@pytest.mark.parametrize("is_chosen", [True, False])
def test_graphs_inside_a_node_see_the_float32_of_what_they_take(is_chosen: bool) -> None:
    model = onnx_models.make_model(
        [("x", FLOAT, ["batch", 2]), ("chosen", TensorProto.BOOL, [])],
        [("y", FLOAT, ["batch", 2])],
        [
            helper.make_node("Add", ["x", "x"], ["a"]),
            helper.make_node(
                "If",
                ["chosen"],
                ["b"],
                then_branch=branch("then", "Relu"),
                else_branch=branch("otherwise", "Neg"),
            ),
            helper.make_node("Add", ["b", "a"], ["y"]),
        ],
    )
    inputs: dict[str, Any] = {"x": numbers(3, 2), "chosen": np.array(is_chosen)}
    got, expected = answers(converted(model), **inputs)[0], answers(model, **inputs)[0]
    np.testing.assert_allclose(got, expected, rtol=1e-2, atol=1e-2)


# --- quantized models ------------------------------------------------------------------------------


def quantized() -> onnx.ModelProto:
    """Return a matrix product between QuantizeLinear and DequantizeLinear pairs."""
    return onnx_models.make_model(
        [("x", FLOAT, ["batch", 8])],
        [("y", FLOAT, ["batch", 4])],
        [
            helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["xq"]),
            helper.make_node("DequantizeLinear", ["xq", "scale", "zero"], ["xd"]),
            helper.make_node("DequantizeLinear", ["weight", "wscale", "zero"], ["wd"]),
            helper.make_node("MatMul", ["xd", "wd"], ["m"]),
            helper.make_node("Add", ["m", "bias"], ["y"]),
        ],
        scale=np.array(0.05, np.float32),
        wscale=np.array(0.01, np.float32),
        zero=np.array(0, np.int8),
        weight=(onnx_models.weights(8, 4) * 100).astype(np.int8),
        bias=onnx_models.weights(4),
    )


def test_quantized_models_are_told_from_others() -> None:
    assert has_quantization(quantized())
    assert not has_quantization(onnx_models.mlp())


def test_a_quantized_model_stays_quantized_and_its_scales_become_narrow() -> None:
    changed = converted(quantized())
    assert operators(changed) == operators(quantized()) + Counter(Cast=1)
    weights = {weight.name: weight.data_type for weight in changed.graph.initializer}
    assert weights["weight"] == TensorProto.INT8
    assert weights["wscale_float16"] == TensorProto.FLOAT16
    changed.opset_import[0].version = 21  # from here on ONNX itself knows narrow scales
    data = numbers(3, 8)
    np.testing.assert_allclose(
        answers(changed, x=data)[0], answers(quantized(), x=data)[0], rtol=0.02, atol=0.05
    )


def test_names_that_are_taken_are_not_used_twice() -> None:
    model = onnx_models.make_model(
        [("x", FLOAT, ["batch", 2])],
        [("x_float16", FLOAT, ["batch", 2])],
        [helper.make_node("Add", ["x", "one"], ["x_float16"])],
        one=np.array(1, np.float32),
    )
    np.testing.assert_allclose(answers(converted(model), x=numbers(2, 2))[0], numbers(2, 2) + 1, rtol=1e-2)


def test_weights_are_read_from_any_encoding() -> None:
    model = onnx_models.mlp()
    first = model.graph.initializer[0]
    values = numpy_helper.to_array(first)
    plain = helper.make_tensor("first", FLOAT, values.shape, values.ravel().tolist())
    first.CopyFrom(plain)
    data = numbers(2, 8)
    np.testing.assert_allclose(
        answers(converted(model), x=data)[0], answers(onnx_models.mlp(), x=data)[0], rtol=1e-2, atol=1e-2
    )
