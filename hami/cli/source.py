"""What the verbs of the command line have in common: the argument FILE, mistakes, files that are written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import ConfigError, exit_of

SourceArgument = Annotated[str, typer.Argument(metavar="FILE", help="A TOML file, or an expression.")]


@contextmanager
def reported() -> Iterator[None]:
    """Print an error of hami or of a backend, without a traceback, and exit."""
    try:
        yield
    except (typer.Exit, KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:
        text, status = exit_of(error)
        typer.echo(text, err=True)
        raise typer.Exit(status) from None


def source_of(text: str) -> Any:
    """Return what hami.pipe takes: an existing file is a path whatever its name, other text is what it is."""
    return Path(text) if os.path.isfile(text) else text


def write_text(path: Path, text: str) -> None:
    """Write a file of UTF-8. Raises ConfigError."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        message = f"the file cannot be written: {error.strerror}"
        raise ConfigError(
            message, code="cli-unwritable-file", where=str(path), help="check the path"
        ) from None
