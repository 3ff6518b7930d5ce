"""`ResizeTensor` and `CropTensor`: sizes, where the pixels land, and the pixels of OpenCV and Pillow."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np
import pytest
from PIL import Image
from torch_samples import DEVICES, array_of, levels, make, needs_gpu, normal, outcome, result_of, run, torch

from hami.backends.torch import CropTensor, ResizeTensor, tensor_backend
from hami.errors import ConfigError, RequestError

OPENCV = {
    "linear": cv2.INTER_LINEAR,
    "nearest": cv2.INTER_NEAREST,
    "area": cv2.INTER_AREA,
    "cubic": cv2.INTER_CUBIC,
}
FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def opencv_resize(tensor: Any, height: int, width: int, interpolation: str) -> np.ndarray:
    """Return what OpenCV makes of a CxHxW tensor, as CxHxW."""
    picture = np.ascontiguousarray(tensor.numpy().transpose(1, 2, 0))
    return cv2.resize(picture, (width, height), interpolation=OPENCV[interpolation]).transpose(2, 0, 1)


def resized(data: Any, height: int = 20, width: int = 50, **params: Any) -> Any:
    return result_of(ResizeTensor, data, height=height, width=width, **params)


def error_of(backend: type, data: Any, item: dict[str, Any] | None = None, **params: Any) -> RequestError:
    batch = [{"data": data, **(item or {})}]
    make(backend, **params).forward(batch)
    assert isinstance(batch[0].get("error"), RequestError) and "result" not in batch[0]
    return batch[0]["error"]


# --- resize ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(64, 96), (1, 64, 96), (3, 64, 96), (2, 3, 64, 96), (2, 5, 3, 64, 96)])
@pytest.mark.parametrize("dtype", [torch.uint8, *FLOATS], ids=str)
def test_shape_is_the_wanted_one_and_type_and_device_stay(
    device: str, shape: tuple[int, ...], dtype: Any
) -> None:
    result = resized(torch.ones(shape, dtype=dtype, device=device))

    assert result.shape == (*shape[:-2], 20, 50)
    assert result.dtype == dtype and result.device.type == device
    assert result.is_contiguous()
    assert (result.double() - 1).abs().max() < 1e-6


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("interpolation", list(OPENCV))
@pytest.mark.parametrize("size", [(32, 48), (128, 192), (16, 192)])
def test_floats_are_resized_as_opencv_does(device: str, interpolation: str, size: tuple[int, int]) -> None:
    if interpolation == "area" and size != (32, 48):
        pytest.skip("OpenCV's INTER_AREA is another function where the picture grows")
    picture = normal(3, 64, 96)

    result = resized(picture.to(device), *size, interpolation=interpolation)

    assert np.abs(array_of(result) - opencv_resize(picture, *size, interpolation)).max() < 1e-4


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("interpolation", list(OPENCV))
@pytest.mark.parametrize("size", [(32, 48), (200, 300), (40, 200)])
def test_pixels_are_those_of_opencv_within_one_level(
    device: str, interpolation: str, size: tuple[int, int]
) -> None:
    if interpolation == "area" and size != (32, 48):
        pytest.skip("OpenCV's INTER_AREA is another function where the picture grows")
    picture = levels(3, 64, 96)

    result = resized(picture.to(device), *size, interpolation=interpolation)

    difference = np.abs(array_of(result).astype(int) - opencv_resize(picture, *size, interpolation)).max()
    assert difference <= (0 if interpolation == "nearest" else 1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("interpolation", "filter"), [("linear", Image.BILINEAR), ("cubic", Image.BICUBIC)])
def test_with_antialias_pixels_are_those_of_pillow_within_one_level(
    device: str, interpolation: str, filter: Any
) -> None:
    picture = levels(3, 97, 211)
    expected = np.asarray(Image.fromarray(picture.numpy().transpose(1, 2, 0)).resize((50, 20), filter))

    result = resized(picture.to(device), interpolation=interpolation, antialias=True)

    assert np.abs(array_of(result).transpose(1, 2, 0).astype(int) - expected).max() <= 1


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("interpolation", list(OPENCV))
def test_a_numpy_array_gives_what_a_tensor_gives(device: str, interpolation: str) -> None:
    picture = levels(3, 64, 96)

    from_numpy = resized(picture.numpy(), interpolation=interpolation)

    difference = from_numpy.int() - resized(picture.to(device), interpolation=interpolation).cpu().int()
    assert difference.abs().max() <= (0 if device == "cpu" else 1)


@pytest.mark.parametrize("device", DEVICES)
def test_cubic_overshoot_is_clamped_not_wrapped(device: str) -> None:
    edge = torch.zeros(1, 8, 8, dtype=torch.uint8, device=device)
    edge[..., 4:] = 255

    result = resized(edge, 8, 64, interpolation="cubic")

    assert result[0, 0, :20].max() < 60 and result[0, 0, -20:].min() > 195


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_small_floats_are_rounded_once(dtype: Any) -> None:
    picture = normal(3, 64, 96).to(dtype)

    assert torch.equal(resized(picture), resized(picture.float()).to(dtype))


@pytest.mark.parametrize("device", DEVICES)
def test_a_picture_of_the_right_size_keeps_its_pixels(device: str) -> None:
    picture = normal(3, 20, 50).to(device)

    assert torch.equal(resized(picture), picture)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("interpolation", list(OPENCV))
def test_a_resized_picture_does_not_depend_on_the_batch_mates(device: str, interpolation: str) -> None:
    shapes = [(3, 64, 96), (3, 64, 96), (1, 7, 5), (2, 3, 64, 96), (3, 64, 96), (3, 20, 50)]
    pictures = [levels(*shape, seed=seed).to(device) for seed, shape in enumerate(shapes)]
    pictures += [picture.float() / 7 for picture in pictures]

    together = run(ResizeTensor, *pictures, height=20, width=50, interpolation=interpolation)

    for item, picture in zip(together, pictures, strict=True):
        assert torch.equal(outcome(item), resized(picture, interpolation=interpolation))


@pytest.mark.parametrize("device", DEVICES)
def test_a_memory_order_of_channels_last_changes_no_pixel(device: str) -> None:
    for picture in (levels(64, 96, 3), normal(64, 96, 3), normal(2, 64, 96, 3)):
        planes = picture.to(device).movedim(-1, -3)
        for interpolation in OPENCV:
            once = resized(planes, interpolation=interpolation)
            assert torch.equal(once, resized(planes.contiguous(), interpolation=interpolation))
            assert once.is_contiguous()


@pytest.mark.parametrize("device", DEVICES)
def test_strided_pictures_are_accepted(device: str) -> None:
    picture = normal(3, 64, 96).to(device)

    for view in (picture[:, ::2, 3:], picture.transpose(1, 2), picture[:1].expand(4, 64, 96)):
        assert torch.equal(resized(view), resized(view.contiguous()))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(3, 1, 1), (1, 1, 4000), (1, 4000, 1)])
@pytest.mark.parametrize("interpolation", list(OPENCV))
def test_extreme_proportions_are_resized(device: str, shape: tuple[int, ...], interpolation: str) -> None:
    result = resized(torch.full(shape, 9.0, device=device), interpolation=interpolation)

    assert torch.allclose(result, torch.tensor(9.0, device=device))


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (torch.zeros(5), "tensor-shape"),
        (torch.tensor(5.0), "tensor-shape"),
        (torch.zeros(3, 0, 4), "tensor-shape"),
        (torch.zeros(0, 3, 4, 4), "tensor-shape"),
        (torch.zeros(3, 4, 4, dtype=torch.int64), "tensor-dtype"),
        (torch.zeros(3, 4, 4, dtype=torch.bool), "tensor-dtype"),
        (torch.zeros(3, 4, 4, dtype=torch.complex64), "tensor-dtype"),
        (b"bytes", "tensor-expected"),
        ("text", "tensor-expected"),
        (None, "tensor-expected"),
    ],
    ids=["rank 1", "rank 0", "no rows", "no pictures", "int64", "bool", "complex", "bytes", "text", "none"],
)
def test_what_is_no_picture_is_the_error_of_its_item(data: Any, code: str) -> None:
    bad, good = run(ResizeTensor, data, normal(3, 8, 8), height=4, width=4)

    assert isinstance(bad["error"], RequestError) and bad["error"].code == code
    assert outcome(good).shape == (3, 4, 4)


@pytest.mark.parametrize("interpolation", ["nearest", "area"])
def test_antialias_without_a_smooth_interpolation_is_refused_when_the_pipeline_is_made(
    interpolation: str,
) -> None:
    with pytest.raises(ConfigError) as caught:
        make(ResizeTensor, height=4, width=4, interpolation=interpolation, antialias=True)

    assert caught.value.code == "tensor-antialias"


@needs_gpu
def test_a_group_larger_than_what_may_be_stacked_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    pictures = [levels(3, 64, 96, seed=seed).cuda() for seed in range(7)]
    whole = [outcome(item) for item in run(ResizeTensor, *pictures, height=20, width=50)]
    monkeypatch.setattr(tensor_backend, "MAX_STACKED_ELEMENTS", 3 * 64 * 96 * 2)

    divided = [outcome(item) for item in run(ResizeTensor, *pictures, height=20, width=50)]

    assert all(torch.equal(one, other) for one, other in zip(whole, divided, strict=True))


@needs_gpu
def test_pictures_of_both_sides_share_a_batch() -> None:
    picture = normal(3, 64, 96)

    here, there = run(ResizeTensor, picture, picture.cuda(), height=20, width=50)

    assert not here["result"].is_cuda and there["result"].is_cuda
    assert torch.allclose(here["result"], there["result"].cpu(), atol=1e-5)


@needs_gpu
def test_a_resized_picture_is_complete_for_every_stream() -> None:
    pictures = [levels(3, 1080, 1920, seed=seed).cuda() for seed in range(8)]
    torch.cuda.synchronize()
    items = run(ResizeTensor, *pictures, height=640, width=640)

    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        copies = [outcome(item).clone() for item in items]
    other.synchronize()

    torch.cuda.synchronize()
    assert all(torch.equal(copy, item["result"]) for copy, item in zip(copies, items, strict=True))


# --- crop --------------------------------------------------------------------------------------------


def cropped(data: Any, **keys: Any) -> Any:
    """Return the result of a request that brings `box` or `boxes`."""
    batch = [{"data": data, **keys}]
    make(CropTensor).forward(batch)
    return outcome(batch[0])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("shape", [(64, 96), (3, 64, 96), (2, 3, 64, 96)])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32, torch.int64, torch.bfloat16], ids=str)
def test_a_box_holds_columns_x1_to_x2_and_rows_y1_to_y2(
    device: str, shape: tuple[int, ...], dtype: Any
) -> None:
    picture = levels(*shape).to(dtype).to(device)

    result = cropped(picture, box=[10, 20, 40, 50])

    assert torch.equal(result, picture[..., 20:50, 10:40])
    assert result.is_contiguous() and result.device.type == device


@pytest.mark.parametrize("device", DEVICES)
def test_several_boxes_give_a_list_in_their_order(device: str) -> None:
    picture = levels(3, 64, 96).to(device)
    boxes = [[0, 0, 5, 5], [90, 60, 96, 64], [0, 0, 96, 64]]

    for given in (
        boxes,
        np.array(boxes, np.float32),
        torch.tensor(boxes).to(device),
        [tuple(box) for box in boxes],
    ):
        results = cropped(picture, boxes=given)
        assert isinstance(results, list)
        for result, (x1, y1, x2, y2) in zip(results, boxes, strict=True):
            assert torch.equal(result, picture[:, y1:y2, x1:x2])


@pytest.mark.parametrize("none", [[], np.zeros((0, 4), np.float32), torch.zeros(0, 4), np.array([])], ids=str)
def test_no_boxes_give_an_empty_list(none: Any) -> None:
    assert cropped(levels(3, 8, 8), boxes=none) == []


@pytest.mark.parametrize(
    ("box", "pixels"),
    [
        ([-5, -9, 3, 4], (0, 0, 3, 4)),
        ([90, 60, 500, 1e9], (90, 60, 96, 64)),
        ([0.4, 0.6, 10.4, 9.6], (0, 1, 10, 10)),
        ([0.5, 1.5, 2.5, 3.5], (1, 2, 3, 4)),
        ([9.999999, 0, 20.000001, 5], (10, 0, 20, 5)),
        ([-1e30, -1e30, 1e30, 1e30], (0, 0, 96, 64)),
    ],
)
def test_edges_are_rounded_and_clipped_to_the_picture(box: list[float], pixels: tuple[int, ...]) -> None:
    picture = levels(1, 64, 96)
    x1, y1, x2, y2 = pixels

    assert torch.equal(cropped(picture, box=box), picture[:, y1:y2, x1:x2])


@pytest.mark.parametrize(
    "box",
    [
        [5, 5, 5, 9],
        [5, 5, 9, 5],
        [9, 5, 5, 9],
        [5, 9, 9, 5],
        [96, 0, 200, 64],
        [-9, -9, 0, 0],
        [3.1, 3.1, 3.4, 3.4],
        [float("nan"), 0, 5, 5],
        [0, 0, float("inf"), 5],
    ],
    ids=str,
)
def test_a_box_without_a_pixel_is_the_error_of_its_item(box: list[float]) -> None:
    picture = levels(1, 64, 96)
    batch = [{"data": picture, "box": one} for one in ([0, 0, 2, 2], box, [1, 1, 3, 3])]

    make(CropTensor).forward(batch)

    assert batch[1]["error"].code == "tensor-box"
    assert torch.equal(outcome(batch[0]), picture[:, :2, :2])
    assert torch.equal(outcome(batch[2]), picture[:, 1:3, 1:3])


def test_a_bad_box_among_several_is_named_by_its_number() -> None:
    error = error_of(CropTensor, levels(1, 8, 8), {"boxes": [[0, 0, 2, 2], [4, 4, 4, 4]]})

    assert error.message.startswith("box 1 ")


@pytest.mark.parametrize(
    ("keys", "code"),
    [
        ({"box": [1, 2, 3]}, "tensor-box"),
        ({"box": [[1, 2, 3, 4]]}, "tensor-box"),
        ({"box": "0,0,5,5"}, "tensor-expected"),
        ({"box": None}, "tensor-expected"),
        ({"boxes": [1, 2, 3, 4]}, "tensor-box"),
        ({"boxes": np.zeros((2, 5))}, "tensor-box"),
        ({"boxes": np.zeros(4)}, "tensor-box"),
        ({"boxes": np.zeros((2, 4), np.complex64)}, "tensor-box"),
        ({"boxes": [[0, 0, 2, 2], "text"]}, "tensor-expected"),
        ({"boxes": None}, "tensor-expected"),
        ({}, "request-missing-key"),
    ],
    ids=str,
)
def test_what_is_no_box_is_refused(keys: dict[str, Any], code: str) -> None:
    assert error_of(CropTensor, levels(1, 8, 8), keys).code == code


@pytest.mark.parametrize("window", ["2,3,6,7", [2, 3, 6, 7], " [2, 3, 6, 7] "])
def test_a_fixed_window_cuts_what_brings_no_box(window: Any) -> None:
    picture = levels(3, 64, 96)
    batch = [{"data": picture}, {"data": picture, "box": [0, 0, 1, 1]}, {"data": picture[:, :5, :5]}]

    make(CropTensor, box=window).forward(batch)

    assert torch.equal(outcome(batch[0]), picture[:, 3:7, 2:6])
    assert outcome(batch[1]).shape == (3, 1, 1)
    assert torch.equal(outcome(batch[2]), picture[:, 3:5, 2:5])


@pytest.mark.parametrize(
    "window", ["", "1,2,3", "a,b,c,d", "5,0,5,9", [0, 9, 5, 3], "0,0,nan,1", 7, {"x": 1}]
)
def test_a_window_that_is_none_is_refused_when_the_pipeline_is_made(window: Any) -> None:
    with pytest.raises(ConfigError) as caught:
        make(CropTensor, box=window)

    assert caught.value.code == "tensor-box"


@pytest.mark.parametrize("device", DEVICES)
def test_a_crop_is_a_copy_that_does_not_keep_the_picture(device: str) -> None:
    picture = levels(3, 64, 96).to(device)

    for box in ([0, 0, 96, 64], [5, 5, 9, 9]):
        result = cropped(picture, box=box)
        result.zero_()
        assert result.untyped_storage().nbytes() == result.numel()

    assert torch.equal(picture.cpu(), levels(3, 64, 96))


def test_a_picture_without_rows_and_columns_is_refused() -> None:
    assert error_of(CropTensor, torch.zeros(5), {"box": [0, 0, 1, 1]}).code == "tensor-shape"
    assert error_of(CropTensor, torch.zeros(3, 0, 5), {"box": [0, 0, 1, 1]}).code == "tensor-shape"
