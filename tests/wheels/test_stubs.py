"""`wheels/stubs.py`: what is linked against its libraries asks for nothing newer than the level, and runs."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.skipif(
    any(shutil.which(tool) is None for tool in ("g++", "gcc", "readelf", "ar")),
    reason="g++ or binutils is not installed",
)

# Of each library something that the levels have, and something that they got later:
# `fcntl64` (glibc 2.28), `pthread_cond_clockwait` (2.30), `stat` (2.33), std::filesystem (GLIBCXX 3.4.26),
# std::pmr (3.4.28).
SOURCE = """
    #define _FILE_OFFSET_BITS 64  // as Python's headers do; with it `fcntl` is `fcntl64`
    #include <fcntl.h>
    #include <unistd.h>

    #include <chrono>
    #include <condition_variable>
    #include <filesystem>
    #include <memory_resource>
    #include <mutex>
    #include <stdexcept>
    #include <string>
    #include <thread>
    #include <vector>

    extern "C" int answer(const char* folder) {
      int found = 0;
      std::thread([&] { found += std::filesystem::is_directory(folder); }).join();
      std::mutex mutex;
      std::condition_variable nobody;
      std::unique_lock lock(mutex);
      nobody.wait_for(lock, std::chrono::microseconds(1));
      const int opened = open(folder, O_RDONLY | O_DIRECTORY);
      const int copy = fcntl(opened, F_DUPFD_CLOEXEC, opened + 10);
      found += copy >= opened + 10 && fcntl(copy, F_GETFD) == FD_CLOEXEC;
      close(copy);
      close(opened);
      std::pmr::vector<int> numbers({1, 2, 3}, std::pmr::new_delete_resource());
      try {
        throw std::runtime_error(folder);
      } catch (const std::exception& error) {
        found += std::string(error.what()) == folder;
      }
      return found + static_cast<int>(numbers.size());
    }
