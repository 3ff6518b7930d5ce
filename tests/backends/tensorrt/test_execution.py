"""Engines on a card: answers, shapes, graphs, profiles, arrays of the card, and memory.

Where no engine can run these are skipped, and say what is lacking.
"""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from backends import onnx_models
from hami.backends.tensorrt import cuda
from hami.backends.tensorrt.device_array import DeviceArray, view
from hami.backends.tensorrt.execution import Execution, load_engine
from hami.backends.tensorrt.infer import TensorrtInferTensor
from hami.errors import BuildError, RequestError
from hami.instances import instantiate

from .card import TOLERANCE, build, expect, lacking_for_engines, load, numbers, run, skip_module_where

skip_module_where(lacking_for_engines())


class OnCard:
    """An array in the memory of the card, as another framework would hand it over."""

    def __init__(self, array: np.ndarray) -> None:
        source = np.ascontiguousarray(array)
        memory, stream = cuda.DeviceMemory(array.nbytes), cuda.Stream()
        cuda.copy(memory.address, source.ctypes.data, array.nbytes, stream)
        stream.wait()
        self.array = DeviceArray(
            memory.address, array.shape, array.dtype.name, array.itemsize, True, owner=memory
        )

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream: Any = None) -> Any:
        return self.array.__dlpack__()


def assert_close(got: Any, expected: np.ndarray, tolerance: float = TOLERANCE) -> None:
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    largest = float(np.abs(expected).max()) if expected.dtype.kind == "f" else 0
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance * largest)


# --- answers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [1, 3, 8])
def test_answers_equal_those_of_the_framework_from_min_to_max_rows(tmp_path: Path, rows: int) -> None:
    data = numbers(rows, 8)
    (got,) = run("mlp", tmp_path, data, max=8)
    assert_close(got, expect("mlp", tmp_path, data)[0])


@pytest.mark.parametrize("shape", [(1, 3, 1, 1), (1, 3, 7, 5), (4, 3, 32, 48)])
def test_answers_equal_those_of_the_framework_for_every_shape(tmp_path: Path, shape: Any) -> None:
    data = numbers(*shape)
    (got,) = run("image", tmp_path, data, min="1x3x1x1", max="4x3x32x48")
    assert_close(got, expect("image", tmp_path, data)[0])


@pytest.mark.parametrize(("precision", "tolerance"), [("fp16", 4e-3), ("bf16", 4e-2), ("best", 4e-3)])
def test_narrow_types_answer_within_their_tolerance(tmp_path: Path, precision: str, tolerance: float) -> None:
    data = numbers(8, 8)
    (got,) = run("mlp", tmp_path, data, max=8, precision=precision)
    assert_close(got, expect("mlp", tmp_path, data)[0], tolerance)
    assert not np.array_equal(got, run("mlp", tmp_path, data, max=8)[0])


def test_mean_and_std_are_part_of_the_engine(tmp_path: Path) -> None:
    data = numbers(2, 3, 8, 8) * 100
    mean, std = [123.675, 116.28, 103.53], [58.395, 57.12, 57.375]
    (got,) = run("image", tmp_path, data, max="2x3x8x8", min="1x3x8x8", mean=mean, std=std)
    axes = (1, 3, 1, 1)
    scaled = (data - np.array(mean, np.float32).reshape(axes)) / np.array(std, np.float32).reshape(axes)
    assert_close(got, expect("image", tmp_path, scaled)[0])


def test_inputs_and_outputs_go_by_their_order(tmp_path: Path) -> None:
    pair = numbers(2, 3), numbers(2, 3, seed=1)
    for got, expected in zip(
        run("two_inputs", tmp_path, *pair, max=2), expect("two_inputs", tmp_path, *pair), strict=True
    ):
        assert_close(got, expected)


def test_integers_and_single_numbers_go_in_and_out(tmp_path: Path) -> None:
    ids = np.array([[0, 4, 2], [1, 1, 3]], np.int64)
    assert_close(run("tokens", tmp_path, ids, max="2x3")[0], expect("tokens", tmp_path, ids)[0])
    pair = numbers(2, 2), np.array(3, np.float32)
    assert_close(run("scaled", tmp_path, *pair, max=2)[0], expect("scaled", tmp_path, *pair)[0])
    got = run("total", tmp_path, numbers(2, 2), max=2)
    for one, expected in zip(got, expect("total", tmp_path, numbers(2, 2)), strict=True):
        assert_close(one, expected)


@pytest.mark.parametrize("name", ["float32", "float16", "int8", "int32", "int64", "uint8", "bool"])
def test_element_types_go_in_and_out_unchanged(tmp_path: Path, name: str) -> None:
    data = np.array([[0, 1], [1, 0], [1, 1]], name)
    (got,) = run(f"same_{name}", tmp_path, data, max=3)
    assert got.dtype == data.dtype
    np.testing.assert_array_equal(got, data)


