"""`hami new-backend NAME`: a project with one backend in C++ and its test, ready to be built."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from ..errors import ConfigError
from .source import reported

TEMPLATES = Path(__file__).resolve().parent / "templates"
FILES = {
    "CMakeLists.txt.in": "CMakeLists.txt",
    "backend.cc.in": "@name@.cc",
    "test_backend.py.in": "test_@name@.py",
    "README.md.in": "README.md",
}


def new_backend(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The backend's name, such as `Blur`.")],
    into: Annotated[Path, typer.Option("--into", help="The folder in which the project's is made.")] = Path(),
) -> None:
    """Write a project with one backend in C++ and its test."""
    with reported():
        folder = write_project(name, into)
        typer.echo(f"{folder}: written; README.md in it says how to build it")


def write_project(name: str, into: Path) -> Path:
    """Write the project into a new folder in `into`, and return that. Raises ConfigError."""
    class_name, stem = _names(name)
    folder = into / stem
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise _refused(str(folder), "it exists already", "choose another name, or move it away") from None
    except OSError as error:
        raise _refused(str(folder), f"it cannot be made: {error.strerror}", "check the path") from None
    values = {"@Class@": class_name, "@name@": stem, "@abi@": _abi_version()}
    for template, target in FILES.items():
        text = (TEMPLATES / template).read_text(encoding="utf-8")
        for key, value in values.items():
            text, target = text.replace(key, value), target.replace(key, value)
        (folder / target).write_text(text, encoding="utf-8")
    return folder


def _names(name: str) -> tuple[str, str]:
    """Return the class `GaussianBlur` and the file's stem `gaussian_blur` for either of them."""
    from ..plugins import known_names

    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9]*(_[A-Za-z0-9]+)*", name):
        message = f"`{name}` is no name of a C++ class"
        raise ConfigError(
            message, code="cli-backend-name", where="hami new-backend", help="use letters, digits and `_`"
        )
    class_name = "".join(part[0].upper() + part[1:] for part in name.split("_"))
    if class_name in known_names():
        message = f"there is a backend `{class_name}` already"
        raise ConfigError(
            message, code="cli-backend-name", where="hami new-backend", help="choose another name"
        )
    return class_name, re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", class_name).lower()


def _abi_version() -> str:
    from .._core import ABI_VERSION

    return ".".join(map(str, ABI_VERSION))


def _refused(where: str, message: str, help: str) -> ConfigError:
    return ConfigError(message, code="cli-project-folder", where=where, help=help)
