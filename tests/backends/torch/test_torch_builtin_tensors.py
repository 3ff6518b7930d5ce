"""`FixTensor`, `CatTensor`, `SplitTensor`, `ContiguousTensor`: the same for tensors of torch and arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from torch_samples import DEVICES, levels, needs_gpu, normal, torch

import hami
from backends import onnx_models
from hami.backends.torch.arrays import as_tensor
from hami.errors import RequestError

CAT_SPLIT = "CatSplit[CatTensor, ContiguousTensor, SplitTensor]"
TYPES = ["float32", "float64", "float16", "int8", "int16", "int32", "int64", "uint8", "bool"]
VIEWS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda x: x,
    "every second row": lambda x: x[::2],
    "columns": lambda x: x[:, 2:5],
    "transposed": lambda x: x.T,
    "empty columns": lambda x: x[:, :0],
}


def forms_of(tensor: Any, device: str) -> list[Any]:
    """Return the same numbers as a tensor on the device and, for the CPU, as a numpy array."""
    has_numpy = device == "cpu" and tensor.dtype != torch.bfloat16
    return [tensor.to(device), *([tensor.numpy()] if has_numpy else [])]


def assert_same(result: Any, expected: Any, device: str = "cpu") -> None:
    """Check numbers, type and place of what came out."""
    tensor = as_tensor(result)
    assert tensor.device.type == device
    assert tensor.dtype == expected.dtype and tensor.shape == expected.shape
    assert torch.equal(tensor.cpu(), expected.cpu())


@pytest.fixture
def cat_split() -> Iterator[Any]:
    with hami.pipe({"backend": CAT_SPLIT, "max": 16, "batching_timeout": 20}) as pipe:
        yield pipe


@pytest.fixture
def engine_model(tmp_path: Path) -> str:
    """Give a model whose input `x` is float32 [batch, 8]."""
    return str(onnx_models.write("mlp", tmp_path))


# --- CatTensor, SplitTensor --------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [*TYPES, "bfloat16"])
def test_joining_and_splitting_gives_every_request_its_own_rows(
    cat_split: Any, device: str, dtype: str
) -> None:
    whole = (levels(9, 5) % 2 if dtype == "bool" else levels(9, 5)).to(getattr(torch, dtype))
    rows = [slice(0, 2), slice(2, 3), slice(3, 9)]

    for form in range(len(forms_of(whole, device))):
        requests = [
            {"data": forms_of(whole[part].clone(), device)[form], "request_size": part.stop - part.start}
            for part in rows
        ]
        answers = cat_split(requests)

        for answer, part in zip(answers, rows, strict=True):
            assert_same(answer["result"], whole[part], device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_arrays_of_any_strides_are_joined(cat_split: Any, device: str, view: Callable[[Any], Any]) -> None:
    first, second = (view(normal(6, 6, seed=seed)) for seed in (0, 1))

    for form in range(len(forms_of(first, device))):
        pair = [forms_of(tensor, device)[form] for tensor in (first, second)]
        answers = cat_split([{"data": data, "request_size": len(first)} for data in pair])

        assert_same(answers[0]["result"], first, device)
        assert_same(answers[1]["result"], second, device)


def test_tensors_of_torch_and_arrays_of_numpy_are_joined_with_each_other(cat_split: Any) -> None:
    tensors = [normal(2, 3, seed=seed) for seed in range(4)]
    datas = [tensor if index % 2 else tensor.numpy() for index, tensor in enumerate(tensors)]

    answers = cat_split([{"data": data, "request_size": 2} for data in datas])

    for answer, tensor in zip(answers, tensors, strict=True):
        assert_same(answer["result"], tensor)


@pytest.mark.parametrize("device", DEVICES)
def test_the_backend_between_sees_all_rows_as_one(device: str) -> None:
    with hami.pipe({"backend": "CatSplit[CatTensor, SoftmaxTensor(axis=1), SplitTensor]", "max": 8}) as pipe:
        answers = pipe([{"data": normal(2, 5, seed=seed).to(device), "request_size": 2} for seed in range(3)])

    for seed, answer in enumerate(answers):
        tensor = as_tensor(answer["result"])
        assert tensor.device.type == device
        assert torch.allclose(tensor.cpu(), torch.softmax(normal(2, 5, seed=seed), 1), atol=1e-6)


@pytest.mark.parametrize("device", DEVICES)
def test_a_lone_request_is_joined_with_nobody(cat_split: Any, device: str) -> None:
    for data in forms_of(normal(3, 4), device):
        assert_same(cat_split({"data": data, "request_size": 3})["result"], normal(3, 4), device)


@pytest.mark.parametrize("device", DEVICES)
def test_rows_that_are_not_there_are_the_error_of_their_request(cat_split: Any, device: str) -> None:
    for data in forms_of(normal(3, 4), device):
        with pytest.raises(RequestError) as caught:
            cat_split({"data": data, "request_size": 2})
        assert caught.value.code == "request-rows"
        assert_same(cat_split({"data": data, "request_size": 3})["result"], normal(3, 4), device)


@pytest.mark.parametrize("device", DEVICES)
def test_the_data_of_the_caller_stays_as_it_is(cat_split: Any, device: str) -> None:
    data = normal(2, 4).to(device)
    request = {"data": data, "request_size": 2}

    result = as_tensor(cat_split(request)["result"])

    assert request["data"] is data
    assert torch.equal(data.cpu(), normal(2, 4)) and torch.equal(result.cpu(), normal(2, 4))


@pytest.mark.parametrize("device", DEVICES)
def test_results_outlive_the_pipeline(device: str) -> None:
    with hami.pipe({"backend": CAT_SPLIT, "max": 8}) as pipe:
        answers = pipe([{"data": normal(1, 4, seed=seed).to(device)} for seed in range(4)])
    del pipe

    for seed, answer in enumerate(answers):
        assert_same(answer["result"], normal(1, 4, seed=seed), device)


@needs_gpu
def test_arrays_on_two_devices_never_share_a_batch() -> None:
    with hami.pipe({"backend": f"S[{CAT_SPLIT}]", "max": 2, "batching_timeout": 200}) as pipe:
        here, there = pipe([{"data": normal(1, 4)}, {"data": normal(1, 4, seed=1).cuda()}])
    assert_same(here["result"], normal(1, 4), "cpu")
    assert_same(there["result"], normal(1, 4, seed=1), "cuda")


# --- ContiguousTensor --------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [*TYPES, "bfloat16"])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_the_numbers_come_in_row_major_order(device: str, dtype: str, view: Callable[[Any], Any]) -> None:
    tensor = view((levels(6, 6) % 2).to(getattr(torch, dtype)))

    with hami.pipe("ContiguousTensor") as pipe:
        for data in forms_of(tensor, "cpu") if device == "cpu" else [tensor.to(device)]:
            result = pipe({"data": data})["result"]
            assert_same(result, tensor, device)
            assert as_tensor(result).is_contiguous()


@pytest.mark.parametrize("device", DEVICES)
def test_a_contiguous_tensor_is_not_copied(device: str) -> None:
    tensor = normal(3, 4).to(device)

    with hami.pipe("ContiguousTensor") as pipe:
        result = as_tensor(pipe({"data": tensor})["result"])

    assert result.data_ptr() == tensor.data_ptr()


# --- FixTensor ---------------------------------------------------------------------------------------


def fixed(model: str, data: Any, **keys: Any) -> Any:
    """Return what the engine's neighbour makes of `data` for it."""
    with hami.pipe({"backend": "IoC[OnnxInfer; FixTensor]", "model": model, "max": 8}) as pipe:
        return pipe({"data": data, **keys})["result"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [*TYPES, "bfloat16"])
