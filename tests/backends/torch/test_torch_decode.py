"""`DecodeTensor`: the pixels of `DecodeImage` as 3xHxW, exactly on the CPU, nearly so on a GPU."""

from __future__ import annotations

import resource
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from image_samples import (
    HEIGHT,
    WIDTH,
    bomb_png,
    jpeg_with_height,
    quarters,
    saved,
    smooth,
    upright,
    with_orientation,
)
from torch_pictures import GOOD, HTML, JPEGS, OTHERS, expected_of
from torch_samples import DEVICES, array_of, make, needs_no_gpu, outcome, result_of, run, torch

from hami.backends.torch import DecodeTensor
from hami.backends.torch import decode as decode_module
from hami.errors import BuildError, RequestError


def pixels_of(data: Any, device: str, **params: Any) -> np.ndarray:
    """Return the pixels of `DecodeTensor` after a look at their form."""
    tensor = result_of(DecodeTensor, data, device=device, **params)
    assert tensor.dtype == torch.uint8 and tensor.device.type == device and tensor.is_contiguous()
    return array_of(tensor)


def error_of(data: Any, device: str, **params: Any) -> RequestError:
    with pytest.raises(RequestError) as caught:
        result_of(DecodeTensor, data, device=device, **params)
    return caught.value


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("color", ["rgb", "bgr"])
@pytest.mark.parametrize("name", JPEGS)
def test_a_jpeg_has_the_pixels_of_decode_image(device: str, color: str, name: str) -> None:
    data, most, average = JPEGS[name]

    difference = np.abs(pixels_of(data, device, color=color).astype(int) - expected_of(data, color))

    assert difference.max() <= (most if device == "cuda" else 0)
    assert difference.mean() <= (average if device == "cuda" else 0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", OTHERS)
def test_every_other_kind_has_exactly_the_pixels_of_decode_image(device: str, name: str) -> None:
    assert np.array_equal(pixels_of(OTHERS[name], device), expected_of(OTHERS[name]))


@pytest.mark.parametrize("device", DEVICES)
def test_channels_are_rgb_by_default(device: str) -> None:
    corner = pixels_of(saved(quarters(), "PNG"), device)[:, 0, 0]

    assert corner.tolist() == [255, 0, 0]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_is_applied(device: str, kind: str, orientation: int) -> None:
    options = {"WEBP": {"lossless": True}, "JPEG": {"quality": 95, "subsampling": 0}}.get(kind, {})

    pixels = pixels_of(with_orientation(kind, orientation, **options), device)

    shown = upright(orientation).transpose(2, 0, 1)
    assert pixels.shape == shown.shape
    rows, columns = shown.shape[1] // 4, shown.shape[2] // 4
    for y in (rows, 3 * rows):
        for x in (columns, 3 * columns):
            assert np.abs(pixels[:, y, x].astype(int) - shown[:, y, x]).max() <= 4


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_exif_false_leaves_the_pixels_as_stored(device: str, kind: str) -> None:
    data = with_orientation(kind, 6, **({"quality": 95, "subsampling": 0} if kind == "JPEG" else {}))

    difference = np.abs(pixels_of(data, device, exif=False).astype(int) - expected_of(data, exif=False))

    assert difference.max() <= (4 if kind == "JPEG" else 0)


@pytest.mark.parametrize("orientation", decode_module.TURNS)
def test_the_turns_of_a_gpu_are_those_of_the_standard(orientation: int) -> None:
    stored = torch.from_numpy(quarters().transpose(2, 0, 1).copy())

    turned = decode_module.TURNS[orientation](stored)

    assert np.array_equal(turned.numpy(), upright(orientation).transpose(2, 0, 1))


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "wrap",
    [
        bytes,
        bytearray,
        memoryview,
        lambda data: np.frombuffer(data, np.uint8),
        lambda data: torch.frombuffer(bytearray(data), dtype=torch.uint8),
    ],
    ids=["bytes", "bytearray", "memoryview", "numpy", "torch"],
)
def test_any_holder_of_bytes_is_accepted(device: str, wrap: Any) -> None:
    assert np.array_equal(pixels_of(wrap(GOOD), device), pixels_of(GOOD, device))


@pytest.mark.parametrize("device", DEVICES)
def test_a_path_is_read_and_a_missing_file_is_the_error_of_its_item(device: str, tmp_path: Path) -> None:
    path = tmp_path / "page.png"
    path.write_bytes(GOOD)

    good, missing = run(DecodeTensor, path, tmp_path / "none.jpg", device=device)

    assert outcome(good).shape == (3, HEIGHT, WIDTH)
    assert isinstance(missing["error"], FileNotFoundError)


# --- what is no whole picture ------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", ["444", "420", "progressive"])
@pytest.mark.parametrize("fraction", [0.1, 0.5, 0.98])
def test_a_cut_picture_is_damaged(device: str, name: str, fraction: float) -> None:
    data = JPEGS[name][0]

    assert error_of(data[: int(len(data) * fraction)], device).code == "image-damaged"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fraction", [0.3, 0.75])
