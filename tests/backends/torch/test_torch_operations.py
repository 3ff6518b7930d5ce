"""`SoftmaxTensor`, `ArgMaxTensor`, `IndexSelectTensor`: the same numbers in any company, on any device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_samples import DEVICES, array_of, levels, make, needs_gpu, normal, outcome, result_of, run, torch

from hami.backends.torch import ArgMaxTensor, IndexSelectTensor, SoftmaxTensor
from hami.errors import ConfigError, RequestError

TOLERANCES = {torch.float32: 1e-6, torch.float64: 1e-12, torch.float16: 2e-3, torch.bfloat16: 1e-2}


def error_of(backend: type, data: Any, **params: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        result_of(backend, data, **params)
    return caught.value


def plain_softmax(values: np.ndarray, axis: int) -> np.ndarray:
    """Return the definition in double precision."""
    shifted = np.exp(values.astype(np.float64) - values.max(axis, keepdims=True))
    return shifted / shifted.sum(axis, keepdims=True)


# --- softmax -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", list(TOLERANCES), ids=str)
@pytest.mark.parametrize(
    ("shape", "axis"), [((10,), -1), ((3, 1000), -1), ((3, 1000), 0), ((2, 5, 7), 1), ((2, 5, 7), -3)]
)
def test_softmax_is_the_definition(device: str, dtype: Any, shape: tuple[int, ...], axis: int) -> None:
    scores = normal(*shape).to(dtype)

    result = result_of(SoftmaxTensor, scores.to(device), axis=axis)

    assert result.dtype == dtype and result.device.type == device
    expected = plain_softmax(scores.double().numpy(), axis)
    assert np.abs(result.cpu().double().numpy() - expected).max() < TOLERANCES[dtype]


@pytest.mark.parametrize("device", DEVICES)
def test_large_scores_do_not_overflow(device: str) -> None:
    result = result_of(SoftmaxTensor, torch.tensor([1e4, 1e4, -1e4], device=device))

    assert result.tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("device", DEVICES)
def test_a_numpy_array_gives_what_a_tensor_gives(device: str) -> None:
    scores = normal(4, 9)

    from_numpy = result_of(SoftmaxTensor, scores.numpy())

    assert isinstance(from_numpy, torch.Tensor)
    assert torch.allclose(from_numpy, result_of(SoftmaxTensor, scores.to(device)).cpu(), atol=1e-7)


def test_softmax_of_nothing_is_nothing() -> None:
    assert result_of(SoftmaxTensor, torch.zeros(0, 4)).shape == (0, 4)


@pytest.mark.parametrize(
    "data", [levels(3), torch.zeros(2, dtype=torch.complex64), torch.tensor([True])], ids=str
)
def test_softmax_takes_floats_only(data: Any) -> None:
    assert error_of(SoftmaxTensor, data).code == "tensor-dtype"


# --- the largest -------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("shape", "axis"), [((10,), -1), ((3, 100), -1), ((3, 100), 0), ((2, 5, 7), 1)])
def test_the_largest_and_its_value_are_found(device: str, shape: tuple[int, ...], axis: int) -> None:
    scores = normal(*shape)

    (item,) = run(ArgMaxTensor, scores.to(device), axis=axis)

    assert item["result"].dtype == torch.int64 and item["result"].device.type == device
    assert np.array_equal(array_of(item["result"]), scores.numpy().argmax(axis))
    assert np.array_equal(array_of(item["score"]), scores.numpy().max(axis))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "int64", "uint8", "bool"])
def test_every_type_that_has_an_order_has_a_largest(device: str, dtype: str) -> None:
    values = torch.tensor([0, 1, 0], device=device).to(getattr(torch, dtype))

    (item,) = run(ArgMaxTensor, values)

    assert item["result"].item() == 1
    assert item["score"].dtype == values.dtype and item["score"].item() == 1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("axis", [-1, 0])
def test_the_best_few_come_in_order(device: str, axis: int) -> None:
    scores = normal(50, 60)

    (item,) = run(ArgMaxTensor, scores.to(device), top=5, axis=axis)

    order = np.argsort(-scores.numpy(), axis, kind="stable")
    expected = np.take(order, range(5), axis)
    assert np.array_equal(array_of(item["result"]), expected)
    assert np.array_equal(array_of(item["score"]), np.take_along_axis(scores.numpy(), expected, axis))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("top", [1, 3])
def test_of_equal_values_the_first_is_the_larger(device: str, top: int) -> None:
    values = torch.zeros(5000, device=device)
    values[[70, 900, 4000]] = 1

    result = result_of(ArgMaxTensor, values, top=top)

    assert result.reshape(-1).tolist() == [70, 900, 4000][:top]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("top", [1, 2])
def test_nan_is_larger_than_every_number(device: str, top: int) -> None:
    values = torch.tensor([1.0, float("inf"), float("nan"), 2.0], device=device)

    assert result_of(ArgMaxTensor, values, top=top).reshape(-1).tolist() == [2, 1][:top]


def test_a_single_number_is_its_own_largest() -> None:
    (item,) = run(ArgMaxTensor, 3.5)

    assert item["result"].item() == 0 and item["score"].item() == 3.5


@pytest.mark.parametrize("device", DEVICES)
def test_results_of_top_1_have_no_axis_of_their_own(device: str) -> None:
    assert result_of(ArgMaxTensor, normal(4, 9).to(device)).shape == (4,)
    assert result_of(ArgMaxTensor, normal(9).to(device)).shape == ()
    assert result_of(ArgMaxTensor, normal(4, 9).to(device), top=2).shape == (4, 2)


@pytest.mark.parametrize(
    ("shape", "params"),
    [((0,), {}), ((3, 0), {}), ((4,), {"top": 5}), ((9, 4), {"top": 5}), ((), {"top": 2})],
)
def test_too_few_elements_are_refused(shape: tuple[int, ...], params: dict[str, int]) -> None:
    error = error_of(ArgMaxTensor, torch.zeros(shape), **params)

    assert error.code == "tensor-shape" and "fewer than" in error.message


# --- picking -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("indices", "axis", "expected"),
    [
        ("0,2", 0, [0, 2]),
        ("[2, 0, 0]", 1, [2, 0, 0]),
        ([-1], 0, [-1]),
        (1, -1, [1]),
        ("-2", 2, [-2]),
    ],
)
def test_the_named_elements_come_in_the_named_order(
    device: str, indices: Any, axis: int, expected: list[int]
) -> None:
    data = normal(3, 4, 5)

    result = result_of(IndexSelectTensor, data.to(device), indices=indices, axis=axis)

    assert result.device.type == device
    assert np.array_equal(array_of(result), np.take(data.numpy(), expected, axis))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "given",
    [
        [2, 0],
        (2, 0),
        np.array([2, 0]),
        np.array([2, 0], np.uint8),
        torch.tensor([2, 0], dtype=torch.int32),
        [2, -4],
    ],
    ids=["list", "tuple", "numpy", "uint8", "int32 tensor", "negative"],
)
def test_a_request_may_bring_its_own_indices(device: str, given: Any) -> None:
    data = normal(4, 3)
    batch = [{"data": data.to(device), "indices": given}]

    make(IndexSelectTensor).forward(batch)

    assert np.array_equal(array_of(outcome(batch[0])), data.numpy()[[2, 0]])


def test_no_indices_pick_nothing_and_one_index_keeps_its_axis() -> None:
    batch = [{"data": normal(4, 3), "indices": []}, {"data": normal(4, 3), "indices": 2}]

    make(IndexSelectTensor).forward(batch)

    assert [tuple(item["result"].shape) for item in batch] == [(0, 3), (1, 3)]


@pytest.mark.parametrize("index", [4, -5, 10**12])
def test_an_index_outside_is_the_error_of_its_item(index: int) -> None:
    bad, good = run(IndexSelectTensor, normal(4), normal(3, seed=1), indices=index)

    assert bad["error"].code == good["error"].code == "tensor-shape"
    assert f"`{index}`" in bad["error"].message


def test_an_index_outside_of_one_item_leaves_the_others_alone() -> None:
    small, large = run(IndexSelectTensor, normal(4), normal(8), indices=5)

    assert small["error"].code == "tensor-shape"
    assert large["result"].tolist() == normal(8)[[5]].tolist()


@pytest.mark.parametrize("value", ["", "a", "1,b", "1.5", [1.5], [], [True], {"a": 1}, [[1]]])
def test_indices_that_are_no_whole_numbers_are_refused_when_the_pipeline_is_made(value: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        make(IndexSelectTensor, indices=value)

    assert caught.value.code == "tensor-indices"


@pytest.mark.parametrize("value", [[1.5], [[1, 2]], np.zeros((2, 2), np.int64), [True], 0.5])
def test_indices_of_a_request_that_are_no_whole_numbers_are_its_error(value: Any) -> None:
    batch = [{"data": normal(4), "indices": value}]

    make(IndexSelectTensor).forward(batch)

    assert batch[0]["error"].code == "tensor-indices"


def test_without_indices_at_all_the_request_is_told_where_to_put_them() -> None:
    assert error_of(IndexSelectTensor, normal(4)).code == "request-missing-key"


# --- laws of all of them -----------------------------------------------------------------------------

ALL = [
    (SoftmaxTensor, {}),
    (ArgMaxTensor, {}),
    (ArgMaxTensor, {"top": 3}),
    (IndexSelectTensor, {"indices": "3,0"}),
]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("backend", "params"), ALL)
def test_an_answer_does_not_depend_on_the_batch_mates(
    device: str, backend: type, params: dict[str, Any]
) -> None:
    data = [
        normal(size, seed=seed).to(device) for seed, size in enumerate([1000, 1000, 37, 1000, 5003, 37, 5003])
    ]

    together = run(backend, *data, **params)

    for item, one in zip(together, data, strict=True):
        (alone,) = run(backend, one, **params)
        assert torch.equal(outcome(item), outcome(alone))
        assert ("score" in item) == ("score" in alone)
        assert "score" not in item or torch.equal(item["score"], alone["score"])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("backend", "params"), ALL)
@pytest.mark.parametrize("bad", ["text", None, b"bytes", [[1, 2], [3]], np.zeros(3, "U1")], ids=repr)
def test_what_is_no_array_fails_alone(device: str, backend: type, params: dict[str, Any], bad: Any) -> None:
    data = normal(9).to(device)

    first, wrong, last = run(backend, data, bad, data, **params)

    assert isinstance(wrong["error"], RequestError) and "result" not in wrong
    assert torch.equal(outcome(first), outcome(last))


@pytest.mark.parametrize(("backend", "params"), ALL)
@pytest.mark.parametrize("axis", [2, -3, 7])
def test_an_axis_that_the_array_does_not_have_is_named(
    backend: type, params: dict[str, Any], axis: int
) -> None:
    error = error_of(backend, normal(4, 4), axis=axis, **params)

    assert error.code == "tensor-shape"
    assert f"`{axis}`" in error.message and "`float32[4x4]`" in error.message


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("backend", "params"), ALL)
def test_arrays_of_any_strides_are_accepted(device: str, backend: type, params: dict[str, Any]) -> None:
    data = normal(12, 10).to(device)

    for view in (data.T, data[::2, 1:7], data[:, :1].expand(12, 5)):
        expected = result_of(backend, view.contiguous(), **params)
        assert torch.allclose(result_of(backend, view, **params), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("backend", "params"), ALL)
def test_the_data_of_the_caller_stays_as_it_is(device: str, backend: type, params: dict[str, Any]) -> None:
    data = normal(20).to(device)

    result = result_of(backend, data, **params)
    result.zero_()

    assert torch.equal(data.cpu(), normal(20))


@pytest.mark.parametrize(("backend", "params"), ALL)
def test_gradients_end_here(backend: type, params: dict[str, Any]) -> None:
    assert not result_of(backend, normal(20).requires_grad_(), **params).requires_grad


@needs_gpu
@pytest.mark.parametrize(("backend", "params"), ALL)
def test_results_are_complete_for_every_stream(backend: type, params: dict[str, Any]) -> None:
    data = normal(4000, 4000).cuda()
    torch.cuda.synchronize()
    result = result_of(backend, data, **params)

    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        copy = result.clone()
    other.synchronize()

    torch.cuda.synchronize()
    assert torch.equal(copy, result)
