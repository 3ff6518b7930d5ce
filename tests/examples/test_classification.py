"""Example 05: one file of weights gives the same scores and labels on every engine that is here."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from example_files import EXAMPLES, backends_of, module_at, run_script
from example_readmes import check_output

import hami
from hami.errors import ConfigError
from hami.instances import instantiate
from hami.plan import plan

EXAMPLE = EXAMPLES / "05_classification"
PIPELINE = EXAMPLE / "pipeline.toml"
MODELS = EXAMPLE / "models"
NAMES = MODELS / "imagenet1k_label_to_names.json"

fetch_models = module_at("fetch_models.py")
photos = module_at("photos.py")
example = module_at("05_classification/run.py")

TORCH_ENGINES = ["torch.export", "TorchScript", "nn.Module"]
ENGINES = ["ONNX Runtime", *TORCH_ENGINES]

needs_torch = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None, reason="torch is not installed, which writes the models"
)


@pytest.fixture(autouse=True)
def no_engine_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the choice of the engine to the file, until a test makes one; a test's choice ends with it."""
    monkeypatch.setenv("ENGINE", "unset")
    monkeypatch.delenv("ENGINE")


@pytest.fixture(scope="module")
def pixels() -> np.ndarray:
    """Return five inputs of the network: two photographs, noise, black and white."""
    pictures = [{"data": photos.photo_bytes(name)} for name in photos.EXPECTED]
    expression = example_node("pixels")
    with hami.pipe(expression) as pipe:
        arrays = [np.asarray(item["result"]) for item in pipe(pictures)]
    noise = np.random.default_rng(5).standard_normal((3, 224, 224), np.float32)
    flat = [np.full((3, 224, 224), value, np.float32) for value in (-1, 1)]
    return np.stack([*arrays, noise, *flat])


def example_node(name: str) -> str:
    """Return the expression of one node of the example."""
    from hami.config import load

    node = next(node for node in load(PIPELINE).nodes if node.name == name)
    return str(node.settings["backend"].value)


def scores(engine: str, rows: np.ndarray, *, together: bool, monkeypatch: pytest.MonkeyPatch) -> np.ndarray:
    """Return what the network gives on an engine, all rows in one call or one row after another."""
    monkeypatch.chdir(EXAMPLE)  # the lines name files relative to the example
    monkeypatch.syspath_prepend(str(EXAMPLE))  # and the module in it
    requests = [{"data": row} for row in rows]
    with hami.pipe({"network": {"backend": example.ENGINES[engine], "max": 8}}) as pipe:
        answers = pipe(requests) if together else [pipe(request) for request in requests]
        return np.stack([np.asarray(answer["result"]).reshape(-1) for answer in answers])


