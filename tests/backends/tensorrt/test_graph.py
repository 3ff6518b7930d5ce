"""The ONNX file on its way to TensorRT: reading it, weights beside it, `mean` and `std` folded in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from backends import onnx_models
from hami.backends.tensorrt.graph import external_files, fold_normalization, prepared, read_model, row_names
from hami.backends.tensorrt.settings import Normalization, parse_capabilities, parse_numbers
from hami.errors import BuildError

FLOAT = TensorProto.FLOAT


def answer(model: onnx.ModelProto | Path, **inputs: np.ndarray) -> np.ndarray:
    """Return the first output of a model run with ONNX Runtime."""
    source = str(model) if isinstance(model, Path) else model.SerializeToString()
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    return session.run(None, inputs)[0]


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def with_weights_beside(folder: Path) -> Path:
    """Write a model whose weights lie in a file of their own."""
    path = folder / "large.onnx"
    onnx.save_model(
        onnx_models.mlp(), str(path), save_as_external_data=True, location="large.weights", size_threshold=0
    )
    return path


# --- mean and std ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mean", "std"),
    [
        ((123.675, 116.28, 103.53), (58.395, 57.12, 57.375)),
        ((127.5,), (127.5,)),
        ((1.0, 2.0, 3.0), (4.0,)),
        ((1.0, 2.0, 3.0), ()),
        ((), (2.0, 4.0, 8.0)),
    ],
)
def test_a_folded_model_answers_like_the_model_on_normalized_data(mean: Any, std: Any) -> None:
    model = onnx_models.image()
    fold_normalization(model, Normalization(mean, std))
    onnx.checker.check_model(model, full_check=True)
    data = numbers(2, 3, 5, 7) * 100
    axes = (1, -1, 1, 1)
    scaled = (data - np.array(mean or 0, np.float64).reshape(axes)) / np.array(std or 1).reshape(axes)
    expected = answer(onnx_models.image(), x=scaled.astype(np.float32))
    np.testing.assert_allclose(answer(model, x=data), expected, rtol=1e-4, atol=1e-4)


def test_every_use_of_the_input_is_normalized() -> None:
    model = onnx_models.double(["batch", 3])
    fold_normalization(model, Normalization((1.0, 2.0, 3.0), (2.0,)))
    data = numbers(4, 3)
    np.testing.assert_allclose(answer(model, x=data), (data - [1, 2, 3]) / 2 * 2, rtol=1e-5, atol=1e-6)


def test_an_input_that_is_an_output_keeps_its_name_and_value() -> None:
    model = onnx_models.passed_through()
    fold_normalization(model, Normalization((5.0,), ()))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    data = numbers(2, 2)
    same, doubled = session.run(["x", "y"], {"x": data})
    np.testing.assert_array_equal(same, data)
    np.testing.assert_allclose(doubled, (data - 5) * 2, rtol=1e-6)


def test_graphs_inside_a_node_read_the_normalized_input() -> None:
    def branch(name: str) -> onnx.GraphProto:
        node = helper.make_node("Identity", ["x"], [name])
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, FLOAT, None)])

    chosen = helper.make_node("Constant", [], ["chosen"], value_int=1)
    as_bool = helper.make_node("Cast", ["chosen"], ["is_chosen"], to=TensorProto.BOOL)
    node = helper.make_node("If", ["is_chosen"], ["y"], then_branch=branch("a"), else_branch=branch("b"))
    model = onnx_models.make_model(
        [("x", FLOAT, ["batch", 2])], [("y", FLOAT, ["batch", 2])], [chosen, as_bool, node]
    )
    fold_normalization(model, Normalization((1.0,), (2.0,)))
    data = numbers(3, 2)
    np.testing.assert_allclose(answer(model, x=data), (data - 1) / 2, rtol=1e-6)


def test_normalization_stays_in_float32_where_the_model_becomes_narrow(tmp_path: Path) -> None:
    path = onnx_models.write("image", tmp_path)
    with prepared(path, "fp16", Normalization((1000.0,), (0.5,))) as file:
        model = onnx.load_model(str(file))
    first = model.graph.node[0]
    kinds = {weight.name: weight.data_type for weight in model.graph.initializer}
    assert (first.op_type, kinds[first.input[1]]) == ("Sub", FLOAT)
    data = 1000 + numbers(1, 3, 4, 4) * 0.1
    expected = answer(onnx_models.image(), x=(data - 1000) / 0.5)
    np.testing.assert_allclose(answer(model, x=data), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize(
    ("model", "mean", "words"),
    [
        ("image", (1.0, 2.0), ["`2` numbers", "`3` channels"]),
        ("double_rank1", (1.0, 2.0), ["no channels"]),
        ("two_inputs", (1.0,), ["one input", "`2`"]),
        ("tokens", (1.0,), ["`ids`", "`int64`"]),
    ],
)
def test_a_normalization_that_does_not_fit_is_refused(model: str, mean: Any, words: list[str]) -> None:
    with pytest.raises(BuildError) as caught:
        fold_normalization(onnx_models.MODELS[model](), Normalization(mean, ()))
    assert caught.value.code == "tensorrt-normalize"
    for word in words:
        assert word in caught.value.message


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, ()), (1, (1.0,)), ("1", (1.0,)), ("1, 2.5,3e1", (1.0, 2.5, 30.0)), ([1, "2"], (1.0, 2.0))],
)
def test_numbers_come_alone_in_a_list_or_as_a_text(value: Any, expected: Any) -> None:
    assert parse_numbers(value, "mean") == expected


@pytest.mark.parametrize("value", ["", "a", "1,,2", [], [None], {}, "nan", "inf", [[1]], "1;2"])
def test_what_is_no_number_is_refused(value: Any) -> None:
    with pytest.raises(BuildError, match="`mean`"):
        parse_numbers(value, "mean")


def test_nothing_is_divided_by_zero() -> None:
    assert parse_numbers("0", "mean") == (0.0,)
    with pytest.raises(BuildError, match="zero"):
        parse_numbers("1,0", "std")


@pytest.mark.parametrize(
    ("value", "expected"),
    [(None, ()), ("8.6", ("8.6",)), (8.6, ("8.6",)), ("8.6, 12.0", ("8.6", "12.0")), (["8.9"], ("8.9",))],
)
def test_compute_capabilities_are_texts(value: Any, expected: Any) -> None:
    assert parse_capabilities(value) == expected


@pytest.mark.parametrize("value", ["", "8", "sm86", "8.6.1", "8,6", [], True, -8.6])
def test_what_is_no_compute_capability_is_refused(value: Any) -> None:
    with pytest.raises(BuildError, match="compute_capability") as caught:
        parse_capabilities(value)
    assert caught.value.code == "tensorrt-capability"


# --- files -----------------------------------------------------------------------------------------


def test_a_model_that_nothing_is_changed_in_goes_as_it_is(tmp_path: Path) -> None:
    path = onnx_models.write("mlp", tmp_path)
    with prepared(path, "fp32", Normalization()) as file:
        assert file == path


@pytest.mark.parametrize("precision", ["fp16", "bf16", "best"])
def test_a_rewritten_copy_lives_while_it_is_used_and_the_model_stays(tmp_path: Path, precision: str) -> None:
    path = onnx_models.write("mlp", tmp_path)
    before = path.read_bytes()
    with prepared(path, precision, Normalization()) as file:
        assert file != path and file.is_file()
    assert not file.parent.exists()
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_weights_beside_the_model_are_found_and_come_along(tmp_path: Path) -> None:
    path = with_weights_beside(tmp_path)
    assert external_files(path) == [tmp_path / "large.weights"]
    with prepared(path, "fp16", Normalization()) as file:
        data = numbers(2, 8)
        np.testing.assert_allclose(answer(file, x=data), answer(path, x=data), rtol=1e-2, atol=1e-2)


def test_a_model_above_the_limit_of_a_message_keeps_its_weights_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hami.backends.tensorrt.graph.LARGEST_MESSAGE_BYTES", 100)
    path = tmp_path / "wide.onnx"
    wide = onnx_models.make_model(
        [("x", FLOAT, ["batch", 64])],
        [("y", FLOAT, ["batch", 64])],
        [helper.make_node("MatMul", ["x", "weight"], ["y"])],
        weight=onnx_models.weights(64, 64),
    )
    onnx.save_model(wide, str(path))
    with prepared(path, "fp16", Normalization()) as file:
        assert sorted(one.name for one in file.parent.iterdir()) == ["weights", "wide.onnx"]
        data = numbers(2, 64)
        np.testing.assert_allclose(answer(file, x=data), answer(path, x=data), rtol=2e-2, atol=2e-2)


def test_int8_of_a_model_without_quantization_is_refused(tmp_path: Path) -> None:
    path = onnx_models.write("mlp", tmp_path)
    with pytest.raises(BuildError, match="QuantizeLinear") as caught, prepared(path, "int8", Normalization()):
        pass
    assert caught.value.code == "tensorrt-precision"


@pytest.mark.parametrize(
    "content", [b"", b"no model", b"\x08\x08\x12", b"\x00" * 64], ids=["empty", "text", "cut", "zeros"]
)
def test_a_file_that_is_no_model_is_refused_with_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "damaged.onnx"
    path.write_bytes(content)
    with pytest.raises(BuildError, match=r"damaged\.onnx") as caught:
        read_model(path)
    assert caught.value.code == "tensorrt-model"


def test_missing_weights_beside_a_model_are_named(tmp_path: Path) -> None:
    path = with_weights_beside(tmp_path)
    (tmp_path / "large.weights").unlink()
    with pytest.raises(BuildError, match=r"large\.weights"):
        read_model(path)


@pytest.mark.parametrize("place", ["../secret", "inner/../../secret", "/etc/hostname"])
def test_weights_outside_the_folder_of_the_model_are_refused(tmp_path: Path, place: str) -> None:
    """A model from elsewhere must not make the program read any file that it likes."""
    path = with_weights_beside(tmp_path)
    model = onnx.load_model(str(path), load_external_data=False)
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = place
    folder = tmp_path / "inner"
    folder.mkdir()
    (tmp_path / "secret").write_bytes(b"\0" * 4096)
    onnx.save_model(model, str(folder / "model.onnx"))
    for read in (read_model, external_files):
        with pytest.raises(BuildError, match=r"model\.onnx") as caught:
            read(folder / "model.onnx")
        assert caught.value.code == "tensorrt-model"


def test_names_of_axis_0_are_read_where_there_are_any(tmp_path: Path) -> None:
    assert row_names(onnx_models.write("positives", tmp_path)) == {"x": "batch", "y": "found"}
    assert row_names(onnx_models.write("double_unnamed", tmp_path)) == {}
