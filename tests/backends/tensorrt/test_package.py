"""Which TensorRT is used, what is said when none can be, and where its log lines go."""

from __future__ import annotations

import logging
import subprocess
import sys
import types
from enum import Enum
from typing import Any

import pytest

from hami.backends.tensorrt import package as package_module
from hami.backends.tensorrt.package import PACKAGES, VARIABLE, find_package
from hami.errors import BuildError


class Severity(Enum):
    INTERNAL_ERROR = 0
    ERROR = 1
    WARNING = 2
    INFO = 3
    VERBOSE = 4


def fake_module(**parts: Any) -> types.SimpleNamespace:
    """Return what a TensorRT package has at least."""
    return types.SimpleNamespace(ILogger=type("ILogger", (), {}), __version__="1.2.3", **parts)


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Give the packages that are installed, by name; an exception is what their import raises."""
    modules: dict[str, Any] = {}

    def import_module(name: str) -> Any:
        found = modules.get(name, ModuleNotFoundError(f"No module named '{name}'"))
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(package_module.importlib, "import_module", import_module)
    monkeypatch.setattr(package_module, "_packages", {})
    monkeypatch.delenv(VARIABLE, raising=False)
    return modules


def test_the_first_of_the_installed_packages_is_used(installed: dict[str, Any]) -> None:
    for name in reversed(PACKAGES):
        installed[name] = fake_module()
        package_module._packages.clear()
        assert find_package().name == name


def test_a_package_is_imported_once(installed: dict[str, Any]) -> None:
    installed["tensorrt"] = fake_module()
    first = find_package()
    installed.clear()
    assert find_package() is first


def test_a_parameter_or_the_environment_forces_a_package(
    installed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    installed.update(tensorrt=fake_module(), tensorrt_rtx=fake_module(), tensorrt_lean=fake_module())
    monkeypatch.setenv(VARIABLE, "tensorrt_rtx")
    assert find_package().name == "tensorrt_rtx"
    assert find_package("tensorrt_lean").name == "tensorrt_lean"


def test_a_name_in_the_environment_that_is_none_is_refused(
    installed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "tensorflow")
    with pytest.raises(BuildError, match="`tensorflow`") as caught:
        find_package()
    assert "`tensorrt_rtx`" in caught.value.help


def test_without_any_package_the_error_names_the_extra_that_brings_one(installed: dict[str, Any]) -> None:
    with pytest.raises(BuildError) as caught:
        find_package()
    assert caught.value.code == "tensorrt-missing"
    assert caught.value.help == "pip install hami-core[tensorrt]"
    for name in PACKAGES:
        assert f"`{name}`" in caught.value.message


def test_a_forced_package_that_is_missing_is_not_replaced(installed: dict[str, Any]) -> None:
    installed["tensorrt_rtx"] = fake_module()
    with pytest.raises(BuildError, match="`tensorrt_lean`"):
        find_package("tensorrt_lean")


def test_a_package_whose_library_does_not_load_is_passed_over_and_named(installed: dict[str, Any]) -> None:
    installed["tensorrt"] = OSError("libnvinfer.so.11: cannot open shared object file")
    with pytest.raises(BuildError, match=r"libnvinfer\.so\.11"):
        find_package()
    installed["tensorrt_rtx"] = fake_module()
    assert find_package().name == "tensorrt_rtx"


def test_a_package_without_a_builder_cannot_build(installed: dict[str, Any]) -> None:
    installed["tensorrt_lean"] = fake_module()
    installed["tensorrt"] = fake_module(Builder=object)
    assert find_package("tensorrt").can_build
    assert not find_package("tensorrt_lean").can_build


@pytest.mark.parametrize(
    ("severity", "level"),
    [
        (Severity.INTERNAL_ERROR, logging.ERROR),
        (Severity.ERROR, logging.ERROR),
        (Severity.WARNING, logging.WARNING),
        (Severity.INFO, logging.DEBUG),
        (Severity.VERBOSE, logging.DEBUG - 5),
    ],
)
def test_lines_of_tensorrt_are_log_records_of_their_level(
    installed: dict[str, Any], caplog: pytest.LogCaptureFixture, severity: Severity, level: int
) -> None:
    installed["tensorrt"] = fake_module()
    with caplog.at_level(1, "hami.tensorrt"):
        find_package().logger.log(severity, "50 % done")
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("hami.tensorrt", level)
    assert record.getMessage() == "tensorrt: 50 % done"


def test_the_first_error_is_the_reason_and_ends_with_its_block(installed: dict[str, Any]) -> None:
    installed["tensorrt"] = fake_module()
    package = find_package()
    with package.collect() as said:
        assert said.reason == "TensorRT gave no reason"
        package.logger.log(Severity.INFO, "begins")
        package.logger.log(Severity.WARNING, "is slow")
        assert said.reason == "is slow"
        package.logger.log(Severity.ERROR, "no  kernel\nfor this")
        package.logger.log(Severity.ERROR, "second")
    package.logger.log(Severity.ERROR, "later")
    assert said.reason == "no kernel for this"
    assert said.errors == ["no  kernel\nfor this", "second"]


def test_nothing_heavy_is_imported_before_a_model_is_loaded() -> None:
    program = (
        "import sys, hami, hami.backends.tensorrt;"
        "heavy = {'tensorrt', 'tensorrt_rtx', 'tensorrt_lean', 'onnx', 'cuda', 'torch'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True).strip() == "[]"