def test_every_type_is_cast_to_the_one_of_the_engine(engine_model: str, device: str, dtype: str) -> None:
    tensor = (levels(2, 8) % 2).to(getattr(torch, dtype))

    for data in forms_of(tensor, device):
        assert_same(fixed(engine_model, data, request_size=2), tensor.float(), device)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_floats_are_rounded_as_torch_rounds_them(dtype: str) -> None:
    wide = torch.cat([normal(64, 64).flatten() * 10.0**power for power in range(-9, 6)])
    config = {"backend": "IoC[TorchInfer; FixTensor]", "module": "backends.torch_models:Same"}
    with hami.pipe({**config, "inputs": [f"x:{dtype}[-1x61440]"]}) as pipe:
        for data in forms_of(wide[None], "cpu"):
            assert_same(pipe({"data": data})["result"], wide[None].to(getattr(torch, dtype)), "cpu")


def test_a_cast_that_the_core_does_not_have_is_refused_alike(engine_model: str) -> None:
    for data in forms_of(normal(2, 8).to(torch.complex64), "cpu"):
        with pytest.raises(RequestError) as caught:
            fixed(engine_model, data, request_size=2)
        assert caught.value.code == "tensor-dtype" and "`complex64`" in caught.value.message


@pytest.mark.parametrize("device", DEVICES)
def test_one_row_gets_the_axis_of_rows(engine_model: str, device: str) -> None:
    for data in forms_of(normal(8).double(), device):
        assert_same(fixed(engine_model, data), normal(8)[None], device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("view", [lambda x: x.T[:2], lambda x: x[::4], lambda x: x[:2].flip(1)])
def test_arrays_of_any_strides_are_cast(engine_model: str, device: str, view: Callable[[Any], Any]) -> None:
    tensor = view(normal(8, 8).double())

    for data in forms_of(tensor, device):
        assert_same(fixed(engine_model, data, request_size=2), tensor.float(), device)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(2, 7), (2, 3, 8), (), (7,)])
def test_a_shape_that_does_not_fit_names_both(engine_model: str, device: str, shape: tuple[int, ...]) -> None:
    for data in forms_of(torch.zeros(shape), device):
        with pytest.raises(RequestError) as caught:
            fixed(engine_model, data)
        assert caught.value.code == "tensor-shape" and "`float32[?x8]`" in caught.value.message


def test_without_an_engine_a_tensor_passes_as_it_is() -> None:
    tensor = normal(3, 4)

    with hami.pipe("FixTensor") as pipe:
        assert pipe({"data": tensor})["result"] is tensor


@pytest.mark.parametrize("data", ["text", None, 3])
def test_what_is_no_array_is_refused(engine_model: str, data: Any) -> None:
    with pytest.raises(RequestError):
        fixed(engine_model, data)


# --- all of them around an engine --------------------------------------------------------------------


@pytest.mark.parametrize(
    "expression",
    [
        "OnnxInfer",
        "IoC[OnnxInfer; S[FixTensor, OnnxInfer]]",
        "IoC[OnnxInfer; CatSplit[S[FixTensor, CatTensor], S[ContiguousTensor, OnnxInfer], SplitTensor]]",
    ],
)
def test_tensors_of_torch_give_the_answers_of_numpy_arrays(engine_model: str, expression: str) -> None:
    rows = normal(12, 8)
    with hami.pipe({"backend": expression, "model": engine_model, "max": 8}) as pipe:
        from_torch = pipe([{"data": row} for row in rows])
        from_numpy = pipe([{"data": row} for row in rows.numpy()])

    for one, other in zip(from_torch, from_numpy, strict=True):
        np.testing.assert_allclose(
            np.asarray(one["result"]), np.asarray(other["result"]), rtol=1e-5, atol=1e-6
        )
