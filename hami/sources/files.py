"""`FileSource`: the lines of a text file, the objects of a JSON Lines file, or the paths of a pattern."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..backend import param, register
from ..errors import BuildError, RequestError
from .stream import Fault, SourceBackend, optional_param, repeat_param


@register
class FileSource(SourceBackend):
    """The next line of a file, object of a JSON Lines file, or path that matches a pattern."""

    path = param(type="path", doc="a text file, a `.jsonl` file, or a pattern such as `images/*.jpg`")
    max_line_bytes = param(
        16_777_216, min=1, unit="bytes", doc="a longer line is an error, so that memory is bounded"
    )
    repeat = repeat_param()
    optional = optional_param()

    def open(self) -> Callable[[], Iterator[Any]]:
        """Check that there is something to read."""
        return elements_of_path(self.path, self.max_line_bytes)


def elements_of_path(path: str, max_line_bytes: int) -> Callable[[], Iterator[Any]]:
    """Return the function that reads `path` from its start, lazily. Raises BuildError."""
    if glob.has_magic(path) and not os.path.lexists(path):
        if not any(glob.iglob(path, recursive=True)):
            raise _cannot_open(path, "nothing matches the pattern")
        # A list of paths is small beside what they name, and sorting needs all of them.
        return lambda: iter(sorted(glob.iglob(path, recursive=True)))
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise _cannot_open(path, error.strerror or str(error)) from error
    return partial(_objects if path.endswith(".jsonl") else _lines, path, max_line_bytes)


def _cannot_open(path: str, reason: str) -> BuildError:
    return BuildError(
        f"`{path}` cannot be read: {reason}",
        code="source-file",
        help="check the path; in a TOML file it is relative to that file",
    )


def _numbered_lines(path: str, max_line_bytes: int) -> Iterator[tuple[str, str | Fault]]:
    """Yield each line with its place; what is no line of text is a Fault, and does not end the file."""
    with open(path, "rb") as file:
        number = 0
        while line := file.readline(max_line_bytes + 2):
            number += 1
            where = f"{path}:{number}"
            content = line.rstrip(b"\n").removesuffix(b"\r")
            if len(content) > max_line_bytes:
                while line and not line.endswith(b"\n"):  # the rest of it
                    line = file.readline(max_line_bytes)
                message = f"the line has more than `{max_line_bytes}` bytes"
                yield where, _bad_line(where, message, "split it, or raise `max_line_bytes`")
                continue
            try:
                yield where, content.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                message = f"the line is not UTF-8: byte `0x{content[error.start]:02x}`"
                yield where, _bad_line(where, message, "save the file as UTF-8")


def _bad_line(where: str, message: str, help: str) -> Fault:
    return Fault(RequestError(message, code="source-bad-line", where=where, help=help))


def _lines(path: str, max_line_bytes: int) -> Iterator[str | Fault]:
    for _where, line in _numbered_lines(path, max_line_bytes):
        yield line


def _objects(path: str, max_line_bytes: int) -> Iterator[Any]:
    for where, line in _numbered_lines(path, max_line_bytes):
        if isinstance(line, Fault):
            yield line
        elif line.strip():
            yield _parsed(line, where)


def _parsed(line: str, where: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        shown = line if len(line) <= 60 else line[:57] + "..."
        return _bad_line(where, f"`{shown}` is not JSON: {error}", "write one JSON value per line")
