"""`samples_from`: requests from files, folders, patterns and JSON Lines.

Paths and lines are chosen first; what they hold is read one at a time, when the request is asked for, so that
a large folder costs no more memory than its names and the requests that the caller keeps.
"""

from __future__ import annotations

import glob
import json
import os
import random
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from ..errors import ConfigError, did_you_mean
from .load import ORDERS

_T = TypeVar("_T")


def samples_from(
    path: str | os.PathLike[str],
    key: str = "data",
    *,
    limit: int = 1000,
    order: str = "given",
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """Yield at most `limit` requests that `path` holds; the choice is made at once.

    `path` is a `.jsonl` file (one dict a line, in which a value `{"file": "x.jpg"}` stands for the bytes of
    that file, beside the JSON file unless absolute), a folder (the bytes of each file in it, hidden ones
    excepted, under `key`), a pattern such as `images/**/*.jpg` (the same), or any other file (its bytes).
    `order` is `given`, for the first ones by name or line, or `random`, for a uniform sample of all of them
    without replacement, in random order by `seed`. Raises ConfigError naming file and line.
    """
    if order not in ORDERS:
        help = did_you_mean(str(order), ORDERS, otherwise="use `given` or `random`")
        raise _refused("samples", f"`order` must be `given` or `random`, got `{order!r}`", help)
    _check_limit(limit)
    text = os.fspath(path)
    generator = random.Random(seed) if order == "random" else None
    if os.path.isfile(text) and text.endswith(".jsonl"):
        lines = _choose(_lines(text), limit, generator)
        if not lines:
            raise _refused(text, "the file has no line", "write one JSON object per line")
        return (_request_of(line, where, Path(text).parent) for where, line in lines)
    names = _choose(_names(text), limit, generator)
    return ({key: _read(name, name)} for name in names)


def _check_limit(limit: object) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise _refused("samples", f"`limit` must be a whole number from 1, got `{limit!r}`", "correct it")


def _names(path: str) -> Iterable[str]:
    """Return the files that a path means, in order of their names."""
    if os.path.isfile(path):
        return [path]
    if os.path.isdir(path):
        names = sorted(entry.path for entry in os.scandir(path) if entry.is_file() and entry.name[0] != ".")
        if not names:
            raise _refused(path, "the folder has no file", "name a folder with files, or a pattern")
        return names
    names = sorted(name for name in glob.iglob(path, recursive=True) if os.path.isfile(name))
    if not names:
        is_pattern = glob.has_magic(path)
        message = "no file matches the pattern" if is_pattern else "there is no such file or folder"
        raise _refused(path, message, "check the path")
    return names


def _choose(elements: Iterable[_T], limit: int, generator: random.Random | None) -> list[_T]:
    """Return the first `limit` elements, or that many of all with the same chance for each.

    The sample is that of algorithm R (Vitter, "Random sampling with a reservoir", ACM TOMS 11, 1985).
    """
    chosen: list[_T] = []
    for number, element in enumerate(elements):
        if number < limit:
            chosen.append(element)
        elif generator is None:
            break
        elif (place := generator.randrange(number + 1)) < limit:
            chosen[place] = element
    if generator is not None:
        generator.shuffle(chosen)
    return chosen


def _lines(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the lines that hold something, each with its place."""
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield f"{path}:{number}", line
    except OSError as error:
        raise _refused(path, f"it cannot be read: {error.strerror}", "check the path") from error


def _request_of(line: bytes, where: str, folder: Path) -> dict[str, Any]:
    try:
        request = json.loads(line.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise _refused(where, f"`{_shown(line)}` is not JSON: {error}", "write one object per line") from None
    if not isinstance(request, dict):
        message = f"a line is an object, got `{_shown(line)}`"
        raise _refused(where, message, 'write `{"data": ...}`')
    return {key: _opened(value, where, folder) for key, value in request.items()}


def _opened(value: Any, where: str, folder: Path) -> Any:
    """Return the bytes of the file that `{"file": NAME}` means; any other value as it is."""
    if not isinstance(value, dict) or set(value) != {"file"}:
        return value
    if not isinstance(value["file"], str):
        raise _refused(where, f"`file` must be a path, got `{value['file']!r}`", "write it as text")
    return _read(str(folder / value["file"]), where)


def _read(name: str, where: str) -> bytes:
    try:
        return Path(name).read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or str(error)
        raise _refused(where, f"`{name}` cannot be read: {reason}", "check the path") from error


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace").strip()
    return text if len(text) <= 60 else text[:57] + "..."


def _refused(where: str, message: str, help: str) -> ConfigError:
    return ConfigError(message, code="load-sample", where=where, help=help)
