"""Real engines, built for cards that are elsewhere: parse, profiles, precision, progress, refusals."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import hami
from backends import onnx_models
from hami.backends.tensorrt.cuda import CudaError
from hami.backends.tensorrt.loaders import LoadTensorrtEngine, Onnx2Tensorrt
from hami.backends.tensorrt.package import find_package
from hami.backends.tensorrt.params import EngineParams
from hami.backends.tensorrt.plan import EnginePlan
from hami.errors import BuildError, ConfigError
from hami.instances import instantiate

from .card import build, lacking_for_cuda
from .test_precision import quantized

rtx = pytest.importorskip(
    "tensorrt_rtx_bindings", reason="the packages `tensorrt-rtx-cu13-libs` and `-bindings` are not installed"
)
FOR = {"compute_capability": "8.6", "package": "tensorrt_rtx"}


@pytest.fixture(autouse=True)
def no_other_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def save(model: onnx.ModelProto, folder: Path, name: str = "model") -> Path:
    onnx.save_model(model, str(folder / f"{name}.onnx"))
    return folder / f"{name}.onnx"


def refused(model: str | Path, folder: Path, **params: Any) -> BuildError:
    """Return the error with which a build ends."""
    with pytest.raises(BuildError) as caught:
        build(model, folder, **{**FOR, **params})
    assert caught.value.help
    return caught.value


# --- engines ---------------------------------------------------------------------------------------


def test_an_engine_says_what_built_it_and_what_it_takes_and_gives(tmp_path: Path) -> None:
    plan = build("mlp", tmp_path, max=8, **FOR)
    assert isinstance(plan, EnginePlan)
    assert (plan.package, plan.version) == ("tensorrt_rtx", rtx.__version__)
    assert plan.source == tmp_path / "mlp.onnx"
    assert plan.blob[1:4] == b"trt"
    assert plan.description is not None
    (port,), (output,) = plan.description.inputs, plan.description.outputs
    assert (port.name, port.dtype, port.shape, port.has_rows) == ("x", "float32", (-1, 8), True)
    assert (output.name, output.dtype, output.shape, output.has_rows) == ("y", "float32", (-1, 4), True)
    (profile,) = plan.description.profiles
    assert (profile.min_rows, profile.max_rows) == (1, 8)


@pytest.mark.parametrize(
    ("model", "params", "rows"),
    [
        ("mlp_fixed4", {}, 4),
        ("double_fixed1", {}, 1),
        ("double_rank1", {"max": 16}, 16),
        ("image", {"min": "1x3x8x8", "max": "4x3x64x64"}, 4),
        ("two_inputs", {"max": "4x3,4x3"}, 4),
        ("tokens", {"max": "2x16"}, 2),
        ("scaled", {"max": 3}, 3),
        ("total", {"max": 3}, 3),
        ("mean", {"max": 3}, 3),
        ("product", {}, 1),
        ("passed_through", {"max": 2}, 2),
    ],
)
def test_models_of_all_kinds_of_shapes_become_engines(
    tmp_path: Path, model: str, params: dict[str, Any], rows: int
) -> None:
    plan = build(model, tmp_path, **params, **FOR)
    assert [profile.max_rows for profile in plan.description.profiles] == [rows]


@pytest.mark.parametrize("name", ["float32", "float16", "int8", "int32", "int64", "uint8", "bool"])
def test_element_types_that_tensorrt_has_keep_their_name(tmp_path: Path, name: str) -> None:
    plan = build(f"same_{name}", tmp_path, max=2, **FOR)
    assert plan.description.inputs[0].dtype == plan.description.outputs[0].dtype == name


def test_several_profiles_are_part_of_one_engine(tmp_path: Path) -> None:
    plan = build("image", tmp_path, min="1x3x8x8;1x3x64x64", max="8x3x8x8;2x3x64x64", **FOR)
    small, large = plan.description.profiles
    assert (small.max_rows, large.max_rows) == (8, 2)
    assert large.shapes["x"] == ((1, 3, 64, 64), (2, 3, 64, 64), (2, 3, 64, 64))
    assert plan.blob != build("image", tmp_path, min="1x3x8x8", max="8x3x8x8", **FOR).blob


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16", "best"])
def test_a_precision_makes_an_engine_of_its_own_with_the_models_types(tmp_path: Path, precision: str) -> None:
    plan = build("image", tmp_path, max="1x3x32x32", min="1x3x32x32", precision=precision, **FOR)
    assert plan.description.inputs[0].dtype == plan.description.outputs[0].dtype == "float32"
    others = {"fp32", "fp16", "bf16"} - {precision}
    for other in others - ({"fp16"} if precision == "best" else set()):
        params = {"max": "1x3x32x32", "min": "1x3x32x32", "precision": other}
        assert plan.blob != build("image", tmp_path, **params, **FOR).blob


def test_narrow_weights_take_half_the_room(tmp_path: Path) -> None:
    model = onnx_models.make_model(
        [("x", TensorProto.FLOAT, ["batch", 1024])],
        [("y", TensorProto.FLOAT, ["batch", 1024])],
        [onnx.helper.make_node("MatMul", ["x", "weight"], ["y"])],
        weight=onnx_models.weights(1024, 1024),
    )
    path = save(model, tmp_path)
    wide = len(build(path, tmp_path, max=8, **FOR).blob)
    for precision in ("fp16", "bf16"):
        narrow = len(build(path, tmp_path, max=8, precision=precision, **FOR).blob)
        assert (wide - narrow) / (1024 * 1024 * 2) == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize("precision", ["int8", "best"])
def test_a_quantized_model_becomes_an_int8_engine(tmp_path: Path, precision: str) -> None:
    plan = build(save(quantized(), tmp_path), tmp_path, max=8, precision=precision, **FOR)
    assert plan.description.profiles[0].max_rows == 8


def test_mean_and_std_are_part_of_the_engine(tmp_path: Path) -> None:
    sizes = {"min": "1x3x8x8", "max": "1x3x8x8"}
    plain = build("image", tmp_path, **sizes, **FOR)
    folded = build("image", tmp_path, mean="1,2,3", std=[4, 5, 6], **sizes, **FOR)
    assert folded.description == plain.description
    assert folded.blob != plain.blob


def test_weights_beside_the_model_come_into_the_engine(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    onnx.save_model(
        onnx_models.mlp(), str(path), save_as_external_data=True, location="weights", size_threshold=0
    )
    for precision in ("fp32", "fp16"):
        assert build(path, tmp_path, precision=precision, **FOR).blob


@pytest.mark.parametrize("text", ["8.0", "8.6", "8.9", "12.0", "8.6,8.9"])
def test_engines_are_built_for_cards_that_are_not_here(tmp_path: Path, text: str) -> None:
    assert build("double", tmp_path, package="tensorrt_rtx", compute_capability=text).blob


def test_a_workspace_limit_reaches_the_builder(tmp_path: Path) -> None:
    assert build("mlp", tmp_path, workspace_mb=64, **FOR).blob


# --- refusals --------------------------------------------------------------------------------------


def test_an_operator_that_tensorrt_lacks_is_named(tmp_path: Path) -> None:
    error = refused("positives", tmp_path, max=2)
    assert error.code == "tensorrt-parse"
    assert "Compress" in error.message and "positives.onnx" in error.message


@pytest.mark.parametrize("model", ["text_input", "same_uint16", "same_uint64", "list_output"])
def test_types_that_tensorrt_lacks_are_refused_with_the_file(tmp_path: Path, model: str) -> None:
    error = refused(model, tmp_path, max=2)
    assert error.code == "tensorrt-parse"
    assert f"{model}.onnx" in error.message


@pytest.mark.parametrize("content", [b"", b"no model", b"\x08\x08\x12"], ids=["empty", "text", "cut"])
def test_a_damaged_model_is_refused_with_its_path(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "damaged.onnx"
    path.write_bytes(content)
    error = refused(path, tmp_path)
    assert (error.code, "damaged.onnx" in error.message) == ("tensorrt-model", True)


def test_a_missing_model_and_a_folder_are_refused_with_their_path(tmp_path: Path) -> None:
    assert "no_such.onnx` does not exist" in refused(tmp_path / "no_such.onnx", tmp_path).message
    (tmp_path / "folder.onnx").mkdir()
    assert "is not a file" in refused(tmp_path / "folder.onnx", tmp_path).message


def test_missing_weights_beside_the_model_are_named(tmp_path: Path) -> None:
    path = tmp_path / "large.onnx"
    onnx.save_model(
        onnx_models.mlp(), str(path), save_as_external_data=True, location="gone", size_threshold=0
    )
    (tmp_path / "gone").unlink()
    error = refused(path, tmp_path)
    assert error.code == "tensorrt-model" and "gone" in error.message


def test_a_max_above_the_fixed_batch_is_refused(tmp_path: Path) -> None:
    error = refused("mlp_fixed4", tmp_path, max=5)
    assert error.code == "tensorrt-profile"
    assert "`5`" in error.message and "fixed batch of `4`" in error.message


def test_shapes_that_the_model_cannot_compute_are_refused(tmp_path: Path) -> None:
    model = onnx_models.make_model(
        [("x", TensorProto.FLOAT, ["batch", "length"])],
        [("y", TensorProto.FLOAT, ["batch", 4])],
        [onnx.helper.make_node("MatMul", ["x", "weight"], ["y"])],
        weight=onnx_models.weights(8, 4),
    )
    error = refused(save(model, tmp_path), tmp_path, min="1x5", max="4x5")
    assert error.code in ("tensorrt-build", "tensorrt-profile")
    assert "TensorRT gave no reason" not in error.message


def test_int8_without_quantization_is_refused(tmp_path: Path) -> None:
    assert refused("mlp", tmp_path, precision="int8").code == "tensorrt-precision"


def test_a_card_that_this_tensorrt_has_no_kernels_for_is_refused_with_those_it_has(tmp_path: Path) -> None:
    error = refused("mlp", tmp_path, compute_capability="9.0")
    assert error.code == "tensorrt-capability"
    assert "`9.0`" in error.message and "`8.6`" in error.help


def test_a_package_that_only_runs_engines_builds_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = find_package("tensorrt_rtx")
    monkeypatch.delattr(package.module, "Builder")
    error = refused("mlp", tmp_path)
    assert error.code == "tensorrt-lean"
    assert "engine file" in error.help


def test_a_builder_that_cannot_start_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = find_package("tensorrt_rtx")

    def no_builder(logger: Any) -> Any:
        logger.log(package.module.ILogger.Severity.ERROR, "CUDA initialization failure with error: 35")
        raise TypeError("pybind11::init(): factory function returned nullptr")

    monkeypatch.setattr(package.module, "Builder", no_builder)
    error = refused("mlp", tmp_path)
    assert error.code == "tensorrt-device"
    assert "error: 35" in error.message


def test_a_tensorrt_that_builds_only_for_the_card_here_refuses_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(rtx.IBuilderConfig, "set_compute_capability")
    error = refused("mlp", tmp_path)
    assert error.code == "tensorrt-capability" and "`8.6`" in error.message


# --- what is said while it builds ------------------------------------------------------------------


def test_progress_is_logged_from_start_to_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "hami.tensorrt"):
        build("mlp", tmp_path, max=4, **FOR)
    lines = [record.getMessage() for record in caplog.records if record.name == "hami.tensorrt"]
    assert any(line.startswith("building `") and rtx.__version__ in line for line in lines)
    assert any(" of " in line for line in lines), "the phases of the builder"
    assert any(line.endswith(": done") for line in lines)
    assert any(line.startswith("built `") and "bytes" in line for line in lines)


def test_tensorrt_itself_prints_nothing(tmp_path: Path) -> None:
    path = onnx_models.write("mlp", tmp_path)
    config = {"backend": "Onnx2Tensorrt", "model": str(path), "cache_dir": str(tmp_path / "engines"), **FOR}
    program = f"import hami; hami.pipe({config!r}).close()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_failed_build_leaves_no_files(tmp_path: Path) -> None:
    refused("positives", tmp_path, max=2, precision="fp16")
    assert [path.suffix for path in (tmp_path / "engines").iterdir()] == [".lock"]


# --- in pipelines ----------------------------------------------------------------------------------


def test_a_loader_hands_data_on(tmp_path: Path) -> None:
    path = onnx_models.write("mlp", tmp_path)
    data = np.arange(3)
    with hami.pipe({"backend": "Onnx2Tensorrt", "model": str(path), "max": 4, **FOR}) as pipe:
        assert pipe({"data": data})["result"] is data
    assert list((tmp_path / "cache" / "hami" / "tensorrt").glob("mlp-*.trt"))


def test_the_model_may_be_the_first_argument(tmp_path: Path) -> None:
    path = onnx_models.write("double", tmp_path)
    hami.pipe(f"Onnx2Tensorrt('{path}', compute_capability=8.6, package=tensorrt_rtx, max='1x2;8x2')").close()


def test_the_loaders_declare_every_parameter_with_a_doc() -> None:
    for backend in (Onnx2Tensorrt, LoadTensorrtEngine):
        params = hami.backend.declared_params(backend)
        assert params[0].name == "model"
        assert all(param.doc for param in params)
        assert {param.name for param in params} == {
            param.name for param in hami.backend.declared_params(EngineParams)
        }


@pytest.mark.parametrize(
    ("params", "word"),
    [
        ({"precision": "fp64"}, "fp16"),
        ({"packge": "tensorrt"}, "package"),
        ({"workspace_mb": -1}, "workspace_mb"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_is_built(params: dict[str, Any], word: str) -> None:
    with pytest.raises(ConfigError, match=word):
        hami.pipe({"backend": "Onnx2Tensorrt", "model": "x.onnx", **params})


def test_a_loader_without_a_model_says_so() -> None:
    for backend in (Onnx2Tensorrt, LoadTensorrtEngine):
        with pytest.raises(BuildError, match="`model`"):
            instantiate(backend, {}, {})


def test_without_a_card_an_engine_is_built_and_its_run_refused(tmp_path: Path) -> None:
    if not lacking_for_cuda():
        pytest.skip("lacking: a machine without a card")
    path = onnx_models.write("mlp", tmp_path)
    with pytest.raises(BuildError, match="no NVIDIA GPU") as caught:
        hami.pipe({"backend": "TensorrtInferTensor", "model": str(path), "max": 4, **FOR})
    assert caught.value.code == "tensorrt-device"
    assert not isinstance(caught.value, CudaError)
    assert list((tmp_path / "cache" / "hami" / "tensorrt").glob("mlp-*.trt"))
