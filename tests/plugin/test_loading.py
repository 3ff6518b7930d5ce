"""What `hami.load` takes and refuses: versions, damaged tables, taken names, files that are no plugins.

The plugin is `plain.c`, which uses the table alone, in C99: so other languages can have backends, too.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import plugin_builds
import pytest

import hami
from hami import _core
from hami.plugins import loaded_files

MAJOR, MINOR = _core.ABI_VERSION

Open = Callable[[Any], hami.Pipeline]
Build = Callable[..., Path]


@pytest.fixture
def build(tmp_path: Path) -> Build:
    """Return a function that builds `plain.c`: `build("Name", MACRO=value)`."""

    def build_one(name: str, **macros: object) -> Path:
        return plugin_builds.build_plain(tmp_path / f"lib{name}.so", NAME=f'"{name}"', **macros)

    return build_one


def refused(path: Path | str | int, code: str, *words: str) -> hami.ConfigError:
    """Check that a load is refused with this code and these words."""
    with pytest.raises(hami.ConfigError) as caught:
        hami.load(path)  # type: ignore[arg-type]
    assert caught.value.code == code, str(caught.value)
    assert caught.value.help
    for word in words:
        assert word in str(caught.value)
    return caught.value


# --- what is right ---------------------------------------------------------------------------------


def test_a_plugin_in_c_is_loaded_and_runs(build: Build, open_pipe: Open) -> None:
    assert hami.load(build("PlainInC")) == ("PlainInC",)

    assert open_pipe("PlainInC(factor=3)")({"data": 5})["result"] == 15


def test_loading_the_same_file_twice_is_harmless(build: Build) -> None:
    file = build("PlainTwice")

    assert hami.load(file) == hami.load(str(file)) == ("PlainTwice",)


def test_many_threads_may_load_at_once(build: Build) -> None:
    files = [build(f"AtOnce{i}") for i in range(4)]

    with ThreadPoolExecutor(8) as threads:
        loaded = list(threads.map(hami.load, files * 4))

    assert loaded == [(f"AtOnce{i}",) for i in range(4)] * 4


def test_a_smaller_table_of_an_older_border_is_read_as_far_as_it_goes(build: Build, open_pipe: Open) -> None:
    """Of an older minor version, whose classes ended before `batch_range`."""
    size = "offsetof(hami_backend_class,batch_range)"
    hami.load(build("PlainOlder", CLASS_SIZE=size, HOST_SIZE="offsetof(hami_host,node_name)", MINOR=0))

    pipe = open_pipe({"backend": "PlainOlder", "max": 100})  # the range of `plain.c` ends at 4
    assert pipe({"data": 5, "request_size": 100})["result"] == 10


def test_a_larger_table_of_a_newer_minor_version_is_taken(build: Build, open_pipe: Open) -> None:
    size = "sizeof(hami_backend_class)+800"
    hami.load(
        build("PlainNewerMinor", MINOR=MINOR + 7, CLASS_SIZE=size, PLUGIN_SIZE="sizeof(hami_plugin)+80")
    )

    assert open_pipe("PlainNewerMinor")({"data": 5})["result"] == 10


# --- versions --------------------------------------------------------------------------------------


def test_a_newer_major_version_is_refused_with_both_versions(build: Build) -> None:
    # of such a plugin nothing but the version may be read
    file = build("NewerMajor", MAJOR=MAJOR + 1, MINOR=3, PLUGIN_SIZE=16, OPEN_STATUS="(*(int*)0)")

    refused(file, "plugin-abi", f"`{MAJOR + 1}.3`", f"`{MAJOR}.{MINOR}`", "upgrade hami-core")
    assert "NewerMajor" not in hami.backend.declarations()


def test_an_older_major_version_is_refused_with_both_versions(build: Build) -> None:
    refused(
        build("OlderMajor", MAJOR=0), "plugin-abi", "`0.0`", f"`{MAJOR}.{MINOR}`", "build the plugin again"
    )


def test_a_plugin_that_needs_more_of_the_host_is_refused(build: Build) -> None:
    file = build("NeedsMore", MINOR=MINOR + 1, HOST_SIZE="sizeof(hami_host)+8")

    refused(file, "plugin-abi", f"`{MAJOR}.{MINOR + 1}`", "lacks functions")


def test_a_refused_plugin_may_be_built_anew_and_loaded(build: Build) -> None:
    refused(build("PlainAgain", MAJOR=MAJOR + 1), "plugin-abi")

    assert hami.load(build("PlainAgain")) == ("PlainAgain",)


# --- damaged tables --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("macros", "words"),
    [
        ({"TABLE": 0}, "no version"),
        ({"PLUGIN_SIZE": 8}, "no version"),
        ({"PLUGIN_SIZE": 32}, "ends before its backends"),
        ({"NUM_CLASSES": 0}, "declares no backend"),
        ({"NUM_CLASSES": 2}, "declares `Damaged` twice"),
        ({"CLASS_SIZE": 16}, "has no name"),
        ({"FORWARD": 0}, "`Damaged` lacks `create`, `destroy` or `forward`"),
        ({"NUM_PARAMS": 2}, "declares `factor` twice"),
        ({"TYPE": '"double"'}, "`factor` of `Damaged` has the type `double`"),
        ({"TYPE": 0}, "has the type ``"),
        ({"DEFAULT_KIND": "HAMI_STR"}, "the default of `factor` of `Damaged` is of type `str`"),
        ({"DEFAULT_KIND": "HAMI_LIST"}, "has no object of that kind"),
        ({"DEFAULT_KIND": 77}, "no kind of value with the number 77"),
    ],
    ids=repr,
)
def test_a_damaged_table_is_refused(macros: dict[str, object], words: str, build: Build) -> None:
    refused(build("Damaged", **macros), "plugin-declaration", words)


@pytest.mark.parametrize("name", ["", "two words", "1st", "a-b", "grün"])
def test_a_name_that_no_expression_can_write_is_refused(name: str, tmp_path: Path) -> None:
    file = plugin_builds.build_plain(tmp_path / "libnamed.so", NAME=f'"{name}"')

    refused(file, "plugin-declaration", "has no name")


def test_a_plugin_whose_open_fails_is_refused(build: Build) -> None:
    refused(build("Closed", OPEN_STATUS=3), "plugin-open", "status 3")


# --- names -----------------------------------------------------------------------------------------


def test_two_plugins_with_one_name_are_refused_with_the_file_of_the_first(
    build: Build, tmp_path: Path
) -> None:
    first = build("PlainShared")
    hami.load(first)
    second = plugin_builds.build_plain(tmp_path / "second.so", NAME='"PlainShared"', MAX_ROWS=5)

    refused(
        second,
        "plugin-duplicate-class",
        str(second),
        f"`PlainShared`, which is already one of the plugin `{first}`",
    )


def test_a_name_of_the_core_is_refused(build: Build, open_pipe: Open) -> None:
    refused(build("Identity"), "plugin-duplicate-class", "`Identity`, which is already one of hami")

    assert open_pipe("Identity")({"data": 5})["result"] == 5


@pytest.mark.parametrize("name", ["IoCV0", "DecodeImage", "TensorrtTensor"])
def test_a_name_of_the_language_is_refused(name: str, build: Build) -> None:
    refused(build(name), "plugin-duplicate-class", f"`{name}`")


def test_a_name_that_is_registered_in_python_is_refused(build: Build) -> None:
    @hami.register
    def Registered(batch: list[Any]) -> list[Any]:  # noqa: N802
        return batch

    refused(build("Registered"), "plugin-duplicate-class", "a backend in Python")


def test_a_name_of_a_plugin_is_refused_in_python(build: Build) -> None:
    hami.load(build("PlainOurs"))

    with pytest.raises(hami.ConfigError, match="`PlainOurs` is already a name"):
        hami.register("PlainOurs", lambda batch: batch)


# --- files -----------------------------------------------------------------------------------------


def test_a_missing_file_gets_a_suggestion(build: Build) -> None:
    file = build("Present")

    refused(file.with_name("libPresnt.so"), "plugin-missing", "libPresnt.so", "did you mean `libPresent.so`?")
    refused("/no/such/folder/x.so", "plugin-missing", "`/no/such/folder/x.so`")


@pytest.mark.parametrize("path", [5, None, b"bytes.so", ["x.so"]], ids=repr)
def test_what_is_no_path_is_refused(path: Any) -> None:
    refused(path, "plugin-missing", repr(path))


def test_a_folder_is_no_plugin(tmp_path: Path) -> None:
    refused(tmp_path, "plugin-missing", str(tmp_path))


@pytest.mark.parametrize("content", [b"", b"text\n", b"\x7fELF", b"\x7fELF" + bytes(4096)], ids=len)
def test_a_file_that_is_no_library_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "libwrong.so"
    file.write_bytes(content)

    refused(file, "plugin-unloadable", str(file), "give the shared library")


def test_a_truncated_plugin_is_refused(build: Build) -> None:
    file = build("Cut")
    file.write_bytes(file.read_bytes()[:1000])

    refused(file, "plugin-unloadable", str(file))


def test_a_library_that_is_no_plugin_is_refused(build: Build) -> None:
    refused(
        build("Other", SYMBOL="something_else"), "plugin-no-symbol", "hami_plugin_describe", "HAMI_REGISTER"
    )


def test_the_compiled_core_is_no_plugin() -> None:
    refused(_core.__file__, "plugin-no-symbol")


def test_a_plugin_that_lacks_a_symbol_is_refused_with_its_name(build: Build) -> None:
    refused(build("Lacking", LACKS=1), "plugin-unloadable", "nobody_defines_this", "link the plugin")


@pytest.mark.parametrize("name", ["with space.so", "grüße.so", "quote'\".so"])
def test_a_path_may_have_any_characters(name: str, build: Build, tmp_path: Path) -> None:
    class_name = f"Path{abs(hash(name))}"
    file = tmp_path / name
    shutil.move(build(class_name), file)

    assert hami.load(file) == (class_name,)


def test_a_path_that_is_no_text_is_loaded(build: Build, tmp_path: Path) -> None:
    file = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.so"))
    shutil.move(build("NoText"), file)

    assert hami.load(file) == ("NoText",)


def test_a_relative_path_is_one_of_the_current_folder(
    build: Build, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build("PlainRelative")
    monkeypatch.chdir(tmp_path)

    assert hami.load("libPlainRelative.so") == ("PlainRelative",)


# --- while it runs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(0, 4), (-1, 4), (5, 4)])
def test_a_batch_range_that_means_nothing_is_refused(low: int, high: int, build: Build) -> None:
    name = f"Range{low + 1}{high}"
    hami.load(build(name, MIN_ROWS=low, MAX_ROWS=high))

    with pytest.raises(hami.BuildError, match=f"`{low}` to `{high}` rows") as caught:
        hami.pipe(name)
    assert caught.value.code == "build-trait"


def test_a_plugin_that_fails_without_a_word_is_an_error_that_says_so(build: Build, open_pipe: Open) -> None:
    hami.load(build("PlainSilent", CREATE_STATUS=9))
    with pytest.raises(hami.BuildError, match="`PlainSilent` cannot be made: it failed with status 9"):
        hami.pipe("PlainSilent")

    hami.load(build("Careless"))
    graph = {
        "a": {"backend": "Identity", "next": "b"},
        "b": {"backend": "Careless", "map": "a[result:other]"},
    }
    with pytest.raises(hami.Error, match="did not say why"):
        open_pipe(graph)({"data": 1})


def test_what_a_plugin_explains_is_in_the_error(build: Build) -> None:
    hami.load(build("Explains", CREATE_STATUS=1, EXPLANATION='"the licence is missing"'))

    with pytest.raises(hami.BuildError, match="`Explains` cannot be made: the licence is missing") as caught:
        hami.pipe({"here": {"backend": "Explains"}})
    assert caught.value.code == "plugin-init"


@pytest.mark.parametrize("kind", [6, 7, 8, 9, 10, -1])
def test_a_result_whose_kind_is_a_lie_is_an_error(kind: int, build: Build, open_pipe: Open) -> None:
    name = f"Lies{kind + 1}"
    hami.load(build(name, RESULT_KIND=kind))

    with pytest.raises(hami.Error, match="kind"):
        open_pipe(name)({"data": 5})


def test_a_plugin_stays_loaded_for_pipelines_that_are_open(build: Build, open_pipe: Open) -> None:
    file = build("PlainStays")
    hami.load(file)
    pipe = open_pipe("PlainStays")
    file.unlink()

    assert pipe({"data": 5})["result"] == 10
    assert str(file) not in loaded_files()
    with pytest.raises(hami.ConfigError, match="there is no file"):
        hami.load(file)


# --- configurations --------------------------------------------------------------------------------


def test_a_configuration_imports_a_plugin_beside_it(build: Build, tmp_path: Path, open_pipe: Open) -> None:
    build("PlainImported")
    text = 'imports = ["./libPlainImported.so"]\n[node]\nbackend = "PlainImported"\nfactor = 4\n'
    (tmp_path / "pipeline.toml").write_text(text, encoding="utf-8")

    assert open_pipe(tmp_path / "pipeline.toml")({"data": 5})["result"] == 20


def test_a_plugin_that_a_configuration_cannot_import_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "libwrong.so").write_text("no library", encoding="utf-8")
    for name, words in (("./libwrong.so", "cannot be loaded"), ("./libmissing.so", "there is no file")):
        (tmp_path / "p.toml").write_text(
            f'imports = ["{name}"]\n[node]\nbackend = "Identity"\n', encoding="utf-8"
        )
        with pytest.raises(hami.ConfigError, match=words):
            hami.pipe(tmp_path / "p.toml")


def test_the_command_loads_plugins_first(build: Build) -> None:
    file = build("OfTheCommand")

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "hami", "--plugin", *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, cwd=file.parent
        )

    assert run(str(file), "backends", "OfTheCommand").stdout.startswith("OfTheCommand(factor=2)\n")
    assert run(str(file), "run", "OfTheCommand(5)", "data=3").stdout == "15\n"
    wrong = run("missing.so", "backends")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "plugin-missing" in wrong.stderr


def test_a_process_with_plugins_ends_in_good_order(build: Build) -> None:
    """Also with a pipeline that is still open, and with results that outlive it."""
    program = f"""
        import hami
        hami.load({str(build("AtExit"))!r})
        pipe = hami.pipe("AtExit")
        kept = [pipe({{"data": 2}}) for _ in range(10)]
        print(kept[-1]["result"])
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "4\n", "")


def test_the_tables_of_the_plugins_header_begin_with_their_size(build: Build) -> None:
    """What a host reads of a plugin of any version: size, major and minor, in this place for ever."""
    library = ctypes.CDLL(str(build("Layout", MAJOR=5, MINOR=6)))
    library.hami_plugin_describe.restype = ctypes.POINTER(ctypes.c_uint32)
    table = library.hami_plugin_describe()

    assert (table[2], table[3]) == (5, 6)
    assert table[0] == 56
