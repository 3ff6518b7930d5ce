"""Packages that promise backends under `hami.backends`: found by name, loaded when needed, errors with their
names.

A package is a folder on sys.path with a module and the two files that pip writes about it.
"""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import plugin_builds
import pytest
from command_line import assert_refused
from command_line import run as run_command

import hami
from hami import installed

Open = Callable[[Any], hami.Pipeline]
Install = Callable[..., Path]

MODULE = """
    import hami

    @hami.register
    def {name}(batch):
        return [item["data"] + 100 for item in batch]
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Return a function that installs a package: `install("dist-name", "module", text, Entry="module")`."""
    modules = set(sys.modules)

    def install_one(package: str, module: str, text: str, **entries: str) -> Path:
        folder = tmp_path / package
        about = folder / f"{package.replace('-', '_')}-1.0.dist-info"
        about.mkdir(parents=True)
        (folder / f"{module}.py").write_text(textwrap.dedent(text), encoding="utf-8")
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n", "utf-8")
        lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
        (about / "entry_points.txt").write_text(f"[hami.backends]\n{lines}", encoding="utf-8")
        monkeypatch.syspath_prepend(str(folder))
        return folder

    yield install_one
    for name in set(sys.modules) - modules:
        if name.startswith("promised_"):
            del sys.modules[name]


def test_a_module_that_registers_its_backend_is_found_by_name(install: Install, open_pipe: Open) -> None:
    install("of-a-module", "promised_module", MODULE.format(name="Promised"), Promised="promised_module")

    assert open_pipe("S[Promised, Promised]")({"data": 1})["result"] == 201


def test_a_class_or_function_is_registered_under_the_name_of_its_entry(
    install: Install, open_pipe: Open
) -> None:
    text = """
        import hami

        class AnyName(hami.Backend):
            step = hami.param(3)

            def forward(self, batch):
                return [item["data"] + self.step for item in batch]

        def any_function(batch):
            return [item["data"] * 2 for item in batch]
    """
    entries = {"Stepping": "promised_class:AnyName", "Doubling": "promised_class:any_function"}
    install("of-a-class", "promised_class", text, **entries)

    assert open_pipe("S[Stepping(4), Doubling]")({"data": 1})["result"] == 10


def test_a_wheel_that_ships_a_plugin_is_found(install: Install, open_pipe: Open) -> None:
    text = 'from pathlib import Path\nPLUGIN = Path(__file__).with_name("libshipped.so")\n'
    folder = install("of-a-plugin", "promised_plugin", text, PlainShipped="promised_plugin:PLUGIN")
    plugin_builds.build_plain(folder / "libshipped.so", NAME='"PlainShipped"')

    assert open_pipe("PlainShipped(5)")({"data": 2})["result"] == 10


def test_a_package_is_not_imported_before_it_is_needed(install: Install, open_pipe: Open) -> None:
    install("lazy", "promised_lazy", MODULE.format(name="Lazy"), Lazy="promised_lazy")

    open_pipe("Identity")({"data": 1})
    with pytest.raises(hami.ConfigError, match="there is no backend"):
        hami.pipe("NobodyHasThis")
    assert "promised_lazy" not in sys.modules
    open_pipe("Lazy")
    assert "promised_lazy" in sys.modules


def test_a_misspelt_name_is_suggested_without_an_import(install: Install) -> None:
    install("suggested", "promised_suggested", "raise SystemExit(3)", SuggestedBackend="promised_suggested")

    with pytest.raises(hami.ConfigError, match="did you mean `SuggestedBackend`"):
        hami.pipe("SugestedBackend")


