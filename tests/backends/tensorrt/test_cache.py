"""The engine cache: what is built anew and what is not, damage, processes at once, folders without rights."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from backends import onnx_models
from hami.backends.tensorrt import cache as cache_module
from hami.backends.tensorrt import params as params_module
from hami.backends.tensorrt.cache import default_folder, entry_key
from hami.backends.tensorrt.loaders import Onnx2Tensorrt
from hami.backends.tensorrt.plan import EnginePlan, read_plan, write_atomically
from hami.instances import instantiate

pytest.importorskip(
    "tensorrt_rtx_bindings", reason="the packages `tensorrt-rtx-cu13-libs` and `-bindings` are not installed"
)
FOR = {"compute_capability": "8.6", "package": "tensorrt_rtx"}


class Loads:
    """Loads one model again and again, and counts how often it is built."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = onnx_models.write("mlp", folder)
        self.num_built = 0

    def __call__(self, **params: Any) -> EnginePlan:
        """Load as a fresh process would: nothing is in use from before."""
        cache_module._in_use.clear()
        options: dict[str, Any] = {}
        given = {
            "model": str(self.path),
            "max": 4,
            "cache_dir": str(self.folder / "engines"),
            **FOR,
            **params,
        }
        instantiate(Onnx2Tensorrt, given, options)
        plan: EnginePlan = options["tensorrt_engine"]
        return plan

    @property
    def entries(self) -> list[Path]:
        return sorted((self.folder / "engines").glob("*.trt"))


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loads:
    loads = Loads(tmp_path)
    builder, _ = params_module._load_builder()
    build_engine = builder.build_engine

    def count(*arguments: Any) -> Any:
        loads.num_built += 1
        return build_engine(*arguments)

    monkeypatch.setattr(builder, "build_engine", count)
    return loads


def deep(num_layers: int) -> onnx.ModelProto:
    """Return a model that takes a while to build."""
    names = [f"h{index}" for index in range(num_layers)]
    nodes = [
        helper.make_node("Conv", [before, f"w{index}"], [name], pads=[1, 1, 1, 1])
        for index, (before, name) in enumerate(zip(["x", *names], names, strict=False))
    ]
    nodes.append(helper.make_node("GlobalAveragePool", [names[-1]], ["y"]))
    weights = {
        f"w{index}": onnx_models.weights(16, 3 if index == 0 else 16, 3, 3) for index in range(num_layers)
    }
    return onnx_models.make_model(
        [("x", TensorProto.FLOAT, ["batch", 3, 64, 64])],
        [("y", TensorProto.FLOAT, ["batch", 16, 1, 1])],
        nodes,
        **weights,
    )


# --- what is built anew ----------------------------------------------------------------------------


def test_the_second_load_builds_nothing_and_is_the_same_engine(load: Loads) -> None:
    first, second = load(), load()
    assert load.num_built == 1
    assert second == first
    assert second.source == load.path


def test_the_second_load_is_at_least_ten_times_faster(load: Loads) -> None:
    onnx.save_model(deep(40), str(load.path))
    started = time.perf_counter()
    load()
    built = time.perf_counter()
    load()
    assert (built - started) / (time.perf_counter() - built) >= 10
    assert load.num_built == 1


def test_a_changed_model_is_built_anew(load: Loads) -> None:
    before = load()
    model = onnx.load_model(str(load.path))
    weight = model.graph.initializer[0]
    weight.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weight) + np.float32(1), weight.name))
    onnx.save_model(model, str(load.path))
    assert load().blob != before.blob
    assert load.num_built == 2
    assert len(load.entries) == 2


def test_changed_weights_beside_the_model_are_built_anew(load: Loads) -> None:
    onnx.save_model(
        onnx_models.mlp(), str(load.path), save_as_external_data=True, location="weights", size_threshold=0
    )
    load()
    weights = load.folder / "weights"
    content = bytearray(weights.read_bytes())
    content[3] ^= 0x40
    weights.write_bytes(content)
    load()
    assert load.num_built == 2


def test_a_model_of_the_same_size_and_another_content_is_built_anew(load: Loads) -> None:
    load()
    content = bytearray(load.path.read_bytes())
    content[content.index(b"hidden")] = ord("H")
    content[content.rindex(b"hidden")] = ord("H")
    load.path.write_bytes(content)
    load()
    assert load.num_built == 2


@pytest.mark.parametrize(
    "change",
    [
        {"max": 5},
        {"min": 2},
        {"opt": 2},
        {"max": "4;4"},
        {"precision": "fp16"},
        {"precision": "best"},
        {"mean": 1},
        {"std": 2},
        {"compute_capability": "8.9"},
        {"compute_capability": None},
        {"workspace_mb": 512},
    ],
)
def test_a_changed_setting_is_built_anew(load: Loads, change: dict[str, Any]) -> None:
    load()
    load(**change)
    assert load.num_built == 2
    load(**change)
    load()
    assert load.num_built == 2


@pytest.mark.parametrize("same", [{"max": "4"}, {"max": [4]}, {"compute_capability": 8.6}, {"mean": None}])
def test_other_words_for_the_same_setting_are_not_built_anew(load: Loads, same: dict[str, Any]) -> None:
    load()
    load(**same)
    assert load.num_built == 1


def test_another_version_of_tensorrt_builds_anew(load: Loads, monkeypatch: pytest.MonkeyPatch) -> None:
    load()
    import tensorrt_rtx_bindings

    monkeypatch.setattr(tensorrt_rtx_bindings, "__version__", "99.0.0")
    package = params_module.find_package("tensorrt_rtx")
    if package.version != "99.0.0":  # the package under its plain name has a version of its own
        monkeypatch.setattr(package.module, "__version__", "99.0.0")
    load()
    assert load.num_built == 2