"""


@pytest.fixture(scope="module")
def stubs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("wheel_stubs", ROOT / "wheels" / "stubs.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["wheel_stubs"] = module  # for the annotations of its dataclasses
    spec.loader.exec_module(module)
    return module


def installed(library: str) -> Path:
    found = subprocess.run(
        ["g++", f"-print-file-name={library}"], capture_output=True, text=True, check=True, timeout=60
    )
    return Path(found.stdout.strip()).resolve()


def wanted(library: Path) -> list[str]:
    """Return the versions of the symbols that a library asks for, such as `GLIBC_2.17`."""
    command = ["readelf", "--version-info", "--wide", str(library)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return re.findall(r"Name: (\S+)", listing.partition("Version needs section")[2])


def asked_for(file: Path) -> set[str]:
    """Return the names of the symbols that an object or a library wants from others."""
    command = ["readelf", "--symbols", "--wide", str(file)]
    listing = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return set(re.findall(r" UND ([^\s@]+)", listing))


# --- parts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "family", "number"),
    [
        ("GLIBCXX_3.4.19", "GLIBCXX", (3, 4, 19)),
        ("CXXABI_1.3", "CXXABI", (1, 3)),
        ("GCC_4.8.0", "GCC", (4, 8, 0)),
        ("CXXABI_TM_1", "CXXABI_TM", (1,)),
        ("CXXABI_FLOAT128", "CXXABI", ()),
        ("GLIBC_PRIVATE", "GLIBC", ()),
    ],
)
def test_a_version_has_a_family_and_a_number(
    version: str, family: str, number: tuple[int, ...], stubs: ModuleType
) -> None:
    assert stubs.number_of(version) == (family, number)


@pytest.mark.parametrize("level", ["manylinux2014", "manylinux_2_28"])
def test_a_stub_has_the_symbols_of_its_level_and_no_newer_one(level: str, stubs: ModuleType) -> None:
    limits = stubs.LEVELS[level].versions
    symbols = {
        symbol.name: symbol for symbol in stubs.symbols_of(installed("libstdc++.so.6"), stubs.LEVELS[level])
    }

    assert symbols["_ZNSt18condition_variable10notify_oneEv"].kind == "FUNC"
    assert symbols["_ZSt4cout"].kind == "OBJECT" and symbols["_ZSt4cout"].size > 0
    assert symbols["_ZTISt9exception"].version.startswith("GLIBCXX_3.4")
    for symbol in symbols.values():
        family, number = stubs.number_of(symbol.version)
        assert number <= limits[family]


def test_a_definition_has_the_size_of_what_may_be_copied(stubs: ModuleType) -> None:
    data = stubs.Symbol("table", "GLIBCXX_3.4", "OBJECT", False, 24)
    weak = stubs.Symbol("run", "GLIBCXX_3.4", "FUNC", True, 900)
    local = stubs.Symbol("mine", "GLIBCXX_3.4", "TLS", False, 8)

    assert "table: .zero 24" in stubs.assembly_of(data) and ".globl table" in stubs.assembly_of(data)
    assert "run: .zero 1\n" in stubs.assembly_of(weak) and ".weak run" in stubs.assembly_of(weak)
    assert "@tls_object" in stubs.assembly_of(local)


def test_a_library_without_symbols_of_the_level_is_refused(stubs: ModuleType, tmp_path: Path) -> None:
    nothing = stubs.Level("2.17", {})

    with pytest.raises(SystemExit, match="has no symbols of this level"):
        stubs.make_stub("libstdc++.so.6", nothing, tmp_path)


# --- the whole -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("source") / "core.o"
    (file.parent / "core.cc").write_text(SOURCE, encoding="utf-8")
    compat = ROOT / "wheels" / "compat" / "include"
    command = [
        "g++",
        "-std=c++20",
        "-O1",
        "-fPIC",
        "-isystem",
        compat,
        "-c",
        file.parent / "core.cc",
        "-o",
        file,
    ]
    subprocess.run(command, check=True, timeout=120)
    return file


def link(source: Path, target: Path, *flags: str) -> Path:
    command = ["g++", "-shared", source, "-o", target, "-Wl,--exclude-libs,ALL", "-Wl,--no-undefined", *flags]
    subprocess.run(command, check=True, timeout=120)
    return target


@pytest.mark.parametrize("level", ["manylinux2014", "manylinux_2_28"])
def test_what_is_linked_against_the_stubs_needs_no_newer_library_and_runs(
    level: str, source: Path, tmp_path: Path, stubs: ModuleType
) -> None:
    """With this system's glibc: that of the level takes zig too long; auditwheel judges it in the wheels."""
    stubs.make_compiler_libraries(stubs.LEVELS[level], tmp_path)

    library = link(source, tmp_path / f"lib{level}.so", f"-L{tmp_path}")

    limits = stubs.LEVELS[level].versions
    numbers = [stubs.number_of(version) for version in wanted(library)]
    assert {"GLIBCXX", "CXXABI"} <= {family for family, _ in numbers}
    assert [pair for pair in numbers if pair[1] > limits.get(pair[0], (9,))] == []
    assert ctypes.CDLL(str(library)).answer(str(tmp_path).encode()) == 6


@pytest.mark.parametrize("level", ["manylinux2014", "manylinux_2_28"])
def test_what_glibc_lacks_at_the_level_comes_from_the_shim(
    level: str, source: Path, tmp_path: Path, stubs: ModuleType
) -> None:
    late = {"fcntl64", "pthread_cond_clockwait"}
    assert late <= asked_for(source)
    stubs.make_compiler_libraries(stubs.LEVELS[level], tmp_path)

    library = link(source, tmp_path / f"lib{level}.so", f"-L{tmp_path}")

    assert late & asked_for(library) == set()


def test_what_is_linked_without_them_needs_a_newer_library(
    source: Path, tmp_path: Path, stubs: ModuleType
) -> None:
    numbers = [stubs.number_of(version) for version in wanted(link(source, tmp_path / "libplain.so"))]

    limits = stubs.LEVELS["manylinux_2_28"].versions
    assert [pair for pair in numbers if pair[1] > limits.get(pair[0], (9,))] != []
