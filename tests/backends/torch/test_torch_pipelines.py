"""The tensor operations in pipelines: parameters, batches with a bad item, chains, lazy import."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_samples import quarters, saved, smooth
from torch_samples import DEVICES, array_of, levels, needs_gpu, needs_no_gpu, normal, torch

import hami

README = Path(__file__).resolve().parents[3] / "backends" / "torch" / "README.md"
GOOD = saved(smooth(), "PNG")


@pytest.mark.parametrize("device", DEVICES)
def test_decode_resize_softmax_is_one_expression(device: str) -> None:
    with hami.pipe(
        {"backend": "S[DecodeTensor, ResizeTensor(8, 12), ArgMaxTensor(axis=0), CpuTensor]", "device": device}
    ) as pipe:
        largest = pipe({"data": saved(quarters(), "PNG")})["result"]

    assert largest.shape == (8, 12) and largest.dtype == torch.int64
    assert int(largest[0, 0]) == 0 and int(largest[0, -1]) == 1 and int(largest[-1, 0]) == 2


@pytest.mark.parametrize("device", DEVICES)
def test_the_expressions_of_the_readme_run(device: str) -> None:
    text = README.read_text(encoding="utf-8")
    expressions = re.findall(r"```hami\n((?:S|With)\[.*?\])\n```", text, re.DOTALL)
    assert expressions

    for expression in expressions:
        if device == "cpu" and "GpuTensor" in expression:
            continue
        with hami.pipe({"backend": expression.replace("\n", " "), "device": device}) as pipe:
            answer = pipe({"data": GOOD, "boxes": [[0, 0, 9, 9]]})
        assert answer["result"] is not None


def test_the_same_tensor_travels_through_nodes_of_the_core() -> None:
    tensor = normal(3, 4)

    with hami.pipe("S[Identity, CpuTensor, SyncTensor, Identity]") as pipe:
        assert pipe({"data": tensor})["result"] is tensor


@pytest.mark.parametrize("device", DEVICES)
def test_results_are_tensors_on_the_device_of_the_data(device: str) -> None:
    with hami.pipe("S[SoftmaxTensor, Identity]") as pipe:
        result = pipe({"data": normal(4).to(device)})["result"]
        from_numpy = pipe({"data": normal(4).numpy()})["result"]

    assert isinstance(result, torch.Tensor) and result.device.type == device
    assert np.allclose(np.asarray(from_numpy), array_of(result), atol=1e-7)


@pytest.mark.parametrize("settings", [{}, {"max": 4}, {"max": 4, "instance_num": 2}])
def test_good_arrays_around_a_bad_one_get_their_results(settings: dict[str, int]) -> None:
    first, wrong, last = {"data": normal(9)}, {"data": "text"}, {"data": normal(9)}

    with hami.pipe({"backend": "S[SoftmaxTensor, ArgMaxTensor]", **settings}) as pipe:
        with pytest.raises(hami.RequestError) as caught:
            pipe([first, wrong, last])
        again = pipe({"data": normal(9)})["result"]

    assert caught.value.code == "tensor-expected"
    assert "result" not in wrong
    assert int(first["result"]) == int(last["result"]) == int(again) == int(normal(9).argmax())


def test_the_score_of_the_best_reaches_the_caller() -> None:
    with hami.pipe("S[SoftmaxTensor, ArgMaxTensor(top=2)]") as pipe:
        answer = pipe({"data": np.array([0.0, 2.0, 1.0], np.float32)})

    assert np.asarray(answer["result"]).tolist() == [1, 2]
    assert np.asarray(answer["score"]).tolist() == pytest.approx([0.6652, 0.2447], abs=1e-4)


def test_boxes_of_a_request_are_cut_out_and_run_one_by_one() -> None:
    config = {
        "cut": {"backend": "CropTensor", "next": "each"},
        "each": {"backend": "ForEach(key=data, target=small)"},
        "small": {"backend": "ResizeTensor(4, 4)", "max": 8},
    }
    picture = levels(3, 20, 30)

    with hami.pipe(config) as pipe:
        results = pipe({"data": picture, "boxes": [[0, 0, 4, 4], [10, 10, 30, 20], [5, 5, 9, 9]]})["result"]

    assert [tuple(np.asarray(result).shape) for result in results] == [(3, 4, 4)] * 3
    assert np.array_equal(np.asarray(results[0]), picture[:, :4, :4].numpy())


@pytest.mark.parametrize(
    ("expression", "word"),
    [
        ("ResizeTensor(224)", "width"),
        ("ResizeTensor(0, 5)", "height"),
        ("ResizeTensor(8, 8, interpolation=lanczos)", "linear"),
        ("SoftmaxTensor(axes=1)", "axis"),
        ("ArgMaxTensor(top=0)", "top"),
        ("GpuTensor(dtype=float31)", "float32"),
        ("DecodeTensor(color=cmyk)", "bgr"),
        ("IndexSelectTensor(indices=a)", "indices"),
        ("CropTensor(box=1)", "box"),
        ("CpuTensor(device=cpu)", "device"),
        ("ResizTensor(4, 4)", "ResizeTensor"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_runs(expression: str, word: str) -> None:
    with pytest.raises(hami.ConfigError, match=re.escape(word)):
        hami.pipe(expression)


@needs_no_gpu
@pytest.mark.parametrize("expression", ["GpuTensor", "DecodeTensor", "GpuTensor(device=cuda:3)"])
def test_a_gpu_that_is_not_there_is_refused_with_the_node(expression: str) -> None:
    with pytest.raises(hami.BuildError, match="cuda:"):
        hami.pipe({"upload": {"backend": expression}})


def test_many_callers_get_their_own_answer() -> None:
    arrays = [normal(3, 10 + seed % 3, 12, seed=seed) for seed in range(60)]

    with (
        hami.pipe({"backend": "ResizeTensor(5, 7)", "instance_num": 2, "max": 8}) as pipe,
        ThreadPoolExecutor(8) as callers,
    ):
        answers = list(callers.map(lambda array: pipe({"data": array})["result"], arrays))

    with hami.pipe("ResizeTensor(5, 7)") as alone:
        for array, answer in zip(arrays, answers, strict=True):
            assert torch.equal(answer, alone({"data": array})["result"])


def test_torch_is_loaded_with_the_first_text_that_names_one_of_its_backends() -> None:
    script = (
        "import sys, hami; hami.pipe('Identity').close(); assert 'torch' not in sys.modules;"
        "hami.pipe('SoftmaxTensor').close(); assert 'torch' in sys.modules;"
        "assert 'cv2' not in sys.modules and 'torchvision' not in sys.modules"
    )

    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


# --- on a GPU ----------------------------------------------------------------------------------------


@needs_gpu
def test_many_callers_get_their_own_answer_from_the_gpu() -> None:
    arrays = [normal(3, 100 + seed % 3, 120, seed=seed) for seed in range(200)]
    config = {"backend": "S[GpuTensor, ResizeTensor(50, 70), CpuTensor]", "instance_num": 4, "max": 8}

    with hami.pipe(config) as pipe, ThreadPoolExecutor(16) as callers:
        answers = list(callers.map(lambda array: pipe({"data": array.numpy()})["result"], arrays))

    with hami.pipe("ResizeTensor(50, 70)") as alone:
        for array, answer in zip(arrays, answers, strict=True):
            expected: Any = alone({"data": array})["result"]
            assert torch.allclose(answer, expected, atol=1e-5)


@needs_gpu
def test_nodes_hand_tensors_on_without_leaving_the_gpu() -> None:
    config = {
        "upload": {"backend": "GpuTensor", "next": "resize", "instance_num": 2},
        "resize": {
            "backend": "With[StreamPool(max_stream=2), ResizeTensor(8, 8)]",
            "next": "score",
            "max": 4,
        },
        "score": {"backend": "SoftmaxTensor(axis=0)", "max": 4},
    }
    with hami.pipe(config) as pipe:
        answers = pipe([{"data": normal(3, 30, 40, seed=seed).numpy()} for seed in range(20)])

    with hami.pipe("S[ResizeTensor(8, 8), SoftmaxTensor(axis=0)]") as alone:
        for seed, answer in enumerate(answers):
            assert answer["result"].is_cuda
            expected = alone({"data": normal(3, 30, 40, seed=seed)})["result"]
            assert torch.allclose(answer["result"].cpu(), expected, atol=1e-5)
