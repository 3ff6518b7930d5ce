"""`imports` of a configuration: modules and files with Python backends."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import hami
from hami.config import import_modules, load
from hami.errors import ConfigError
from hami.plan import plan

Write = Callable[..., str]

BACKEND = """\
import hami.backend

@hami.backend.register
class Imported(hami.backend.Backend):
    size = hami.backend.param(1)
    def forward(self, batch): pass
"""

PIPELINE = 'imports = ["./ops.py"]\n[a]\nbackend = "Imported(3)"\n'


def error_of(source: object) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        plan(source)
    return caught.value


def test_a_file_is_found_relative_to_the_configuration(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    write(BACKEND, "sub/ops.py")
    file = write(PIPELINE, "sub/pipeline.toml")

    checked = plan(file)

    assert checked.nodes[0].expr.name == "List"
    monkeypatch.chdir("/")


def test_a_module_is_imported(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(".")
    write(BACKEND, "imported_backends.py")

    assert plan({"imports": "imported_backends", "a": {"backend": "Imported"}})
    monkeypatch.delitem(sys.modules, "imported_backends")


def test_a_file_is_imported_once_a_process(write: Write) -> None:
    write("import os\nos.environ['HAMI_COUNT'] = os.environ.get('HAMI_COUNT', '') + 'x'\n", "ops.py")
    file = write('imports = "./ops.py"\n[a]\nbackend = "Identity"')
    monkey = pytest.MonkeyPatch()
    monkey.delenv("HAMI_COUNT", raising=False)

    for _ in range(3):
        import_modules(load(file), hami.load)

    import os

    assert os.environ.pop("HAMI_COUNT") == "x"
    monkey.undo()


def test_a_file_that_the_user_imported_already_is_not_imported_again(
    write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(".")
    write(BACKEND.replace("Imported", "AlreadyThere"), "already_there.py")
    importlib.import_module("already_there")
    file = write('imports = ["./already_there.py"]\n[a]\nbackend = "AlreadyThere"\n')

    assert plan(file)
    monkeypatch.delitem(sys.modules, "already_there")


def test_two_files_of_one_name_are_two_modules(write: Write) -> None:
    for folder in ("one", "two"):
        write(BACKEND.replace("Imported", f"From_{folder}"), f"{folder}/ops.py")
        file = write(PIPELINE.replace("Imported(3)", f"From_{folder}"), f"{folder}/pipeline.toml")
        assert plan(file)


def test_a_missing_file_is_refused_with_the_nearest_name(write: Write) -> None:
    write(BACKEND, "opps.py")
    error = error_of(write(PIPELINE))

    assert (error.code, error.where) == ("config-import", "pipeline.toml:1")
    assert error.help == "did you mean `opps.py`?"


def test_a_missing_module_is_refused() -> None:
    error = error_of({"imports": ["no_such_module_here"], "a": {"backend": "Identity"}})

    assert error.code == "config-import"
    assert "ModuleNotFoundError" in error.message


def test_an_exception_while_importing_names_its_kind_and_keeps_the_cause(write: Write) -> None:
    write("x = 1 / 0\n", "ops.py")
    error = error_of(write(PIPELINE))

    assert "importing `./ops.py` raised ZeroDivisionError" in error.message
    assert isinstance(error.__cause__, ZeroDivisionError)


def test_a_file_that_failed_is_tried_again(write: Write) -> None:
    write("x = 1 / 0\n", "ops.py")
    file = write(PIPELINE)
    error_of(file)
    write(BACKEND, "ops.py")

    assert plan(file)


def test_an_error_of_hami_while_importing_stays_as_it_is(write: Write) -> None:
    write("import hami.parser\nhami.parser.alias('Z', 'A[')\n", "ops.py")

    assert error_of(write(PIPELINE)).code == "parse-unclosed-bracket"


@pytest.mark.parametrize("value", [3, [3], [""], {"a": 1}, ["a", None]])
def test_imports_must_be_names(value: object) -> None:
    source = {"imports": value, "backend": "Identity"}

    assert error_of(source).code == "config-imports"


def test_imports_of_a_dict_start_from_the_current_folder(write: Write) -> None:
    write(BACKEND, "ops.py")

    assert plan({"imports": ["./ops.py"], "a": {"backend": "Imported"}})
    assert Path("ops.py").exists()