@pytest.mark.parametrize("name", ["png", "webp", "bmp", "tiff"])
def test_a_cut_picture_of_another_kind_is_damaged(device: str, name: str, fraction: float) -> None:
    data = OTHERS[name]

    assert error_of(data[: int(len(data) * fraction)], device).code == "image-damaged"


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "image-empty"),
        (np.random.default_rng(0).bytes(5000), "image-unknown-format"),
        (HTML, "image-unknown-format"),
        (b"\xff\xd8\xff", "image-damaged"),
        (jpeg_with_height(0), "image-damaged"),
        (GOOD[:200] + bytes(300) + b"\xff\xd9", "image-damaged"),
        (bomb_png(), "image-too-large"),
        ("page.jpg", "image-expected"),
        (None, "image-expected"),
        (7, "image-expected"),
        (smooth(), "image-expected"),
        (torch.zeros(3, 8, 8, dtype=torch.uint8), "image-expected"),
        (torch.zeros(8), "image-expected"),
    ],
    ids=[
        "empty",
        "random",
        "html",
        "three bytes",
        "no height",
        "no scan",
        "bomb",
        "text",
        "none",
        "int",
        "pixels",
        "tensor of pixels",
        "floats",
    ],
)
def test_what_is_no_picture_is_the_error_of_its_item(device: str, data: Any, code: str) -> None:
    first, bad, last = run(DecodeTensor, GOOD, data, GOOD, device=device)

    assert isinstance(bad["error"], RequestError) and bad["error"].code == code
    assert "result" not in bad
    assert torch.equal(outcome(first), outcome(last))


@pytest.mark.parametrize("device", DEVICES)
def test_a_bomb_is_refused_before_its_pixels_are_made(device: str) -> None:
    decoder = make(DecodeTensor, device=device)
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    batch: list[dict[str, Any]] = [{"data": bomb_png()}, {"data": jpeg_with_height(65_000)}]
    decoder.max_pixels = 1_000_000
    decoder.forward(batch)

    assert [item["error"].code for item in batch] == ["image-too-large"] * 2
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb < 50_000


@pytest.mark.parametrize("device", DEVICES)
def test_max_pixels_is_exact(device: str) -> None:
    assert pixels_of(GOOD, device, max_pixels=WIDTH * HEIGHT).shape == (3, HEIGHT, WIDTH)
    assert error_of(GOOD, device, max_pixels=WIDTH * HEIGHT - 1).code == "image-too-large"


@pytest.mark.parametrize("device", DEVICES)
def test_flipped_bytes_never_give_another_error_and_the_instance_serves_on(device: str) -> None:
    generator = np.random.default_rng(1)
    decoder = make(DecodeTensor, device=device, max_pixels=1_000_000)
    batch: list[dict[str, Any]] = []
    for data in (GOOD, JPEGS["progressive"][0], OTHERS["png"]):
        for _ in range(40):
            broken = bytearray(data)
            for position in generator.integers(0, len(data), 3):
                broken[position] ^= int(generator.integers(1, 256))
            batch.append({"data": bytes(broken)})

    for item in batch:
        decoder.forward([item])
        assert "result" in item or isinstance(item["error"], RequestError)
    good: list[dict[str, Any]] = [{"data": GOOD}]
    decoder.forward(good)

    assert np.array_equal(array_of(outcome(good[0])), pixels_of(GOOD, device))


# --- batches -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", DEVICES)
def test_a_picture_does_not_depend_on_its_batch_mates(device: str) -> None:
    datas = [data for data, _, _ in JPEGS.values()] + list(OTHERS.values()) + [GOOD[:300], b"", HTML]

    together = run(DecodeTensor, *datas, device=device)

    for item, data in zip(together, datas, strict=True):
        (alone,) = run(DecodeTensor, data, device=device)
        if "error" in alone:
            assert item["error"].code == alone["error"].code
        else:
            assert torch.equal(outcome(item), outcome(alone))


@pytest.mark.parametrize("device", DEVICES)
def test_pictures_of_many_sizes_share_a_batch(device: str) -> None:
    pictures = [smooth()[: 8 + 3 * n, : 9 + 5 * n] for n in range(12)]
    datas = [saved(picture, "JPEG", quality=95, subsampling=0) for picture in pictures]

    for item, data in zip(run(DecodeTensor, *datas, device=device), datas, strict=True):
        difference = np.abs(array_of(outcome(item)).astype(int) - expected_of(data))
        assert difference.max() <= (4 if device == "cuda" else 0)


# --- decoders that are not there ---------------------------------------------------------------------


@needs_no_gpu
def test_without_gpu_the_default_device_is_refused_when_the_pipeline_is_made() -> None:
    with pytest.raises(BuildError) as caught:
        make(DecodeTensor)

    assert caught.value.code == "device-missing" and "cpu" in caught.value.help


def test_without_opencv_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cv2", None)

    with pytest.raises(BuildError) as caught:
        make(DecodeTensor, device="cpu")

    assert caught.value.code == "decoder-missing" and "hami-core[image]" in caught.value.help


def test_without_torchvision_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchvision.io", None)

    with pytest.raises(BuildError) as caught:
        decode_module.load_nvjpeg(torch.device("cuda", 0), decode_module.load_opencv())

    assert caught.value.code == "decoder-missing" and "hami-core[torchvision]" in caught.value.help


def test_a_torchvision_without_nvjpeg_is_refused_at_the_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def decode_jpeg(*arguments: Any, **options: Any) -> None:
        raise RuntimeError("torchvision not compiled with nvJPEG support")

    io = types.SimpleNamespace(decode_jpeg=decode_jpeg, ImageReadMode=types.SimpleNamespace(RGB=3))
    monkeypatch.setitem(sys.modules, "torchvision", types.SimpleNamespace(io=io))
    monkeypatch.setitem(sys.modules, "torchvision.io", io)

    with pytest.raises(BuildError, match="nvJPEG") as caught:
        decode_module.load_nvjpeg(torch.device("cuda", 0), decode_module.load_opencv())

    assert caught.value.code == "decoder-missing"
