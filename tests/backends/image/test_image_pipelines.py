"""The image family in pipelines: parameters, batches with a damaged picture, strided results, lazy import."""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from image_samples import HEIGHT, WIDTH, bomb_png, quarters, saved, smooth

import hami

README = Path(__file__).resolve().parents[3] / "backends" / "image" / "README.md"
GOOD = saved(smooth(), "PNG")


def test_decode_resize_to_tensor_is_one_expression() -> None:
    with hami.pipe("S[DecodeImage(color=rgb), ResizeImage(32, 48), ToTensor]") as pipe:
        tensor = pipe({"data": GOOD})["result"]

    assert tensor.shape == (3, 32, 48) and tensor.dtype == np.float32


def test_the_expression_of_the_readme_runs() -> None:
    (expression,) = re.findall(r"```hami\n(S\[.*?\])\n```", README.read_text(encoding="utf-8"))

    with hami.pipe(expression) as pipe:
        tensor = pipe({"data": GOOD})["result"]

    assert tensor.shape == (3, 224, 224) and tensor.min() < -1


def test_family_names_of_upstream_mean_the_same() -> None:
    with hami.pipe("S[DecodeMat, ResizeMat(8, 8), Mat2Tensor]") as pipe:
        assert pipe({"data": GOOD})["result"].shape == (3, 8, 8)


@pytest.mark.parametrize(
    "bad", [GOOD[: len(GOOD) // 2], b"", b"<html>", bomb_png()], ids=["cut", "empty", "html", "bomb"]
)
@pytest.mark.parametrize("settings", [{}, {"max": 4}, {"max": 4, "instance_num": 2}])
def test_good_pictures_around_a_bad_one_get_their_results(bad: bytes, settings: dict[str, int]) -> None:
    first, wrong, last = {"data": GOOD}, {"data": bad}, {"data": GOOD}

    with hami.pipe({"backend": "S[DecodeImage, ToTensor]", **settings}) as pipe:
        with pytest.raises(hami.RequestError) as caught:
            pipe([first, wrong, last])
        again = pipe({"data": GOOD})["result"]

    assert caught.value.code.startswith("image-")
    assert "result" not in wrong
    assert np.array_equal(first["result"], last["result"]) and np.array_equal(first["result"], again)


def test_parameters_of_the_node_reach_every_backend_that_declares_them() -> None:
    with hami.pipe(
        {"backend": "S[DecodeImage, LetterBox, ToTensor]", "height": 20, "width": "30", "mean": 1}
    ) as pipe:
        tensor = pipe({"data": GOOD})["result"]

    assert tensor.shape == (3, 20, 30) and tensor.max() <= 0


@pytest.mark.parametrize(
    ("expression", "word"),
    [
        ("DecodeImage(color=cmyk)", "`bgr`"),
        ("DecodeImage(max_pixel=9)", "max_pixels"),
        ("DecodeImage(max_pixels=0)", "max_pixels"),
        ("ResizeImage(224)", "width"),
        ("ResizeImage(0, 5)", "height"),
        ("CvtColor", "code"),
        ("DecodeImge", "DecodeImage"),
        ("EncodeImage(gif)", "jpg"),
    ],
)
def test_wrong_parameters_are_refused_before_anything_runs(expression: str, word: str) -> None:
    with pytest.raises(hami.ConfigError, match=re.escape(word)):
        hami.pipe(expression)


def test_numbers_that_make_no_sense_together_are_refused_when_the_pipeline_is_made() -> None:
    with pytest.raises(ValueError, match="zero"):
        hami.pipe("ToTensor(std=0)")


def test_transposed_and_reversed_arrays_are_accepted() -> None:
    with hami.pipe("ToTensor") as pipe:
        for view in (
            quarters()[:, ::-1],
            quarters().transpose(1, 0, 2),
            quarters()[::2, ::3],
            quarters()[:, :, ::-1],
        ):
            expected = (view.transpose(2, 0, 1) / 255).astype(np.float32)
            assert np.array_equal(pipe({"data": view})["result"], expected)


def test_the_way_back_from_a_letter_box_reaches_the_caller() -> None:
    with hami.pipe("LetterBox(100, 100)") as pipe:
        answer = pipe({"data": smooth()})

    assert np.allclose(answer["to_source"] @ [0, (100 - 100 * HEIGHT / WIDTH) / 2, 1], [0, 0], atol=1)


def test_many_callers_get_their_own_picture() -> None:
    pictures = [np.full((8, 8, 3), value, np.uint8) for value in range(100)]

    with (
        hami.pipe({"backend": "S[EncodeImage(png), DecodeImage]", "instance_num": 2, "max": 4}) as pipe,
        ThreadPoolExecutor(8) as callers,
    ):
        answers = list(callers.map(lambda picture: pipe({"data": picture})["result"], pictures))

    assert all(np.array_equal(one, other) for one, other in zip(answers, pictures, strict=True))


def test_opencv_is_loaded_with_the_first_text_that_names_a_picture_backend() -> None:
    script = (
        "import sys, hami; hami.pipe('Identity').close(); assert 'cv2' not in sys.modules;"
        "hami.pipe('DecodeImage').close(); assert 'cv2' in sys.modules"
    )

    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
