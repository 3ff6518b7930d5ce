"""Whatever callers hand over as an array becomes a tensor with the same numbers, or a typed error."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from torch_samples import DEVICES, HAS_GPU, needs_gpu, normal, torch

from hami.backends.torch.arrays import as_tensor, cuda_devices, describe
from hami.errors import RequestError

NUMPY_TYPES = [
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "float32",
    "float64",
    "complex64",
]


class OnlyDlpack:
    """An array that offers DLPack and nothing else, as those of other frameworks do."""

    def __init__(self, tensor: Any) -> None:
        self.tensor = tensor

    def __dlpack__(self, **options: Any) -> Any:
        return self.tensor.__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self.tensor.__dlpack_device__()


class OnlyArray:
    """An object that numpy can turn into an array, such as a data frame."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.arange(3, dtype=np.float32)


class Broken:
    """An object that promises an array and does not keep it."""

    __dlpack__ = None

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


def error_of(value: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        as_tensor(value)
    return caught.value


@pytest.mark.parametrize("name", NUMPY_TYPES)
def test_every_element_type_keeps_its_name_and_its_numbers(name: str) -> None:
    array = np.array([[0, 1, 1], [1, 0, 1]], name)

    tensor = as_tensor(array)

    assert describe(tensor) == f"{name}[2x3]"
    assert np.array_equal(tensor.numpy(), array)


def test_bfloat16_of_numpy_becomes_bfloat16_of_torch() -> None:
    array = np.array([1.5, -2.0, 3.25], ml_dtypes.bfloat16)

    tensor = as_tensor(array)

    assert tensor.dtype == torch.bfloat16
    assert tensor.tolist() == [1.5, -2.0, 3.25]


def test_memory_is_shared_where_it_can_be() -> None:
    array = np.zeros(4, np.float32)
    tensor = torch.zeros(4)

    as_tensor(array)[0] = 7
    as_tensor(OnlyDlpack(tensor))[1] = 8

    assert array[0] == 7 and tensor[1] == 8
    assert as_tensor(tensor) is tensor


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x[:, ::-1],
        lambda x: x[::-2],
        lambda x: x.T,
        lambda x: x[:, 1:3],
        lambda x: np.broadcast_to(x[:1], x.shape),
        lambda x: x.astype(">f4"),
        lambda x: np.asfortranarray(x),
        lambda x: x[:0],
    ],
    ids=[
        "reversed",
        "every second row from the end",
        "transposed",
        "columns",
        "broadcast",
        "big endian",
        "fortran",
        "empty",
    ],
)
def test_arrays_of_any_strides_and_byte_order_keep_their_numbers(view: Any) -> None:
    array = view(normal(4, 6).numpy())

    assert np.array_equal(as_tensor(array).numpy(), array)


def test_the_fields_of_records_are_arrays_too() -> None:
    records = np.zeros(3, [("flag", "u1"), ("score", "<f4")])
    records["score"] = [1, 2, 3]

    assert as_tensor(records["score"]).tolist() == [1, 2, 3]


def test_a_read_only_array_is_copied_so_that_nobody_writes_to_it() -> None:
    array = np.arange(4)
    array.setflags(write=False)

    as_tensor(array)[0] = 9

    assert array[0] == 0


@pytest.mark.parametrize(
    ("value", "shape", "dtype"),
    [
        (3, (), "int64"),
        (2.5, (), "float32"),
        (True, (), "bool"),
        (np.float64(2.5), (), "float64"),
        ([1, 2, 3], (3,), "int64"),
        ([[1.0, 2.0], [3.0, 4.0]], (2, 2), "float32"),
        (((1, 2), (3, 4)), (2, 2), "int64"),
        ([np.zeros(2, np.int8), np.ones(2, np.int8)], (2, 2), "int8"),
    ],
)
def test_numbers_and_lists_of_them_are_arrays(value: Any, shape: tuple[int, ...], dtype: str) -> None:
    tensor = as_tensor(value)

    assert tuple(tensor.shape) == shape
    assert tensor.dtype == getattr(torch, dtype)


def test_whatever_numpy_takes_is_an_array() -> None:
    assert as_tensor(OnlyArray()).tolist() == [0, 1, 2]


def test_gradients_are_left_behind() -> None:
    tensor = torch.ones(2, requires_grad=True)

    assert not as_tensor(tensor).requires_grad
    assert tensor.requires_grad


@pytest.mark.parametrize("value", [None, "text", b"bytes", bytearray(3), {"x": 1}, object(), len, Broken()])
def test_what_is_no_array_is_refused_by_the_name_of_its_type(value: Any) -> None:
    error = error_of(value)

    assert error.code == "tensor-expected"
    assert f"`{type(value).__name__}`" in error.message and error.help


def test_bytes_are_told_of_the_decoder() -> None:
    assert "DecodeTensor" in error_of(b"\xff\xd8\xff").help


@pytest.mark.parametrize(
    "value", [[[1, 2], [3]], ["a", "b"], [1, "a"], [None], [10**30], [np.zeros(2), np.zeros(3)]]
)
def test_lists_that_make_no_array_are_refused(value: list[Any]) -> None:
    assert error_of(value).code == "tensor-expected"


@pytest.mark.parametrize("name", ["datetime64[s]", "U3", "S3", "O", "longdouble"])
def test_element_types_that_torch_does_not_have_are_refused_by_name(name: str) -> None:
    array = np.zeros(2, name)

    error = error_of(array)

    assert error.code == "tensor-dtype"
    assert str(array.dtype) in error.message


@pytest.mark.parametrize("kind", ["sparse_coo", "meta"])
def test_tensors_without_plain_memory_are_refused(kind: str) -> None:
    value = torch.eye(2).to_sparse() if kind == "sparse_coo" else torch.empty(2, device="meta")

    assert f"`{kind}`" in error_of(value).message


@pytest.mark.parametrize("device", DEVICES)
def test_a_dlpack_object_stays_on_its_device(device: str) -> None:
    tensor = normal(3, 4).to(device)

    taken = as_tensor(OnlyDlpack(tensor))

    assert taken.device == tensor.device
    assert torch.equal(taken, tensor)


def test_arrays_of_the_cpu_are_on_no_gpu() -> None:
    assert (
        cuda_devices([np.zeros(2), {"x": torch.zeros(2)}, OnlyDlpack(torch.zeros(2)), 3, "text", None])
        == set()
    )


@needs_gpu
def test_gpus_are_found_inside_dicts_and_lists() -> None:
    first = torch.zeros(2, device="cuda")

    assert cuda_devices({"a": [np.zeros(2), first]}) == {first.device}
    assert cuda_devices(OnlyDlpack(first)) == {first.device}


@pytest.mark.skipif(not HAS_GPU or torch.cuda.device_count() < 2, reason="needs two GPUs that torch can use")
def test_several_gpus_are_found() -> None:
    tensors = [torch.zeros(2, device="cuda:0"), torch.zeros(2, device="cuda:1")]

    assert cuda_devices(tensors) == {tensor.device for tensor in tensors}
