"""A batch gives what its items give alone, however many calls of torch it takes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from torch_samples import DEVICES, array_of, levels, make, normal, outcome, result_of, run, torch

from hami.backends.torch import ArgMaxTensor, ResizeTensor, geometry, tensor_backend
from hami.errors import RequestError

# --- the largest -----------------------------------------------------------------------------------


def scores_of(kind: str, *shape: int) -> np.ndarray:
    """Return scores with many equal ones among them."""
    numbers = np.random.default_rng(0).integers(0, 4, shape)
    return numbers.astype(kind)


@pytest.mark.parametrize("kind", ["bool", "uint8", "int32", "int64", "float16", "float32", "float64"])
@pytest.mark.parametrize(("shape", "axis"), [((9,), -1), ((3, 5), -1), ((3, 5), 0), ((2, 3, 4), 1)])
def test_numpy_arrays_of_a_batch_give_what_each_gives_alone(
    kind: str, shape: tuple[int, ...], axis: int
) -> None:
    arrays = list(scores_of(kind, 6, *shape))

    batch = run(ArgMaxTensor, *arrays, axis=axis)

    for item, array in zip(batch, arrays, strict=True):
        alone = run(ArgMaxTensor, array, axis=axis)[0]
        for key in ("result", "score"):
            assert torch.equal(item[key], alone[key]) and item[key].dtype == alone[key].dtype
        assert np.array_equal(array_of(item["result"]), array.argmax(axis))
        assert np.array_equal(array_of(item["score"]), array.max(axis))


@pytest.mark.parametrize("device", ["numpy", *DEVICES])
def test_in_a_batch_nan_is_the_largest_and_the_first_of_equals_wins(device: str) -> None:
    rows = [[1.0, 3.0, 3.0], [float("nan"), 9.0, float("nan")], [2.0, 2.0, 2.0]]
    arrays = [np.float32(row) if device == "numpy" else torch.tensor(row, device=device) for row in rows]

    batch = run(ArgMaxTensor, *arrays)

    assert [int(item["result"]) for item in batch] == [1, 0, 0]


@pytest.mark.parametrize("device", DEVICES)
def test_small_tensors_are_worked_on_in_one_call(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = make(ArgMaxTensor)
    calls: list[tuple[int, ...]] = []
    largest = backend.largest
    monkeypatch.setattr(
        backend, "largest", lambda tensor, axis: calls.append(tuple(tensor.shape)) or largest(tensor, axis)
    )
    batch = [{"data": normal(10, seed=index).to(device)} for index in range(4)]

    backend.forward(batch)

    assert calls == [(4, 10)]
    assert [int(item["result"]) for item in batch] == [int(item["data"].argmax()) for item in batch]


def test_large_arrays_on_the_cpu_are_not_copied_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_backend, "MAX_ELEMENTS_ON_CPU", 9)
    monkeypatch.setattr(torch, "stack", None)
    monkeypatch.setattr(np, "stack", None)

    for arrays in ([normal(10, seed=index) for index in range(3)], list(scores_of("float32", 3, 10))):
        batch = run(ArgMaxTensor, *arrays)
        assert [int(outcome(item)) for item in batch] == [int(array.argmax()) for array in arrays]


@pytest.mark.parametrize("top", [1, 2])
def test_arrays_of_all_kinds_share_a_batch(top: int) -> None:
    data: list[Any] = [np.float32([1, 5, 2]), normal(3), np.float64([3, 1, 2]), np.float32([[1, 2, 3]])]

    batch = run(ArgMaxTensor, *data, top=top)

    for item, one in zip(batch, data, strict=True):
        assert torch.equal(item["result"], result_of(ArgMaxTensor, one, top=top))


def test_every_item_of_a_batch_that_does_not_fit_has_an_error_of_its_own() -> None:
    batch = run(ArgMaxTensor, *scores_of("float32", 3, 2), top=3)

    errors = [item["error"] for item in batch]

    assert len(set(map(id, errors))) == 3
    assert all(isinstance(error, RequestError) and error.code == "tensor-shape" for error in errors)


def test_a_bad_item_in_a_batch_of_arrays_spoils_no_other() -> None:
    good, bad = np.float32([1, 5]), np.array(["a", "b"])

    first, second, third = run(ArgMaxTensor, good, bad, good)

    assert int(outcome(first)) == int(outcome(third)) == 1
    assert second["error"].code == "tensor-dtype"


def test_an_item_without_data_spoils_no_other() -> None:
    backend = make(ArgMaxTensor)
    batch: list[dict[str, Any]] = [{"data": np.float32([1, 5])}, {}]

    backend.forward(batch)

    assert int(batch[0]["result"]) == 1 and batch[1]["error"].code == "request-missing-key"


# --- pictures of several sizes ---------------------------------------------------------------------

SIZES = [(20, 30), (7, 9), (20, 30), (16, 16), (7, 9)]


@pytest.fixture
def on_any_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let pictures on the CPU be worked on together as those on a GPU are."""
    monkeypatch.setattr(
        geometry, "is_picture_on_gpu", lambda tensor: tensor.ndim == 3 and tensor.dtype == torch.uint8
    )


