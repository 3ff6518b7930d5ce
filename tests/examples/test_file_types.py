"""Example 11: files are told apart by their bytes, short ones without the model, each in its own place."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from example_files import EXAMPLES, backends_of, module_at, run_script
from example_readmes import check_output

import hami
from hami.instances import instantiate

EXAMPLE = EXAMPLES / "11_file_types"
PIPELINE = EXAMPLE / "pipeline.toml"
CONFIG = EXAMPLE / "models" / "magika_standard_v3_3.json"

# what the package `magika` 1.0.3 calls the samples of run.py
LABELS = [
    "python",
    "c",
    "shell",
    "html",
    "csv",
    "json",
    "pickle",
    "gzip",
    "zip",
    "wav",
    "sqlite",
    "txt",
    "empty",
]


@pytest.fixture
def samples() -> dict[str, bytes]:
    """Return the files of the demo."""
    found: dict[str, bytes] = module_at("11_file_types/run.py").samples()
    return found


@pytest.fixture
def backends() -> ModuleType:
    """Return the module with the example's backends."""
    return backends_of("11_file_types", "file_types.py")


def run(backend: Any, data: Any) -> Any:
    """Return the result of one item."""
    item = {"data": data}
    backend.forward([item])
    return item["result"]


def test_the_demo_prints_what_its_page_says(tmp_path: Path) -> None:
    check_output("11_file_types", run_script("11_file_types/run.py", folder=tmp_path))


def test_files_have_the_labels_of_the_package(samples: dict[str, bytes]) -> None:
    with hami.pipe(PIPELINE) as pipe:
        answers = pipe([{"data": data} for data in samples.values()])

    assert [answer["result"]["label"] for answer in answers] == LABELS


def test_labels_stay_with_their_files_at_any_load(samples: dict[str, bytes]) -> None:
    with hami.pipe(PIPELINE) as pipe, ThreadPoolExecutor(8) as callers:
        found = list(
            callers.map(lambda data: pipe({"data": data})["result"]["label"], [*samples.values()] * 4)
        )

    assert found == LABELS * 4


def test_short_files_never_reach_the_model() -> None:
    with hami.pipe(PIPELINE) as pipe:
        answers = pipe([{"data": data} for data in (b"", b"hi", b"  \n hello \n\n", b"\xff\xfe")])
        figures = {row["node"]: row for row in pipe.stats()}

    assert [answer["result"]["label"] for answer in answers] == ["empty", "txt", "txt", "unknown"]
    assert figures["classify"]["items"] == 0


def test_the_model_sees_both_ends_without_white_space(backends: ModuleType) -> None:
    features = run(instantiate(backends.FirstAndLastBytes, {}, {}), b"  \nabc" + b"-" * 5000 + b"xyz \n")

    assert features.shape == (2048,) and features.dtype == np.int32
    assert bytes(features[:3].astype(np.uint8)) == b"abc"
    assert bytes(features[-3:].astype(np.uint8)) == b"xyz"
    assert features.max() < 256


def test_what_a_short_file_does_not_fill_is_padding(backends: ModuleType) -> None:
    features = run(instantiate(backends.FirstAndLastBytes, {}, {}), b"0123456789")

    assert (features[:10] == features[-10:]).all()
    assert (features[10:-10] == 256).all()


@pytest.mark.parametrize(("score", "is_sure"), [(0.96, True), (0.8, False)])
def test_a_label_is_sure_from_its_own_threshold_on(backends: ModuleType, score: float, is_sure: bool) -> None:
    tells = instantiate(backends.FileType, {"config": str(CONFIG)}, {})
    scores = np.zeros(len(tells.labels), np.float32)
    scores[tells.labels.index("latex")] = score  # which needs 0.95

    found = run(tells, scores)

    assert (found["label"], found["is_sure"]) == ("latex", is_sure)
    assert found["score"] == pytest.approx(score)


def test_labels_that_mean_nothing_to_people_have_another_name(backends: ModuleType) -> None:
    tells = instantiate(backends.FileType, {"config": str(CONFIG)}, {})
    scores = np.zeros(len(tells.labels), np.float32)
    scores[tells.labels.index("randombytes")] = 1

    assert run(tells, scores)["label"] == "unknown"
