"""Where ONNX Runtime is looked for, and what is said when it is not there or does not work."""

from __future__ import annotations

import importlib.machinery
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from hami.backends import onnxruntime as family
from hami.errors import BuildError


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make an installed package `onnxruntime` without any library, and return its folder `capi`."""
    folder = tmp_path / "onnxruntime"
    (folder / "capi").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise AssertionError('never imported')")
    spec = importlib.machinery.ModuleSpec("onnxruntime", None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    monkeypatch.setattr(family.importlib.util, "find_spec", lambda name: spec)
    return folder / "capi"


def output_of(program: str) -> str:
    return subprocess.check_output([sys.executable, "-c", textwrap.dedent(program)], text=True)


def test_the_library_of_the_installed_package_is_found_without_importing_it():
    program = """
        import sys
        from hami.backends.onnxruntime import locate
        print(locate())
        print("onnxruntime" in sys.modules)
    """
    path, is_imported = output_of(program).split()
    assert Path(path).is_file()
    assert Path(path).name.startswith("libonnxruntime.so")
    assert is_imported == "False"


@pytest.mark.parametrize(
    ("names", "newest"),
    [
        (["libonnxruntime.so.1.20.1"], "libonnxruntime.so.1.20.1"),
        (["libonnxruntime.so.1.9.0", "libonnxruntime.so.1.20.0"], "libonnxruntime.so.1.20.0"),
        (
            ["libonnxruntime.so", "libonnxruntime.so.1", "libonnxruntime.so.1.20.0"],
            "libonnxruntime.so.1.20.0",
        ),
        (["libonnxruntime.so", "libonnxruntime.so.bak"], "libonnxruntime.so"),
    ],
)
def test_the_newest_of_several_libraries_is_taken(package, names, newest):
    for name in names:
        (package / name).touch()
    assert family.locate() == str(package / newest)


def test_a_package_without_a_library_is_a_build_error(package):
    (package / "libonnxruntime_providers_shared.so").touch()
    with pytest.raises(BuildError, match="no shared library") as caught:
        family.locate()
    assert caught.value.code == "onnxruntime-missing"
    assert str(package.parent) in str(caught.value)


@pytest.mark.parametrize("answer", [None, importlib.machinery.ModuleSpec("onnxruntime", None), ValueError()])
def test_a_missing_package_names_the_extra_that_brings_it(monkeypatch, answer):
    def find_spec(name: str) -> object:
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(family.importlib.util, "find_spec", find_spec)
    with pytest.raises(BuildError) as caught:
        family.locate()
    assert caught.value.code == "onnxruntime-missing"
    assert caught.value.help == "pip install hami-core[onnx]"


# A process loads the library once, so each of these takes one of its own.
def error_of_pipe(library: Path, model: Path) -> str:
    program = f"""
        import hami
        from hami.backends import onnxruntime as family
        family.locate = lambda: {str(library)!r}
        try:
            hami.pipe({{"backend": "OnnxInfer", "model": {str(model)!r}}})
        except hami.BuildError as error:
            print(error)
    """
    return output_of(program)


def test_a_library_that_does_not_load_is_a_build_error(tmp_path):
    library = tmp_path / "libonnxruntime.so.1.20.0"
    library.write_bytes(b"no library")
    model = tmp_path / "model.onnx"
    model.write_bytes(b"not read")
    message = error_of_pipe(library, model)
    assert "onnxruntime-load" in message
    assert str(library) in message
    assert "help:" in message


def test_a_library_of_something_else_is_a_build_error(tmp_path):
    model = tmp_path / "model.onnx"
    model.write_bytes(b"not read")
    message = error_of_pipe(Path("libc.so.6"), model)
    assert "is not a library of ONNX Runtime" in message


def test_a_library_that_is_too_old_is_a_build_error_with_its_version(tmp_path):
    """An older library answers a request for a newer table with nothing."""
    source = tmp_path / "old.c"
    source.write_text(
        """
        static const void *get_api(unsigned version) { (void)version; return 0; }
        static const char *get_version(void) { return "1.8.1"; }
        struct base { const void *(*get_api)(unsigned); const char *(*get_version)(void); };
        const struct base *OrtGetApiBase(void) {
            static const struct base the_base = {get_api, get_version};
            return &the_base;
        }
        """
    )
    library = tmp_path / "libonnxruntime.so.1.8.1"
    subprocess.check_call(["cc", "-shared", "-fPIC", "-o", str(library), str(source)])
    model = tmp_path / "model.onnx"
    model.write_bytes(b"not read")
    message = error_of_pipe(library, model)
    assert "onnxruntime-too-old" in message
    assert "`1.8.1`" in message
    assert "pip install --upgrade onnxruntime" in message