def test_bfloat16_goes_in_and_out_as_its_bits(tmp_path: Path) -> None:
    path = tmp_path / "narrow.onnx"
    onnx.save_model(onnx_models.same(onnx.TensorProto.BFLOAT16), str(path))
    bits = np.array([[0x3F80, 0xC000], [0x0001, 0x7F80]], np.uint16)
    data = DeviceArray(bits.ctypes.data, (2, 2), "bfloat16", 2, False, owner=bits)
    (got,) = Execution(load(path, tmp_path, max=2), 0).run([data])
    assert (got.dtype, got.shape) == ("bfloat16", (2, 2))
    np.testing.assert_array_equal(got.owner, bits)


# --- graphs ----------------------------------------------------------------------------------------


def test_a_shape_that_comes_again_is_recorded_and_answers_the_same(tmp_path: Path) -> None:
    execution = Execution(load("mlp", tmp_path, max=8), 0)
    for turn in range(6):
        for rows in (1, 5, 8):
            data = numbers(rows, 8, seed=turn)
            assert_close(execution.run([data])[0], expect("mlp", tmp_path, data)[0])
    assert set(execution.recordings) == {((1, 8),), ((5, 8),), ((8, 8),)}
    assert all(recording is not None for recording in execution.recordings.values())


def test_shapes_that_come_twice_are_not_recorded(tmp_path: Path) -> None:
    execution = Execution(load("mlp", tmp_path, max=8), 0)
    for rows in (1, 2, 1, 2):
        execution.run([numbers(rows, 8)])
    assert not execution.recordings


def test_without_graphs_nothing_is_recorded(tmp_path: Path) -> None:
    execution = Execution(load("mlp", tmp_path, max=8), 0, use_graphs=False)
    for _ in range(4):
        assert_close(execution.run([numbers(2, 8)])[0], expect("mlp", tmp_path, numbers(2, 8))[0])
    assert not execution.recordings


def test_the_number_of_recordings_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hami.backends.tensorrt.execution.GRAPHS_KEPT", 2)
    execution = Execution(load("mlp", tmp_path, max=8), 0)
    for rows in (1, 2, 3, 1):
        for _ in range(3):
            assert_close(execution.run([numbers(rows, 8)])[0], expect("mlp", tmp_path, numbers(rows, 8))[0])
    assert set(execution.recordings) == {((3, 8),), ((1, 8),)}


def test_results_are_not_overwritten_by_later_runs(tmp_path: Path) -> None:
    execution = Execution(load("mlp", tmp_path, max=8), 0)
    arrays = [numbers(4, 8, seed=seed) for seed in range(5)]
    results = [execution.run([array])[0] for array in arrays]
    for array, result in zip(arrays, results, strict=True):
        assert_close(result, expect("mlp", tmp_path, array)[0])


# --- shapes and profiles ---------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(9, 8), (0, 8), (2, 7), (2, 8, 1)])
def test_a_shape_outside_the_profile_is_refused_and_the_engine_serves_on(tmp_path: Path, shape: Any) -> None:
    execution = Execution(load("mlp", tmp_path, max=8), 0)
    with pytest.raises(RequestError, match="`x`") as caught:
        execution.run([np.zeros(shape, np.float32)])
    assert caught.value.code == "tensorrt-shape"
    assert_close(execution.run([numbers(2, 8)])[0], expect("mlp", tmp_path, numbers(2, 8))[0])


def test_each_profile_has_its_own_bounds(tmp_path: Path) -> None:
    loaded = load("mlp", tmp_path, max="2;8")
    small, large = Execution(loaded, 0), Execution(loaded, 1)
    data = numbers(5, 8)
    with pytest.raises(RequestError, match="`1x8` to `2x8`"):
        small.run([data])
    assert_close(large.run([data])[0], expect("mlp", tmp_path, data)[0])
    assert_close(small.run([data[:2]])[0], expect("mlp", tmp_path, data[:2])[0])


def test_an_engine_without_description_describes_itself(tmp_path: Path) -> None:
    plan = build("two_inputs", tmp_path, max="2;4")
    raw = replace(plan, blob=plan.blob, description=None, package="", version="")
    assert plan.description is not None
    found = load_engine(replace(raw, source=Path("raw.plan"))).description
    assert (found.inputs, found.outputs) == (plan.description.inputs, plan.description.outputs)
    assert [profile.max_rows for profile in found.profiles] == [2, 4]


