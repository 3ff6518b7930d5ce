"""The family's own text: a loader by suffix, and one engine for a whole batch."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hami
from backends import onnx_models
from hami.errors import BuildError

from .card import TOLERANCE, expect, lacking_for_engines, numbers

pytest.importorskip(
    "tensorrt_rtx_bindings", reason="the packages `tensorrt-rtx-cu13-libs` and `-bindings` are not installed"
)

TEXT = """
IoCV0[ModelLoadder[(.onnx)Onnx2Tensorrt,(.trt)LoadTensorrtEngine], TensorrtInferTensor;
      CatSplit[S_v0[FixTensor,CatTensor],
               S_v0[ContiguousTensor,TensorrtInferTensor,ProxyFromParam[post_processor]],SplitTensor]]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the folder of the cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "hami" / "tensorrt"


def config(model: Path, **params: Any) -> dict[str, Any]:
    return {"backend": TEXT, "model": str(model), "max": 8, **params}


# --- anywhere --------------------------------------------------------------------------------------


def test_an_engine_file_goes_to_its_loader_and_an_onnx_file_to_the_other(tmp_path: Path) -> None:
    for suffix, code in ((".trt", "tensorrt-engine-file"), (".onnx", "tensorrt-model")):
        path = tmp_path / f"broken{suffix}"
        path.write_bytes(b"nothing of use")
        with pytest.raises(BuildError) as caught:
            hami.pipe(config(path))
        assert caught.value.code == code
        assert str(path) in caught.value.message


def test_where_no_engine_runs_the_text_builds_it_and_says_what_is_lacking(
    tmp_path: Path, folder: Path
) -> None:
    if not lacking_for_engines():
        pytest.skip("lacking: a machine on which no engine runs")
    with pytest.raises(BuildError) as caught:
        hami.pipe(config(onnx_models.write("mlp", tmp_path)))
    assert caught.value.code in ("tensorrt-device", "tensorrt-engine-file")
    assert len(list(folder.glob("mlp-*.trt"))) == 1


# --- on a card -------------------------------------------------------------------------------------


@pytest.fixture
def card() -> None:
    if lacking_for_engines():
        pytest.skip(f"lacking: {lacking_for_engines()}")


@pytest.mark.usefixtures("card")
@pytest.mark.parametrize("instances", [1, 2])
def test_the_text_answers_like_the_framework_from_both_kinds_of_file(
    tmp_path: Path, folder: Path, instances: int
) -> None:
    path = onnx_models.write("mlp", tmp_path)
    data = numbers(40, 8)
    (right,) = expect(path, tmp_path, data)
    for model in (path, None):
        engine = model or next(folder.glob("mlp-*.trt"))
        with (
            hami.pipe(config(engine, instance_num=instances)) as pipe,
            ThreadPoolExecutor(8) as callers,
        ):
            found = list(callers.map(lambda row: pipe({"data": row})["result"], data))
        np.testing.assert_allclose(
            np.stack(found), right, rtol=TOLERANCE, atol=TOLERANCE * np.abs(right).max()
        )


@pytest.mark.usefixtures("card")
def test_rows_that_are_joined_before_the_engine_come_back_to_their_requests(tmp_path: Path) -> None:
    path = onnx_models.write("mlp", tmp_path)
    with hami.pipe(config(path)) as pipe:
        arrays = [numbers(rows, 8, seed=rows) for rows in (1, 3, 2)]
        requests = [{"data": array, "request_size": len(array)} for array in arrays]
        pipe(requests)
    for request, array in zip(requests, arrays, strict=True):
        (right,) = expect(path, tmp_path, array)
        assert request["result"].shape == right.shape
        np.testing.assert_allclose(
            request["result"], right, rtol=TOLERANCE, atol=TOLERANCE * np.abs(right).max()
        )


@pytest.mark.usefixtures("card")
def test_tensors_of_the_card_are_answered_like_arrays_of_the_cpu(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="the package `torch` is not installed")
    path = onnx_models.write("mlp", tmp_path)
    data = numbers(12, 8)
    (right,) = expect(path, tmp_path, data)
    with (
        hami.pipe({"backend": "TensorrtInferTensor", "model": str(path), "max": 8}) as pipe,
        ThreadPoolExecutor(6) as callers,
    ):
        tensors = torch.from_numpy(data).cuda()
        found = list(callers.map(lambda row: np.asarray(pipe({"data": row})["result"]), tensors))
    np.testing.assert_allclose(np.stack(found), right, rtol=TOLERANCE, atol=TOLERANCE * np.abs(right).max())