def pictures(sizes: list[tuple[int, int]], device: str = "cpu", channels: int = 3) -> list[Any]:
    return [levels(channels, *size, seed=index).to(device) for index, size in enumerate(sizes)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("interpolation", ["linear", "nearest", "area", "cubic"])
def test_pictures_of_several_sizes_give_what_each_gives_alone(
    device: str, interpolation: str, on_any_device: None
) -> None:
    given = pictures(SIZES, device)
    params = {"height": 16, "width": 16, "interpolation": interpolation}

    batch = run(ResizeTensor, *given, **params)

    for item, picture in zip(batch, given, strict=True):
        alone = result_of(ResizeTensor, picture, **params)
        assert torch.equal(outcome(item), alone) and item["result"].dtype == torch.uint8


@pytest.mark.parametrize("antialias", [False, True])
def test_black_and_white_edges_stay_within_the_range(antialias: bool, on_any_device: None) -> None:
    edges = torch.zeros(3, 9, 9, dtype=torch.uint8)
    edges[:, :, ::2] = 255

    for interpolation in ("linear", "cubic"):
        params = {"height": 17, "width": 5, "interpolation": interpolation, "antialias": antialias}
        batch = run(ResizeTensor, edges, edges[:, :7], edges, **params)
        plain = torch.nn.functional.interpolate(
            edges[None].double(),
            (17, 5),
            mode={"linear": "bilinear", "cubic": "bicubic"}[interpolation],
            align_corners=False,
            antialias=antialias,
        )[0]
        assert (outcome(batch[0]).double() - plain.clamp(0, 255)).abs().max() <= 0.5 + 1e-3


def test_sizes_together_take_one_rounding(on_any_device: None, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = make(ResizeTensor, height=8, width=8)
    shapes: list[tuple[int, ...]] = []
    rounded = backend._rounded
    monkeypatch.setattr(
        backend,
        "_rounded",
        lambda tensor, dtype: shapes.append(tuple(tensor.shape)) or rounded(tensor, dtype),
    )

    backend.forward([{"data": picture} for picture in pictures(SIZES)])

    assert shapes == [(5, 3, 8, 8)]


def test_pictures_that_differ_in_channels_are_resized_apart(on_any_device: None) -> None:
    given = [*pictures([(6, 6), (8, 8)]), *pictures([(6, 6)], channels=4)]

    batch = run(ResizeTensor, *given, height=4, width=4)

    assert [tuple(outcome(item).shape) for item in batch] == [(3, 4, 4), (3, 4, 4), (4, 4, 4)]


def test_other_arrays_of_the_batch_are_resized_beside_them(on_any_device: None) -> None:
    given = [*pictures([(6, 6), (8, 8)]), normal(3, 6, 6), normal(5, 5)]

    batch = run(ResizeTensor, *given, height=4, width=4)

    for item, one in zip(batch, given, strict=True):
        assert torch.equal(outcome(item), result_of(ResizeTensor, one, height=4, width=4))
