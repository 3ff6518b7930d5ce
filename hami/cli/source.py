"""What the verbs of the command line have in common: the argument FILE, and how a mistake is reported."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ..errors import Error

SourceArgument = Annotated[str, typer.Argument(metavar="FILE", help="A TOML file, or an expression.")]


@contextmanager
def reported() -> Iterator[None]:
    """Print an error of hami or of a backend, without a traceback, and exit."""
    try:
        yield
    except Error as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from None
    except (typer.Exit, KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:
        notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
        typer.echo(f"{type(error).__name__}: {error}{notes}", err=True)
        raise typer.Exit(1) from None


def source_of(text: str) -> Any:
    """Return what hami.pipe takes: an existing file is a path whatever its name, other text is what it is."""
    return Path(text) if os.path.isfile(text) else text
