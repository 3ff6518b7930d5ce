"""Build plugins for the tests of the plugin border, with every compiler that is there.

The headers are those of whatever `hami` is imported, so that the same tests run against an installed wheel:
`cd ELSEWHERE; ENV/bin/pytest TREE/tests/plugin -c TREE/pyproject.toml`. What PLUGIN_FLAGS holds is added to
the flags of g++, such as `-fsanitize=address`.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import hami

SOURCES = Path(__file__).resolve().parent / "plugin"
BUILD_S = 300.0
"""How long one compiler may take; zig builds its libc++ when it is used for the first time."""

FLAGS = ("-std=c++20", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-fvisibility=hidden")
COMPILERS = {
    "Gcc": ("g++", *os.environ.get("PLUGIN_FLAGS", "").split()),
    "OldStrings": ("g++", "-D_GLIBCXX_USE_CXX11_ABI=0"),  # the string of libstdc++ before GCC 5
    "Clang": ("clang++",),
    "Zig": (sys.executable, "-m", "ziglang", "c++"),  # libc++, linked into the plugin
}


def command_of(compiler: str) -> tuple[str, ...]:
    """Return the command of a compiler; skip the test where it is missing."""
    command = COMPILERS[compiler]
    if compiler == "Zig":
        if importlib.util.find_spec("ziglang") is None:
            pytest.skip("the package ziglang is not installed")
    elif shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return command


def build(compiler: str, source: Path, target: Path, *flags: str) -> Path:
    """Compile one file of C++ into a plugin. Warnings are errors."""
    return _run(*command_of(compiler), *FLAGS, *flags, source, target)


def build_plain(target: Path, **macros: object) -> Path:
    """Compile `plain.c`, the plugin in C, with one thing changed by each macro."""
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    flags = [f"-D{name}={value}" for name, value in macros.items()]
    strict = (
        "-std=c99",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Wno-unused",
        "-Werror",
        "-fPIC",
        "-shared",
    )
    return _run("gcc", *strict, *flags, SOURCES / "plain.c", target)


def find_cmake() -> str:
    """Return the command cmake, this environment's own first; skip the test where there is none."""
    own = Path(sys.executable).with_name("cmake")
    found = str(own) if own.is_file() else shutil.which("cmake")
    return found or pytest.skip("cmake is not installed")


def run(command: list[str], folder: Path, **environment: str) -> str:
    """Run a command of a build and return what it printed; fail with it where the command does."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}"
    return done.stdout


def _run(*parts: object) -> Path:
    *command, source, target = map(str, parts)
    run([*command, f"-I{hami.get_include()}", source, "-o", target], Path(target).parent)
    return Path(target)