BROKEN = {
    "raises": ("raise RuntimeError('no licence')", "promised_broken", "RuntimeError: no licence"),
    "exits": ("raise SystemExit(3)", "promised_broken", "SystemExit: 3"),
    "missing": ("", "promised_absent", "ModuleNotFoundError"),
    "without": ("", "promised_broken:nothing", "AttributeError"),
    "registers nothing": ("", "promised_broken", "it registers no backend of the name `Broken`"),
    "no backend": ("number = 5", "promised_broken:number", "is a `int`"),
    "no plugin": ("path = '/no/such/file.so'", "promised_broken:path", "there is no file"),
    "no entry": ("", "promised broken", ""),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_package_is_named_when_it_is_needed_and_not_before(
    how: str, install: Install, open_pipe: Open
) -> None:
    text, entry, words = BROKEN[how]
    install("broken-package", "promised_broken", text, Broken=entry)

    assert open_pipe("Identity")({"data": 1})["result"] == 1
    with pytest.raises(hami.ConfigError) as caught:
        hami.pipe("S[Identity, Broken]")
    assert caught.value.code == "entry-point-broken"
    assert "the package `broken-package`" in str(caught.value)
    assert words in str(caught.value)
    assert caught.value.excerpt  # the place in the expression


def test_a_broken_package_does_not_hide_the_others_in_the_list(install: Install) -> None:
    install("broken-listed", "promised_broken", "raise RuntimeError('no licence')", Broken="promised_broken")
    install("sound-listed", "promised_sound", MODULE.format(name="Sound"), Sound="promised_sound")

    result = run_command("backends")

    assert result.exit_code == 0
    assert "\n  Sound\n" in result.stdout
    assert "entry-point-broken: the package `broken-listed` cannot load its backend `Broken`" in result.stdout
    assert_refused(run_command("backends", "Broken"), "entry-point-broken", "broken-listed")
    assert run_command("backends", "Sound").stdout.startswith("Sound\n")


def test_two_packages_with_one_name_are_both_named(install: Install, open_pipe: Open) -> None:
    for package in ("first-of-two", "second-of-two"):
        install(package, "promised_two", MODULE.format(name="Both"), Both="promised_two")

    assert open_pipe("Identity")({"data": 1})["result"] == 1
    with pytest.raises(hami.ConfigError, match="`first-of-two`, `second-of-two`") as caught:
        hami.pipe("Both")
    assert caught.value.code == "entry-point-twice"


def test_the_same_package_twice_on_the_path_is_one(install: Install, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = install("listed-twice", "promised_once", MODULE.format(name="Once"), Once="promised_once")
    monkeypatch.setattr(sys, "path", [*sys.path, str(folder) + "/"])

    hami.pipe("Once").close()


def test_a_package_cannot_take_the_name_of_a_built_in(install: Install, open_pipe: Open) -> None:
    install("greedy", "promised_greedy", MODULE.format(name="Pow"), Pow="promised_greedy")

    assert open_pipe("Pow")({"data": 3})["result"] == 9
    assert "promised_greedy" not in sys.modules


def test_files_about_a_package_that_cannot_be_read_harm_nobody(
    install: Install, open_pipe: Open, caplog: pytest.LogCaptureFixture
) -> None:
    install("sound", "promised_sound", MODULE.format(name="Sound"), Sound="promised_sound")
    folder = install("unreadable", "promised_x", "", X="promised_x")
    (folder / "unreadable-1.0.dist-info" / "entry_points.txt").write_text("[hami.backends]\nno equals sign\n")

    assert open_pipe("Sound")({"data": 1})["result"] == 101
    assert "cannot be read" in caplog.text


def test_a_condition_of_a_package_is_found_in_a_prefix(install: Install, open_pipe: Open) -> None:
    text = """
        import hami

        @hami.condition("Even")
        def Even(item):
            return item["data"] % 2 == 0
    """
    install("of-a-condition", "promised_condition", text, Even="promised_condition")
    pipe = open_pipe("S[Identity, (Even)Pow]")

    assert pipe({"data": 4})["result"] == 16
    assert pipe({"data": 3})["result"] == 3


def test_many_threads_may_need_a_package_at_once(install: Install) -> None:
    install("at-once", "promised_at_once", MODULE.format(name="AtOnce"), AtOnce="promised_at_once")

    def call(data: int) -> Any:
        with hami.pipe("AtOnce") as pipe:
            return pipe({"data": data})["result"]

    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(call, range(8))) == [100 + i for i in range(8)]


def test_a_package_is_there_in_worker_processes(install: Install, open_pipe: Open) -> None:
    text = 'from pathlib import Path\nPLUGIN = Path(__file__).with_name("libinworkers.so")\n'
    folder = install("in-workers", "promised_workers", text, InWorkers="promised_workers:PLUGIN")
    plugin_builds.build_plain(folder / "libinworkers.so", NAME='"InWorkers"')

    assert open_pipe("ProcessPool[InWorkers(3)]")({"data": 2})["result"] == 6


def test_importing_hami_looks_for_no_package() -> None:
    assert "importlib.metadata" not in Path(hami.__file__).read_text(encoding="utf-8")
    done = plugin_builds.run(
        [sys.executable, "-c", "import sys, hami; print('importlib.metadata' in sys.modules)"],
        Path(__file__).parent,
    )
    assert done == "False\n"


def test_promises_are_read_once_for_a_path() -> None:
    assert installed.promises() is installed.promises()
