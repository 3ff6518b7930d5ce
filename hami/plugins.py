"""Backends from elsewhere: shared libraries that `load` brings in, and packages that promise theirs.

`find` and `known_names` are those of hami.backend and what is installed besides; hami.plan and the command
line use them. `get_include` and `get_cmake_dir` say where plugins find what they are built with. Every
function may be called from any thread.
"""

from __future__ import annotations

import importlib
import inspect
import os
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from . import backend, installed
from .errors import BuildError, ConfigError, did_you_mean
from .parser import ALIASES, macro_names

_lock = threading.Lock()
_loaded: dict[str, tuple[str, ...]] = {}


def load(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Load a plugin, a shared library built with `hami/hami.h`, and return the names of its backends.

    From then on they are known everywhere in the process. Loading the same file again does nothing. Raises
    ConfigError for what is no plugin, was built for a newer border, or has a name that is taken.
    """
    file = _file_of(path)
    core = _core()
    taken = {*backend.registered_names(), *backend.FAMILIES, *ALIASES, *macro_names()}
    names = tuple(core.load_plugin(os.fsencode(file), taken)["classes"])
    while not backend.core_table().keys() >= set(names):
        backend.core_table.cache_clear()
    with _lock:
        _loaded.setdefault(file, names)
    return names


def is_plugin(name: str) -> bool:
    """Say whether a file with this name would be a plugin."""
    return name.endswith(".so") or ".so." in os.path.basename(name)


def loaded_files() -> tuple[str, ...]:
    """Return the plugins loaded so far, for worker processes, which need them too."""
    with _lock:
        return tuple(file for file in _loaded if is_plugin(file) and os.path.isfile(file))


def find(name: str) -> backend.Declaration | None:
    """Return the class of that name, loading its family or the package that promises it.

    Raises ConfigError where that fails.
    """
    return backend.find(name) or fetch(name)


def fetch(name: str) -> backend.Declaration | None:
    """Load the backend that an installed package promises, or return None where none does."""
    promise = installed.promise_of(name)
    if promise is None:
        return None
    target = promise.follow()
    try:
        if isinstance(target, (str, os.PathLike)):
            load(target)
        elif isinstance(target, type) or inspect.isroutine(target):
            backend.register(name, target)
        elif not isinstance(target, ModuleType):
            raise TypeError(f"`{promise.entry.value}` is a `{type(target).__name__}`")
    except Exception as error:
        raise promise.broken(error) from error
    found = backend.find(name)
    if found is None:
        raise promise.broken(LookupError(f"it registers no backend of the name `{name}`"))
    return found


def known_names() -> list[str]:
    """Return every name that an expression may use, those of packages that are not loaded included."""
    return sorted({*backend.backend_names(), *installed.promises()})


def get_include() -> str:
    """Return the folder to give a compiler with `-I`, for `#include <hami/hami.h>`."""
    return str(_headers_home() / "include")


def get_cmake_dir() -> str:
    """Return the folder of `hamiConfig.cmake`, for `find_package(hami)` through `hami_DIR`."""
    return str(_headers_home() / "share" / "cmake" / "hami")


def _headers_home() -> Path:
    here = Path(__file__).resolve().parent
    # the wheel has them beside this module, the source tree in csrc/
    for home in (here, here.parent / "csrc"):
        if (home / "include" / "hami" / "hami.h").is_file():
            return home
    message = f"the headers for plugins are not installed in `{here}`"
    raise BuildError(message, code="plugin-headers", help="reinstall `hami-core`")


def _core() -> Any:
    backend.core_table()  # a core that cannot be imported is an error that says so
    return importlib.import_module("hami._core")


def _file_of(path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        message = f"`{path!r}` is no path of a plugin"
        raise ConfigError(
            message, code="plugin-missing", where="hami.load", help='write `load("libmine.so")`'
        )
    file = os.path.abspath(os.fsdecode(path))
    if not os.path.isfile(file):
        folder, name = os.path.split(file)
        try:
            near = [entry for entry in os.listdir(folder) if is_plugin(entry)]
        except (OSError, ValueError):
            near = []
        help = did_you_mean(name, near, otherwise="build the plugin first, or correct the path")
        raise ConfigError(f"there is no file `{file}`", code="plugin-missing", where="hami.load", help=help)
    return file
