"""Change values of a TOML text in place: comments, order and spaces stay."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from ..config.files import read_toml
from ..config.toml_positions import find_positions
from ..errors import ConfigError
from .reasons import toml_value
from .sweep import Change


def edited(text: str, changes: Iterable[Change], where: str = "configuration") -> str:
    """Return the text of a pipeline with the changes in it.

    A key that is there gets the new value; another one becomes a line below the header of its node's table,
    or below the `backend` of a file without tables. Raises ConfigError where a node has neither, such as one
    that is written as an inline table.
    """
    for change in changes:
        text = _edited_by_one(text, change, where)
    return text


def _edited_by_one(text: str, change: Change, where: str) -> str:
    assert change.node is not None
    positions = find_positions(text)
    is_single = (change.node,) not in positions
    own = positions.get((change.key,) if is_single else (change.node, change.key))
    value = toml_value(change.value) if not isinstance(change.value, str) else f'"{change.value}"'
    if own is not None:
        return text[: own.value_start] + value + text[own.value_end :]
    anchor = positions.get(("backend",) if is_single else (change.node,))
    line_end = -1 if anchor is None else _end_of_line(text, anchor.value_end)
    is_header = anchor is not None and re.match(r"[ \t]*\]", text[anchor.value_end :]) is not None
    if line_end < 0 or not (is_single or is_header):
        raise ConfigError(
            f"node `{change.node}` is not written as a table of its own, so `{change.key}` cannot be added",
            code="bench-no-table",
            where=where,
            help=f"write `{change.key} = {value}` there yourself",
        )
    return f"{text[:line_end]}\n{change.key} = {value}{text[line_end:]}"


def _end_of_line(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def tuned_path(source: Path) -> Path:
    """Return the file beside `source` that a proposal is written to: `pipeline.tuned.toml`."""
    return source.with_name(f"{source.stem}.tuned.toml")


def read_text(source: Path) -> str:
    """Return the text of a TOML file. Raises ConfigError where there is none."""
    return read_toml(source)[1]