def test_a_damaged_plan_is_refused_with_its_file(tmp_path: Path) -> None:
    plan = build("double", tmp_path, max=2)
    for blob in (plan.blob[: len(plan.blob) // 2], plan.blob[:40]):
        with pytest.raises(BuildError, match=r"broken\.plan") as caught:
            load_engine(replace(plan, blob=blob, source=Path("broken.plan")))
        assert caught.value.code == "tensorrt-engine-file"


# --- instances -------------------------------------------------------------------------------------


def test_instances_share_one_engine_and_run_side_by_side(tmp_path: Path) -> None:
    plan = build("mlp", tmp_path, max=8)
    first, second = load_engine(plan), load_engine(plan)
    assert first is second
    executions = [Execution(first, 0) for _ in range(2)]

    def serve(index: int) -> bool:
        right = True
        for turn in range(50):
            data = numbers(1 + turn % 8, 8, seed=turn * 2 + index)
            got = executions[index].run([data])[0]
            expected = expect("mlp", tmp_path / str(index), data)[0]
            right &= np.allclose(got, expected, TOLERANCE, TOLERANCE * np.abs(expected).max())
        return bool(right)

    for index in (0, 1):
        (tmp_path / str(index)).mkdir()
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(serve, (0, 1))) == [True, True]


def test_an_instance_publishes_what_the_core_reads_and_runs(tmp_path: Path) -> None:
    plan = build("mlp", tmp_path, max="2;8")
    options = {"tensorrt_engine": plan, "instance_index": 1}
    engine = instantiate(TensorrtInferTensor, {"instance_num": 2, "max": "2;8"}, options)
    assert (engine.min, engine.max, engine.fixed_rows) == (1, 8, None)
    assert [spec.name for spec in engine.inputs] == ["x"]
    staged = engine.staging(5 * 8 * 4)
    assert staged.dtype == np.uint8 and staged.shape == (160,)
    array = staged.view(np.float32).reshape(5, 8)
    array[:] = numbers(5, 8)
    assert_close(engine.run([array])[0], expect("mlp", tmp_path, numbers(5, 8))[0])
    engine.close()


def test_an_instance_without_a_loader_builds_its_own_model(tmp_path: Path) -> None:
    path = build("mlp", tmp_path, max=4).source
    engine = instantiate(
        TensorrtInferTensor, {"model": str(path), "max": 4, "cache_dir": str(tmp_path / "engines")}, {}
    )
    assert_close(engine.run([numbers(3, 8)])[0], expect("mlp", tmp_path, numbers(3, 8))[0])
    engine.close()


def test_closed_instances_give_their_memory_back(tmp_path: Path) -> None:
    def use(turns: int) -> None:
        for _ in range(turns):
            execution = Execution(load("image", tmp_path, min="1x3x8x8", max="8x3x256x256"), 0)
            for _ in range(4):
                execution.run([numbers(1, 3, 8, 8)])
            del execution
            gc.collect()

    use(2)
    before, _ = cuda.call("cudaMemGetInfo")
    use(6)
    after, _ = cuda.call("cudaMemGetInfo")
    assert before - after < 8 << 20


# --- arrays of the card ----------------------------------------------------------------------------


def test_arrays_of_the_card_are_read_where_they_are(tmp_path: Path) -> None:
    data = numbers(3, 8)
    (got,) = Execution(load("mlp", tmp_path, max=8), 0).run([OnCard(data)])
    assert_close(got, expect("mlp", tmp_path, data)[0])


@pytest.mark.parametrize("rows", [5, 8])
def test_parts_are_joined_and_the_last_row_fills_up(tmp_path: Path, rows: int) -> None:
    execution = Execution(load("mlp", tmp_path, max=8), 0)
    parts = [numbers(2, 8), numbers(3, 8, seed=1)]
    joined = execution.join([OnCard(part) for part in parts], rows)
    assert isinstance(joined, DeviceArray) and joined.shape == (rows, 8)
    whole = np.concatenate([*parts, np.repeat(parts[-1][-1:], rows - 5, axis=0)])
    assert_close(execution.run([joined])[0], expect("mlp", tmp_path, whole)[0])


def test_tensors_of_torch_come_through_dlpack(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the package `torch` is not installed")
    data = numbers(3, 8)
    tensor = torch.from_numpy(data).cuda()
    assert view(tensor).is_on_card
    execution = Execution(load("mlp", tmp_path, max=8), 0)
    assert_close(execution.run([tensor])[0], expect("mlp", tmp_path, data)[0])
    scaled = (tensor * 2).t().contiguous().t()
    with pytest.raises(RequestError, match="in one piece"):
        execution.run([scaled])


# --- kernels ---------------------------------------------------------------------------------------


def test_compiled_kernels_are_kept_and_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    loaded = load("image", tmp_path, min="1x3x8x8", max="2x3x16x16")
    if loaded.kernels is None:
        pytest.skip("lacking: a TensorRT that compiles kernels when an engine is first used")
    Execution(loaded, 0)
    path = loaded.kernels.path
    assert path.stat().st_size > 0
    content = path.read_bytes()
    plan = build("image", tmp_path, min="1x3x8x8", max="2x3x16x16")
    for damage in (b"", b"nothing", content[: len(content) // 2]):
        path.write_bytes(damage)
        del loaded
        gc.collect()
        loaded = load_engine(plan, folder=path.parent)
        data = numbers(2, 3, 16, 16)
        assert_close(Execution(loaded, 0).run([data])[0], expect("image", tmp_path, data)[0])
        assert path.read_bytes() != damage
