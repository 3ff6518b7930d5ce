"""Who decodes what in `DecodeTensor`: JPEGs of three channels together on the GPU, all others by OpenCV."""

from __future__ import annotations

import struct
from typing import Any

import cv2
import numpy as np
import pytest
from image_samples import saved, smooth, upright, with_orientation
from torch_pictures import GOOD, JPEGS, OTHERS, expected_of
from torch_samples import DEVICES, array_of, make, needs_gpu, outcome, run, torch

from hami.backends.torch import DecodeTensor
from hami.backends.torch import decode as decode_module
from hami.picture_header import Header, read_header


def decoded_as_stored(jpegs: list[Any]) -> list[Any]:
    """Decode RGB pixels as nvJPEG does: unturned, and all or nothing."""
    found = [cv2.imdecode(jpeg.numpy(), cv2.IMREAD_COLOR | cv2.IMREAD_IGNORE_ORIENTATION) for jpeg in jpegs]
    if any(pixels is None for pixels in found):
        raise RuntimeError("one of them cannot be decoded")
    return [torch.from_numpy(pixels[:, :, ::-1].copy()).permute(2, 0, 1) for pixels in found]


def decoder_on(device: str, **params: Any) -> Any:
    """Return an instance that decodes JPEGs together: without a GPU by a function in the place of nvJPEG."""
    decoder = make(DecodeTensor, device=device, **params)
    if device == "cpu":
        decoder.decode_jpegs = decoded_as_stored
    return decoder


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_header_of_a_jpeg_tells_how_to_turn_it(orientation: int) -> None:
    assert read_header(with_orientation("JPEG", orientation)).orientation == orientation


@pytest.mark.parametrize(("name", "count"), [("444", 3), ("progressive", 3), ("gray", 1), ("cmyk", 4)])
def test_the_header_of_a_jpeg_tells_its_channels(name: str, count: int) -> None:
    assert read_header(JPEGS[name][0]).num_channels == count


@pytest.mark.parametrize("name", [*JPEGS, *OTHERS])
def test_only_whole_jpegs_of_three_channels_are_for_the_gpu(name: str) -> None:
    data = JPEGS[name][0] if name in JPEGS else OTHERS[name]
    picture = decode_module.Encoded({}, data, read_header(data))

    assert picture.suits_gpu == (name in ("444", "422", "420", "progressive", "restarts"))


@pytest.mark.parametrize("seed", range(200))
def test_a_picture_is_whole_when_its_last_scan_stands_before_its_last_end(seed: int) -> None:
    parts = (b"\xff\xda", b"\xff\xd9", b"\xff", b"\xda", b"\xd9", b"..")
    choices = np.random.default_rng(seed).integers(0, len(parts), seed % 9)
    data = b"".join(parts[choice] for choice in choices)
    picture = decode_module.Encoded({}, data, Header("JPEG", 1, 1))

    assert picture.suits_gpu == (-1 < data.rfind(b"\xff\xda") < data.rfind(b"\xff\xd9"))


@pytest.mark.parametrize("size", [len(GOOD) - 1, len(GOOD) - 2, len(GOOD) // 2])
def test_a_cut_jpeg_is_not_for_the_gpu_even_with_a_whole_thumbnail(size: int) -> None:
    # what a camera writes before the picture: a segment with a small JPEG in it
    thumbnail = b"\xff\xe2" + struct.pack(">H", 2 + len(GOOD)) + GOOD
    data = GOOD[:2] + thumbnail + GOOD[2:]
    cut = data[: len(data) - len(GOOD) + size]

    assert decode_module.Encoded({}, data, read_header(data)).suits_gpu
    assert not decode_module.Encoded({}, cut, read_header(cut)).suits_gpu


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_pixels_that_come_as_stored_are_turned(device: str, orientation: int) -> None:
    batch = [{"data": with_orientation("JPEG", orientation, quality=95, subsampling=0)}]

    decoder_on(device).forward(batch)

    pixels, shown = outcome(batch[0]), upright(orientation).transpose(2, 0, 1)
    assert pixels.is_contiguous() and pixels.shape == shown.shape
    corner = (slice(None), shown.shape[1] // 4, shown.shape[2] // 4)
    assert np.abs(array_of(pixels)[corner].astype(int) - shown[corner]).max() <= 4


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("color", ["rgb", "bgr"])
def test_pixels_that_come_as_rgb_get_the_wanted_order(device: str, color: str) -> None:
    batch = [{"data": GOOD}]

    decoder_on(device, color=color).forward(batch)

    assert np.abs(array_of(outcome(batch[0])).astype(int) - expected_of(GOOD, color)).max() <= 4


@pytest.mark.parametrize("device", DEVICES)
def test_the_jpegs_of_a_batch_are_decoded_by_one_call(device: str) -> None:
    decoder, calls = decoder_on(device), []
    real = decoder.decode_jpegs
    decoder.decode_jpegs = lambda jpegs: calls.append(len(jpegs)) or real(jpegs)
    batch = [{"data": GOOD} for _ in range(6)] + [{"data": OTHERS["png"]}, {"data": JPEGS["gray"][0]}]

    decoder.forward(batch)

    assert calls == [6]
    assert all(outcome(item).device.type == device for item in batch)


@pytest.mark.parametrize("device", DEVICES)
def test_a_jpeg_that_is_refused_is_tried_by_opencv_and_leaves_the_others_alone(device: str) -> None:
    decoder = decoder_on(device)
    real = decoder.decode_jpegs

    def refuses_all_but_the_good_one(jpegs: list[Any]) -> list[Any]:
        if any(jpeg.numel() != len(GOOD) for jpeg in jpegs):
            raise RuntimeError("nvJPEG refuses this")
        return real(jpegs)

    decoder.decode_jpegs = refuses_all_but_the_good_one
    other = JPEGS["420"][0]
    broken = GOOD[:300] + bytes(50) + b"\xff\xda\xff\xd9"
    batch: list[dict[str, Any]] = [{"data": data} for data in (GOOD, other, broken, GOOD)]

    decoder.forward(batch)

    assert np.array_equal(array_of(outcome(batch[1])), expected_of(other))
    assert batch[2]["error"].code == "image-damaged"
    assert torch.equal(outcome(batch[0]), outcome(batch[3]))


@pytest.mark.parametrize("device", DEVICES)
def test_an_error_of_the_gpu_is_not_taken_for_one_of_the_picture(device: str) -> None:
    decoder = decoder_on(device)

    def fails(jpegs: list[Any]) -> list[Any]:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    decoder.decode_jpegs = fails

    with pytest.raises(RuntimeError, match="CUDA error"):
        decoder.forward([{"data": GOOD}])


@needs_gpu
def test_decoded_pictures_are_complete_for_every_stream() -> None:
    big = saved(np.tile(smooth(), (12, 12, 1)), "JPEG", quality=95, subsampling=0)
    items = run(DecodeTensor, *[big] * 8, device="cuda")

    other = torch.cuda.Stream()
    with torch.cuda.stream(other):
        copies = [outcome(item).clone() for item in items]
    other.synchronize()

    torch.cuda.synchronize()
    assert all(torch.equal(copy, item["result"]) for copy, item in zip(copies, items, strict=True))