def test_a_copy_of_the_model_under_another_name_has_an_entry_of_its_own(load: Loads) -> None:
    first = load()
    copy = load.folder / "copy.onnx"
    copy.write_bytes(load.path.read_bytes())
    assert load(model=str(copy)).source == copy
    assert [path.name.split("-")[0] for path in load.entries] == ["copy", "mlp"]
    assert first.source == load.path


def test_the_key_depends_on_every_file_and_setting(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.write_bytes(b"1")
    second.write_bytes(b"2")
    keys = {
        entry_key([first], card="x"),
        entry_key([second], card="x"),
        entry_key([first, second], card="x"),
        entry_key([second, first], card="x"),
        entry_key([first], card="y"),
        entry_key([first], card="x", version="1"),
    }
    assert len(keys) == 6


def test_engines_in_use_are_shared_within_the_process(load: Loads) -> None:
    options: list[dict[str, Any]] = [{}, {}]
    for one in options:
        given = {"model": str(load.path), "max": 4, "cache_dir": str(load.folder / "engines"), **FOR}
        instantiate(Onnx2Tensorrt, given, one)
    assert options[0]["tensorrt_engine"] is options[1]["tensorrt_engine"]


# --- damage ----------------------------------------------------------------------------------------


def damages(content: bytes) -> dict[str, bytes]:
    flipped = bytearray(content)
    flipped[len(content) // 2] ^= 1
    head = bytearray(content)
    head[60] ^= 0xFF
    return {
        "empty": b"",
        "cut in the plan": content[:-1],
        "cut in the header": content[:100],
        "only the magic": content[:14],
        "one bit": bytes(flipped),
        "header": bytes(head),
        "longer": content + b"\0",
        "something else": b"<html>not an engine</html>",
        "zeros": bytes(len(content)),
    }


@pytest.mark.parametrize("damage", damages(bytes(200)))
def test_a_damaged_entry_is_built_anew_with_a_warning(
    load: Loads, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = load()
    (entry,) = load.entries
    entry.write_bytes(damages(entry.read_bytes())[damage])
    with caplog.at_level(logging.WARNING, "hami.tensorrt"):
        again = load()
    assert load.num_built == 2
    assert again.description == before.description
    assert any(str(entry) in record.getMessage() for record in caplog.records)
    assert read_plan(entry).blob == again.blob


def test_an_entry_that_cannot_be_read_is_built_anew(load: Loads) -> None:
    load()
    (entry,) = load.entries
    entry.unlink()
    entry.mkdir()
    assert load().blob
    assert load.num_built == 2


# --- folders ---------------------------------------------------------------------------------------


def test_the_folder_is_that_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "hami" / "tensorrt"
    for unset in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        assert default_folder() == tmp_path / "home" / ".cache" / "hami" / "tensorrt"


def test_without_a_folder_to_write_to_engines_are_built_each_time(
    load: Loads, caplog: pytest.LogCaptureFixture
) -> None:
    (load.folder / "file").write_bytes(b"")
    with caplog.at_level(logging.WARNING, "hami.tensorrt"):
        for _ in range(2):
            assert load(cache_dir=str(load.folder / "file" / "below")).blob
    assert load.num_built == 2
    assert any("cache" in record.getMessage() for record in caplog.records)


def test_a_full_disk_keeps_the_engine_and_leaves_no_half_file(
    load: Loads, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with caplog.at_level(logging.WARNING, "hami.tensorrt"):
        assert load().blob
    assert [path.suffix for path in (load.folder / "engines").iterdir()] == [".lock"]
    assert any("No space left" in record.getMessage() for record in caplog.records)


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    write_atomically(path, b"new")
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


# --- processes -------------------------------------------------------------------------------------

PROGRAM = """
import logging, sys
logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
from hami.backends.tensorrt.loaders import Onnx2Tensorrt
from hami.instances import instantiate
options = {}
print("ready", flush=True)
sys.stdin.readline()
instantiate(Onnx2Tensorrt, eval(sys.argv[1]), options)
print("digest", options["tensorrt_engine"].digest)
"""


def test_of_processes_at_once_one_builds_and_all_get_its_engine(load: Loads) -> None:
    onnx.save_model(deep(10), str(load.path))
    given = {"model": str(load.path), "max": 4, "cache_dir": str(load.folder / "engines"), **FOR}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, repr(given)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
    outputs = []
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        outputs.append(process.communicate(timeout=50)[0])
        assert process.returncode == 0, outputs[-1]
    assert sum("built `" in output for output in outputs) == 1
    digests = {line for output in outputs for line in output.splitlines() if line.startswith("digest")}
    assert len(digests) == 1


def test_a_lock_that_its_holder_took_to_its_grave_stops_nobody(load: Loads) -> None:
    program = (
        "import fcntl, os, sys\n"
        "file = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    load()
    (entry,) = load.entries
    subprocess.run([sys.executable, "-c", program, str(entry.with_suffix(".lock"))], check=False)
    entry.unlink()
    assert load().blob
    assert load.num_built == 2


# --- plans -----------------------------------------------------------------------------------------


def test_a_plan_is_compared_by_what_it_holds(load: Loads) -> None:
    plan = load()
    assert plan == replace(plan)
    assert plan.digest == replace(plan).digest != replace(plan, blob=plan.blob + b"\0").digest
