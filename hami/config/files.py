"""Read a TOML file with the positions of its keys, and import the modules that a configuration names."""

from __future__ import annotations

import importlib
import os
import re
import sys
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ConfigError, Source, Span, did_you_mean
from .toml_positions import Position, find_positions

if TYPE_CHECKING:
    from . import Config, Setting

_PLACE = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_TWICE = re.compile(r"Cannot (?:declare \((.*?),?\) twice|overwrite a value|redefine)")

LoadPlugin = Callable[[str], object]  # hami.plugins.load, which is above this layer

_import_lock = threading.RLock()


def read_toml(path: Any) -> tuple[Mapping[str, Any], str, Mapping[tuple[str, ...], Position]]:
    """Return a file's data, its text, and where its keys are. Every fault of file or text is a
    ConfigError."""
    # part of Python from 3.11 on; loaded here, because most programs that import hami read no file
    tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    name = os.fsdecode(path)
    text = _read_text(name)
    try:
        data = tomllib.loads(text)
    except RecursionError:
        raise ConfigError(
            "lists or tables are nested too deeply", code="config-nesting", where=name, help="flatten them"
        ) from None
    except ValueError as error:
        raise _toml_error(Source(text, name), str(error)) from None
    return data, text, find_positions(text)


def _read_text(name: str) -> str:
    try:
        with open(name, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        folder = os.path.dirname(name) or "."
        try:
            files = [entry for entry in os.listdir(folder) if entry.endswith(".toml")]
            otherwise = f"there is no such file in `{folder}`"
        except OSError:
            files, otherwise = [], f"the folder `{folder}` does not exist"
        help = did_you_mean(os.path.basename(name), files, otherwise=otherwise)
        raise ConfigError(
            "the file does not exist", code="config-missing-file", where=name, help=help
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(
            f"the file cannot be read: {reason}",
            code="config-unreadable-file",
            where=name.replace("\0", "\N{REPLACEMENT CHARACTER}"),
            help="check the path and its permissions",
        ) from None
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"the file is not UTF-8: byte `0x{content[error.start]:02x}`",
            code="config-encoding",
            where=f"{name}:{line}",
            help="save it as UTF-8",
        ) from None


def _toml_error(source: Source, reason: str) -> ConfigError:
    """Turn tomllib's message into an error with the line and a caret."""
    place = _PLACE.search(reason)
    message = _PLACE.sub("", reason)
    lines = source.text.split("\n")
    number, column = len(lines), len(lines[-1]) + 1
    if place and place[1]:
        number, column = int(place[1]), int(place[2])
    start = sum(len(line) + 1 for line in lines[: number - 1]) + column - 1
    if _TWICE.match(message):
        line = lines[number - 1]
        start += len(line) - len(line.lstrip()) - column + 1
        what = line.split("=")[0].split("#")[0].strip()
        span = Span(source, start, start + len(what))
        return span.error("config-duplicate", f"`{what}` is defined twice", "rename or remove one of them")
    message = message[:1].lower() + message[1:]
    help = "check this line and the end of the one above"
    if number == len(lines) and column > len(lines[-1]):
        help = "the text ends too early: close the bracket or quote that is open"
    elif message.startswith("invalid value"):
        help = 'text needs quotes: `next = "classify"`'
    return Span(source, start, start + 1).error("config-toml", message, help, with_column=True)


def import_modules(config: Config, load_plugin: LoadPlugin) -> None:
    """Import what `imports` names, each once a process: modules, and Python files or plugins relative to the
    configuration."""
    setting = config.settings.get("imports")
    if setting is None:
        return
    names = [setting.value] if isinstance(setting.value, str) else setting.value
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        message = f"`imports` must be a list of texts, got `{setting.value!r}`"
        raise setting.error("config-imports", message, 'write `imports = ["./backends.py"]`')
    for name in names:
        _import_one(name, config.directory or os.getcwd(), setting, load_plugin)


def imports_of(config: Config) -> tuple[str, ...]:
    """Return what a configuration imports, in a form that means the same in every folder.

    Names of modules and absolute paths of files. REQUIRES: `import_modules` has passed.
    """
    setting = config.settings.get("imports")
    if setting is None:
        return ()
    names = [setting.value] if isinstance(setting.value, str) else setting.value
    directory = config.directory or os.getcwd()
    return tuple(_path_of(name, directory) if _is_file(name) else name for name in names)


def import_by_name(name: str, load_plugin: LoadPlugin) -> None:
    """Import one of what `imports_of` returned. Raises what the module raises."""
    if _is_plugin(name):
        load_plugin(name)
    elif _is_file(name):
        _import_file(name)
    else:
        importlib.import_module(name)


def _is_file(name: str) -> bool:
    return name.endswith(".py") or os.sep in name or _is_plugin(name)


def _is_plugin(name: str) -> bool:
    return name.endswith(".so") or ".so." in os.path.basename(name)


def _path_of(name: str, directory: str) -> str:
    return os.path.abspath(os.path.join(directory, name))


def _import_one(name: str, directory: str, setting: Setting, load_plugin: LoadPlugin) -> None:
    is_file = _is_file(name)
    path = _path_of(name, directory)
    if is_file and not os.path.isfile(path):
        try:
            near = [entry for entry in os.listdir(os.path.dirname(path)) if entry.endswith((".py", ".so"))]
        except OSError:
            near = []
        help = did_you_mean(
            os.path.basename(path), near, otherwise="paths are relative to the configuration file"
        )
        raise setting.error("config-import", f"there is no file `{name}`", help)
    try:
        import_by_name(path if is_file else name, load_plugin)
    except ConfigError:
        raise
    except Exception as error:
        message = f"importing `{name}` raised {type(error).__name__}: {error}"
        raise setting.error("config-import", message, "see the traceback of the cause") from error


def _is_loaded(path: str) -> bool:
    """Say whether a module of this very file, under whatever name, has registered its classes already."""
    real_path = os.path.realpath(path)
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return any(file and os.path.realpath(file) == real_path for file in files)


def _import_file(path: str) -> None:
    import hashlib
    import importlib.util

    stem = os.path.splitext(os.path.basename(path))[0]
    module_name = f"hami_imports_{hashlib.sha256(path.encode()).hexdigest()[:12]}_{stem}"
    with _import_lock:
        if module_name in sys.modules or _is_loaded(path):
            return
        spec = importlib.util.spec_from_file_location(module_name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[module_name]
            raise
