"""`CpuTensor`, `GpuTensor`, `SyncTensor`: the numbers stay, the place is right, and the copy is complete."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_samples import (
    DEVICES,
    HAS_GPU,
    levels,
    make,
    needs_gpu,
    needs_no_gpu,
    normal,
    outcome,
    result_of,
    run,
    torch,
)

from hami.backends.torch import CpuTensor, GpuTensor, SyncTensor
from hami.backends.torch.device import ELEMENT_TYPES, find_device
from hami.errors import BuildError, ConfigError, RequestError

MOVERS = [(CpuTensor, "cpu"), pytest.param(GpuTensor, "cuda", marks=needs_gpu)]


def test_a_numpy_array_is_on_the_cpu_already_and_stays_what_it_is() -> None:
    array = np.arange(3)

    assert result_of(CpuTensor, array) is array


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", list(ELEMENT_TYPES))
def test_cpu_tensor_keeps_numbers_and_type(device: str, dtype: str) -> None:
    tensor = (levels(2, 5) % 2).to(ELEMENT_TYPES[dtype])

    moved = result_of(CpuTensor, tensor.to(device))

    assert moved.device.type == "cpu" and moved.dtype == tensor.dtype
    assert torch.equal(moved, tensor)


@pytest.mark.parametrize("device", DEVICES)
def test_cpu_tensor_takes_arrays_of_any_strides(device: str) -> None:
    tensor = normal(4, 6).to(device)

    for view in (tensor.T, tensor[::2, 1:4], tensor[:1].expand(5, 6), tensor[:0]):
        assert torch.equal(result_of(CpuTensor, view), view.cpu())


def test_lists_of_numbers_become_one_array() -> None:
    assert torch.equal(result_of(CpuTensor, [[1, 2], [3, 4]]), torch.tensor([[1, 2], [3, 4]]))


@pytest.mark.parametrize(("mover", "device"), MOVERS)
def test_the_arrays_of_a_dict_move_each_for_itself(mover: type, device: str) -> None:
    moved = result_of(mover, {"boxes": normal(2, 4), "scores": [0.5, 0.25], "inner": {"ids": np.arange(2)}})

    assert set(moved) == {"boxes", "scores", "inner"}
    assert torch.equal(moved["boxes"].cpu(), normal(2, 4))
    assert moved["scores"].tolist() == [0.5, 0.25]
    assert moved["inner"]["ids"].tolist() == [0, 1]
    assert moved["boxes"].device.type == device


@pytest.mark.parametrize(("mover", "device"), MOVERS)
def test_a_list_of_arrays_stays_a_list_whatever_their_shapes(mover: type, device: str) -> None:
    moved = result_of(mover, [normal(3, 2, 2), normal(3, 4, 1)])

    assert isinstance(moved, list)
    assert [tuple(part.shape) for part in moved] == [(3, 2, 2), (3, 4, 1)]
    assert {part.device.type for part in moved} == {device}
    assert result_of(mover, []) == []


@pytest.mark.parametrize(("mover", "device"), MOVERS)
def test_what_is_no_array_fails_alone(mover: type, device: str) -> None:
    first, bad, worse, last = run(mover, normal(2), "text", {"x": b"bytes"}, normal(2, seed=1))

    assert bad["error"].code == worse["error"].code == "tensor-expected"
    assert torch.equal(outcome(first).cpu(), normal(2))
    assert torch.equal(outcome(last).cpu(), normal(2, seed=1))


@pytest.mark.parametrize(("mover", "device"), [*MOVERS, (SyncTensor, "cpu")])
def test_an_item_without_data_fails_alone(mover: type, device: str) -> None:
    batch: list[dict[str, Any]] = [{"data": normal(2)}, {}]

    make(mover).forward(batch)

    assert "result" in batch[0]
    assert isinstance(batch[1]["error"], RequestError) and batch[1]["error"].code == "request-missing-key"


def test_the_data_of_the_caller_stays_as_it_is() -> None:
    tensor = normal(4)
    before = tensor.clone()

    result_of(CpuTensor, tensor)

    assert torch.equal(tensor, before)


# --- devices -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value", ["", "gpu", "cuda:", "cuda:x", "cuda:-1", "CPU", "cpu:1", "1.5", -1, 1.5, True, None, "cuda:1:2"]
)
def test_a_name_that_is_no_device_is_refused(value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        find_device(value)

    assert caught.value.code == "device-name"
    assert f"`{value}`" in caught.value.message


def test_the_cpu_is_always_there() -> None:
    assert find_device("cpu") == torch.device("cpu")


@pytest.mark.parametrize("value", ["cuda:999", 999, "999"])
def test_a_gpu_that_is_not_there_is_refused_when_the_pipeline_is_made(value: Any) -> None:
    with pytest.raises(BuildError) as caught:
        make(GpuTensor, device=value)

    assert caught.value.code == "device-missing"
    assert "`cuda:999`" in caught.value.message and "cpu" in caught.value.help


@needs_no_gpu
@pytest.mark.parametrize("value", ["cuda", "cuda:0", 0, "0"])
def test_without_gpu_there_is_not_even_the_first(value: Any) -> None:
    with pytest.raises(BuildError, match="`cuda:0`"):
        make(GpuTensor, device=value)


def test_gpu_tensor_wants_a_gpu() -> None:
    with pytest.raises(BuildError, match="CpuTensor"):
        make(GpuTensor, device="cpu")


@needs_gpu
@pytest.mark.parametrize("value", ["cuda", "cuda:0", 0, "0"])
def test_the_first_gpu_has_several_names(value: Any) -> None:
    assert find_device(value) == torch.device("cuda", 0)


# --- on a GPU ----------------------------------------------------------------------------------------


@needs_gpu
@pytest.mark.parametrize("dtype", list(ELEMENT_TYPES))
def test_every_type_arrives_on_the_gpu_and_comes_back(dtype: str) -> None:
    tensor = (levels(3, 7) % 2).to(ELEMENT_TYPES[dtype])

    there = result_of(GpuTensor, tensor)

    assert there.is_cuda and there.dtype == tensor.dtype
    assert torch.equal(result_of(CpuTensor, there), tensor)


@needs_gpu
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int64"])
def test_dtype_converts_as_torch_does(dtype: str) -> None:
    moved = result_of(GpuTensor, levels(2, 3), dtype=dtype)

    assert torch.equal(moved.cpu(), levels(2, 3).to(ELEMENT_TYPES[dtype]))


@needs_gpu
@pytest.mark.parametrize(
    "view", [lambda x: x.T, lambda x: x[::-1, ::2], lambda x: np.broadcast_to(x[:1], (9, 6))]
)
def test_numpy_arrays_of_any_strides_arrive(view: Any) -> None:
    array = view(normal(4, 6).numpy())

    assert np.array_equal(result_of(GpuTensor, array).cpu().numpy(), array)


@needs_gpu
def test_pinned_memory_and_tensors_on_the_gpu_are_not_staged_again() -> None:
    pinned, there = normal(5).pin_memory(), normal(5).cuda()

    assert torch.equal(result_of(GpuTensor, pinned).cpu(), normal(5))
    assert result_of(GpuTensor, there).data_ptr() == there.data_ptr()


@needs_gpu
def test_a_large_batch_arrives_whole() -> None:
    arrays = [normal(512, 1024, seed=seed).numpy() for seed in range(16)]

    for item, array in zip(run(GpuTensor, *arrays), arrays, strict=True):
        assert np.array_equal(outcome(item).cpu().numpy(), array)


@needs_gpu
def test_the_result_is_complete_when_forward_returns() -> None:
    batch = [{"data": normal(2048, 2048).numpy()}]
    mover = make(GpuTensor)
    mover.forward(batch)

    other = torch.cuda.Stream()
    with torch.cuda.stream(other):  # a stream that waits for nobody
        copy = batch[0]["result"].clone()
    other.synchronize()

    assert torch.equal(copy.cpu(), normal(2048, 2048))


@pytest.mark.skipif(not HAS_GPU or torch.cuda.device_count() < 2, reason="needs two GPUs that torch can use")
def test_a_tensor_moves_from_one_gpu_to_another() -> None:
    there = result_of(GpuTensor, normal(1000).to("cuda:0"), device="cuda:1")

    assert there.device == torch.device("cuda:1")
    assert torch.equal(there.cpu(), normal(1000))


# --- SyncTensor --------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [3, "text", None, [1, "a"], {"x": np.zeros(2)}, b"bytes"])
def test_sync_tensor_hands_on_whatever_it_gets(value: Any) -> None:
    assert result_of(SyncTensor, value) is value


@needs_gpu
def test_sync_tensor_waits_for_the_current_stream_of_its_thread() -> None:
    stream = torch.cuda.Stream()
    matrix = torch.eye(2048, device="cuda")
    with torch.cuda.stream(stream):
        work = matrix
        for _ in range(50):
            work = work @ matrix
        is_over = torch.cuda.Event()
        is_over.record(stream)

        result_of(SyncTensor, work)

        assert is_over.query()


@needs_gpu
def test_sync_tensor_waits_for_copies_to_the_cpu_as_well() -> None:
    source = normal(2048, 2048).cuda()
    torch.cuda.synchronize()

    copy = torch.empty(source.shape, pin_memory=True).copy_(source, non_blocking=True)

    assert torch.equal(result_of(SyncTensor, copy), normal(2048, 2048))
