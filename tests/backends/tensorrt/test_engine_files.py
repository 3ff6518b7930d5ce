"""Engine files: those of hami, those of other tools, and what is refused before TensorRT sees it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import hami
from backends import onnx_models
from hami.backends.tensorrt.execution import refuse_foreign
from hami.backends.tensorrt.loaders import LoadTensorrtEngine
from hami.backends.tensorrt.package import find_package
from hami.backends.tensorrt.params import EngineParams, read_engine_file
from hami.backends.tensorrt.plan import MAGIC, EnginePlan
from hami.errors import BuildError
from hami.instances import instantiate

from .card import build

pytest.importorskip(
    "tensorrt_rtx_bindings", reason="the packages `tensorrt-rtx-cu13-libs` and `-bindings` are not installed"
)
FOR = {"compute_capability": "8.6", "package": "tensorrt_rtx"}


@pytest.fixture
def plan(tmp_path: Path) -> EnginePlan:
    found: EnginePlan = build("mlp", tmp_path, max=8, **FOR)
    return found


@pytest.fixture
def entry(plan: EnginePlan, tmp_path: Path) -> Path:
    """Give the file of the cache in which the engine is."""
    (path,) = (tmp_path / "engines").glob("*.trt")
    return path


def load(path: Path) -> EnginePlan:
    options: dict[str, Any] = {}
    instantiate(LoadTensorrtEngine, {"model": str(path)}, options)
    found: EnginePlan = options["tensorrt_engine"]
    return found


def refused(path: Path) -> BuildError:
    with pytest.raises(BuildError) as caught:
        load(path)
    assert caught.value.code == "tensorrt-engine-file"
    assert str(path) in caught.value.message
    assert caught.value.help
    return caught.value


@pytest.mark.parametrize("suffix", [".trt", ".engine", ".plan", ".any"])
def test_a_file_of_the_cache_is_an_engine_under_any_name(
    plan: EnginePlan, entry: Path, tmp_path: Path, suffix: str
) -> None:
    path = tmp_path / f"moved{suffix}"
    path.write_bytes(entry.read_bytes())
    found = load(path)
    assert (found.blob, found.description, found.source) == (plan.blob, plan.description, path)
    assert (found.package, found.version) == (plan.package, plan.version)


@pytest.mark.parametrize("magic", [b"", b"ftrt"])
def test_a_plan_of_another_tool_has_no_description_yet(
    plan: EnginePlan, tmp_path: Path, magic: bytes
) -> None:
    path = tmp_path / "other.plan"
    path.write_bytes(magic + plan.blob[len(magic) :])
    found = load(path)
    assert (found.description, found.package, found.version) == (None, "", "")


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "empty"),
        (b"trt", "begin"),
        (b"<html>404</html>", "begin"),
        (b"\x08\x08\x12\x00", "begin"),
        (b"PK\x03\x04" + bytes(100), "begin"),
        (bytes(1000), "begin"),
        (MAGIC, "damaged"),
        (MAGIC[:-1], "begin"),
        (MAGIC + bytes(200), "damaged"),
    ],
    ids=["empty", "short", "page", "onnx", "zip", "zeros", "magic", "half a magic", "magic and zeros"],
)
def test_what_is_no_engine_is_refused_with_its_path(tmp_path: Path, content: bytes, word: str) -> None:
    path = tmp_path / "wrong.trt"
    path.write_bytes(content)
    assert word in refused(path).message


def test_every_cut_and_every_changed_byte_of_a_file_of_ours_is_seen(entry: Path, tmp_path: Path) -> None:
    content = entry.read_bytes()
    path = tmp_path / "damaged.trt"
    for size in (20, 60, 200, len(content) // 2, len(content) - 1):
        path.write_bytes(content[:size])
        assert "damaged" in refused(path).message
    for at in (15, 50, 60, 150, len(content) // 2, len(content) - 1):
        changed = bytearray(content)
        changed[at] ^= 0x10
        path.write_bytes(changed)
        assert "damaged" in refused(path).message


def test_missing_files_folders_and_links_to_nothing_are_refused(tmp_path: Path) -> None:
    assert "No such file" in refused(tmp_path / "no_such.trt").message
    assert "directory" in refused(tmp_path).message
    os.symlink(tmp_path / "nothing", tmp_path / "link.trt")
    refused(tmp_path / "link.trt")


def test_a_plan_of_another_version_is_refused_with_both_versions(plan: EnginePlan) -> None:
    package = find_package("tensorrt_rtx")
    refuse_foreign(plan, package)
    refuse_foreign(replace(plan, package="", version=""), package)
    for other in (replace(plan, version="1.0.0"), replace(plan, package="tensorrt")):
        with pytest.raises(BuildError) as caught:
            refuse_foreign(other, package)
        assert caught.value.code == "tensorrt-engine-version"
        for word in (str(plan.source), other.package, other.version, package.version):
            assert f"`{word}`" in caught.value.message


def test_the_lean_runtime_takes_plans_of_the_full_one(plan: EnginePlan) -> None:
    lean = replace(find_package("tensorrt_rtx"), name="tensorrt_lean")
    refuse_foreign(replace(plan, package="tensorrt", version="10.9"), lean)
    with pytest.raises(BuildError):
        refuse_foreign(plan, lean)


def test_the_suffix_decides_what_a_model_is(plan: EnginePlan, entry: Path, tmp_path: Path) -> None:
    params = EngineParams()
    for name, value in {**FOR, "max": 8, "cache_dir": str(tmp_path / "engines")}.items():
        setattr(params, name, value)
    assert params.plan_for(plan.source).blob == plan.blob
    assert params.plan_for(entry).blob == plan.blob
    upper = tmp_path / "UPPER.ONNX"
    upper.write_bytes(plan.source.read_bytes())
    assert params.plan_for(upper).description == plan.description
    for name in ("model", "model.pt", "model.onnx.gz"):
        with pytest.raises(BuildError) as caught:
            params.plan_for(tmp_path / name)
        assert ".onnx" in caught.value.help and ".trt" in caught.value.help


def test_a_pipeline_whose_engine_file_is_damaged_names_node_file_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "broken.engine"
    path.write_bytes(b"nothing of use")
    with pytest.raises(BuildError) as caught:
        hami.pipe({"classify": {"backend": "LoadTensorrtEngine", "model": str(path)}})
    assert str(path) in str(caught.value)
    assert "help:" in str(caught.value)


def test_reading_does_not_need_any_tensorrt(entry: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HAMI_TENSORRT", "tensorrt_lean")
    assert read_engine_file(entry).blob


def test_a_model_under_the_name_of_an_engine_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.trt"
    path.write_bytes(onnx_models.write("mlp", tmp_path).read_bytes())
    assert "ONNX" in refused(path).help