# --- the engines -----------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize("engine", ENGINES)
def test_the_engine_gives_the_scores_of_the_module(
    engine: str, pixels: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.syspath_prepend(str(EXAMPLE))
    export = importlib.import_module("export")
    with torch.no_grad():
        expected = export.trained()(torch.from_numpy(pixels)).numpy()

    found = scores(engine, pixels, together=True, monkeypatch=monkeypatch)

    assert found.shape == (5, 1000) and found.dtype == np.float32
    assert np.abs(found - expected).max() < 1e-3
    assert (found.argmax(1) == expected.argmax(1)).all()


@needs_torch
@pytest.mark.parametrize("engine", ENGINES)
def test_a_picture_has_the_same_scores_alone_and_in_company(
    engine: str, pixels: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = scores(engine, pixels, together=True, monkeypatch=monkeypatch)
    alone = scores(engine, pixels, together=False, monkeypatch=monkeypatch)

    assert np.abs(together - alone).max() < 1e-3


@needs_torch
@pytest.mark.parametrize("engine", ENGINES)
def test_photographs_get_their_label_on_every_engine(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE", example.ENGINES[engine])
    requests = [{"data": photos.photo_bytes(name)} for name in photos.EXPECTED]

    with hami.pipe(PIPELINE) as pipe:
        pipe(requests)

    for name, request in zip(photos.EXPECTED, requests, strict=True):
        assert photos.is_expected(name, request["result"][0]["label"]), request["result"]
        assert request["result"][0]["probability"] > 0.5


@needs_torch
def test_the_file_alone_means_onnx_runtime() -> None:
    names = {part.name for node in plan(PIPELINE).nodes for part in all_parts(node)}

    assert "OnnxInfer" in names and "TorchInfer" not in names


def all_parts(node: Any) -> Iterator[Any]:
    """Return every backend of a planned node."""
    waiting = [node.backend]
    while waiting:
        part = waiting.pop()
        waiting += part.children
        yield part


@needs_torch
def test_a_line_with_an_unknown_engine_names_the_line_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE", "OnxInfer(model=models/efficientnet_lite0.onnx)")

    with pytest.raises(ConfigError, match=r"pipeline\.toml:\d+: .*OnxInfer") as caught:
        plan(PIPELINE)

    assert "OnnxInfer" in str(caught.value.help)


@needs_torch
def test_the_text_for_tensorrt_is_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE", example.ENGINES["TensorRT"])

    names = {part.name for node in plan(PIPELINE).nodes for part in all_parts(node)}

    assert {"Onnx2Tensorrt", "TensorrtInferTensor", "CatSplit", "TopLabels"} <= names


@needs_torch
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler, which AOTInductor needs")
def test_a_package_of_aotinductor_gives_the_same_scores(
    pixels: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = fetch_models.Export(
        "05_classification/models/efficientnet_lite0.cpu.pt2", "torch", "05_classification/export.py"
    )
    if not package.is_current():
        run_script(package.script, "--package", folder=EXAMPLE)

    found = scores("AOTInductor", pixels, together=True, monkeypatch=monkeypatch)

    expected = scores("ONNX Runtime", pixels, together=True, monkeypatch=monkeypatch)
    assert np.abs(found - expected).max() < 1e-3


# --- the pipeline ----------------------------------------------------------------------------------


@needs_torch
def test_answers_are_the_same_at_any_load() -> None:
    pictures = [photos.photo_bytes(name) for name in photos.EXPECTED]
    with hami.pipe(PIPELINE) as pipe:
        alone = [pipe({"data": picture})["result"] for picture in pictures]
        with ThreadPoolExecutor(8) as callers:
            together = list(callers.map(lambda data: pipe({"data": data})["result"], pictures * 6))

    for found, expected in zip(together, alone * 6, strict=True):
        assert [one["label"] for one in found] == [one["label"] for one in expected]
        assert np.allclose(
            [one["probability"] for one in found], [one["probability"] for one in expected], atol=1e-3
        )


@needs_torch
def test_a_damaged_picture_fails_alone() -> None:
    good, bad = {"data": photos.photo_bytes("coffee")}, {"data": photos.photo_bytes("chelsea")[:5000]}

    with hami.pipe(PIPELINE) as pipe, pytest.raises(hami.RequestError, match="damaged"):
        pipe([good, bad])

    assert photos.is_expected("coffee", good["result"][0]["label"]) and "result" not in bad


@needs_torch
def test_the_demo_compares_every_engine_that_is_here(tmp_path: Path) -> None:
    output = run_script("05_classification/run.py", folder=tmp_path)

    assert output.splitlines()[-1] == "all engines give the same labels"
    for engine in ENGINES:
        assert output.count(engine) == len(photos.EXPECTED)
    check_output("05_classification", output)


@needs_torch
def test_the_demo_looks_at_pictures_of_the_caller(tmp_path: Path) -> None:
    (tmp_path / "mine.jpg").write_bytes(photos.photo_bytes("coffee"))

    output = run_script("05_classification/run.py", "mine.jpg", folder=tmp_path)

    assert "mine.jpg" in output and "espresso" in output and "chelsea" not in output


def test_an_export_without_weights_names_the_command_to_run(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed, which export.py imports")
    shutil.copytree(EXAMPLE, tmp_path / "example", ignore=shutil.ignore_patterns("models"))

    command = [sys.executable, str(tmp_path / "example" / "export.py")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    assert ended.returncode == 1
    assert f"run `python {tmp_path / 'fetch_models.py'}`" in ended.stderr


# --- the labels ------------------------------------------------------------------------------------


@pytest.fixture
def top_labels(tmp_path: Path) -> Any:
    """Return a function scores -> labels, for a network with four classes."""
    names = tmp_path / "names.json"
    names.write_text(json.dumps({"0": "ant", "1": "bee", "2": "cat", "3": "dog"}))
    module: ModuleType = backends_of("05_classification", "labels.py")

    def run(scores: Any, count: int = 3) -> list[dict[str, Any]]:
        item: dict[str, Any] = {"data": scores}
        instantiate(module.TopLabels, {"names": str(names), "count": count}, {}).forward([item])
        found: list[dict[str, Any]] = item["result"]
        return found

    return run


@needs_torch
def test_labels_come_with_the_likeliest_first(top_labels: Any) -> None:
    found = top_labels(np.log(np.float32([0.1, 0.2, 0.3, 0.4])))

    assert [one["label"] for one in found] == ["dog", "cat", "bee"]
    assert [one["probability"] for one in found] == pytest.approx([0.4, 0.3, 0.2])


@needs_torch
def test_of_equal_scores_the_first_class_comes_first(top_labels: Any) -> None:
    assert [one["label"] for one in top_labels(np.float32([1, 7, 7, 1]), count=4)] == [
        "bee",
        "cat",
        "ant",
        "dog",
    ]


@needs_torch
@pytest.mark.parametrize("values", [[1e4, -1e4, 0, 0], [-1e4, -2e4, -2e4, -2e4], [88.8, 88.8, 0, 0]])
def test_large_scores_neither_overflow_nor_vanish(top_labels: Any, values: list[float]) -> None:
    found = top_labels(np.float32(values), count=4)

    assert sum(one["probability"] for one in found) == pytest.approx(1)
    assert all(np.isfinite(one["probability"]) for one in found)


@needs_torch
def test_labels_are_plain_values_and_never_more_than_there_are_classes(top_labels: Any) -> None:
    found = top_labels(np.float32([[1, 2, 3, 4]]), count=9)  # a row axis of one is no difference

    assert len(found) == 4
    assert {(type(one["label"]), type(one["probability"])) for one in found} == {(str, float)}


@needs_torch
def test_every_class_of_the_network_has_a_name() -> None:
    named = json.loads(NAMES.read_text(encoding="utf-8"))

    assert sorted(map(int, named)) == list(range(1000)) and all(named.values())
    assert named["967"] == "espresso" and "cat" in named["285"]
