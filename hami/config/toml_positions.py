"""Where the keys and values of a TOML text stand; tomllib tells only what they are.

hami.config calls `find_positions` after tomllib accepted the text, so the scanner can rely on valid TOML. It
records tables, keys and values down to two levels, which is where nodes and their parameters are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_LEVELS = 2

Path = tuple[str, ...]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_SPACE = re.compile(r"[ \t]*")
_SCALAR = re.compile(r"[^,\]}\n#]*")
_ESCAPES = {"b": "\b", "t": "\t", "n": "\n", "f": "\f", "r": "\r", "e": "\x1b", '"': '"', "\\": "\\"}
_HEX_DIGITS = {"x": 2, "u": 4, "U": 8}


@dataclass(frozen=True)
class Position:
    """Offsets of a key and its value; `offsets` maps the characters of a text value, and its end, to the
    file."""

    key_start: int
    key_end: int
    value_start: int
    value_end: int
    text: str | None = None
    offsets: tuple[int, ...] = ()


def find_positions(text: str) -> dict[Path, Position]:
    """Return the positions by path: `(node,)` is a table's header or key, `(node, key)` a parameter."""
    return _Scanner(text).scan()


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[Path, Position] = {}

    def scan(self) -> dict[Path, Position]:
        table: Path = ()
        self._skip(_BLANK)
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip(_BLANK)
        return self.found

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        assert match is not None
        self.at = match.end()

    def _header(self) -> Path:
        while self.text[self.at] == "[":
            self.at += 1
        keys = list(self._keys())
        while self.at < len(self.text) and self.text[self.at] == "]":
            self.at += 1
        path = tuple(name for name, _, _ in keys)
        for length, (_, start, end) in enumerate(keys, 1):
            self._record(path[:length], Position(start, end, start, end))
        return path

    def _pair(self, table: Path) -> None:
        keys = list(self._keys())
        path = table + tuple(name for name, _, _ in keys)
        self.at += 1  # the equals sign
        self._skip(_SPACE)
        start = self.at
        value = self._value(path)
        text, offsets = value if value else (None, ())
        for length in range(len(table) + 1, len(path)):
            key = keys[length - len(table) - 1]
            self._record(path[:length], Position(key[1], key[2], start, self.at))
        self._record(path, Position(keys[0][1], keys[-1][2], start, self.at, text, offsets))

    def _record(self, path: Path, position: Position) -> None:
        if len(path) <= MAX_LEVELS:
            self.found.setdefault(path, position)

    def _keys(self) -> Iterator[tuple[str, int, int]]:
        """Yield the parts of a dotted key with their offsets; stop behind the space after it."""
        while True:
            self._skip(_SPACE)
            start = self.at
            if self.text[self.at] in "\"'":
                name = self._string()[0]
            else:
                self._skip(_BARE_KEY)
                name = self.text[start : self.at]
            yield name, start, self.at
            self._skip(_SPACE)
            if self.at >= len(self.text) or self.text[self.at] != ".":
                return
            self.at += 1

    def _value(self, path: Path) -> tuple[str, tuple[int, ...]] | None:
        """Pass one value; return text and offsets of a string."""
        first = self.text[self.at]
        if first in "\"'":
            return self._string()
        if first == "{" and len(path) < MAX_LEVELS:
            self._inline_table(path)
        elif first in "[{":
            self._pass_brackets()
        else:
            self._skip(_SCALAR)
            while self.text[self.at - 1] in " \t":
                self.at -= 1
        return None

    def _inline_table(self, path: Path) -> None:
        self.at += 1
        self._skip(_BLANK)
        while self.text[self.at] != "}":
            self._pair(path)
            self._skip(_BLANK)
            if self.text[self.at] == ",":
                self.at += 1
                self._skip(_BLANK)
        self.at += 1

    def _pass_brackets(self) -> None:
        depth = 0
        while True:
            character = self.text[self.at]
            if character in "\"'":
                self._string()
                continue
            if character == "#":
                self._skip(_BLANK)
                continue
            depth += (character in "[{") - (character in "]}")
            self.at += 1
            if depth == 0:
                return

    def _string(self) -> tuple[str, tuple[int, ...]]:
        quote = self.text[self.at]
        is_long = self.text.startswith(quote * 3, self.at)
        end = quote * 3 if is_long else quote
        self.at += len(end)
        if is_long and self.text.startswith("\n", self.at):
            self.at += 1
        out: list[str] = []
        offsets: list[int] = []
        while not self.text.startswith(end, self.at):
            start = self.at
            character = self._escaped() if quote == '"' and self.text[start] == "\\" else self._plain()
            if character:
                out.append(character)
                offsets.append(start)
        extra = 0
        while is_long and extra < 2 and self.text.startswith(quote, self.at + 3 + extra):
            extra += 1
        for _ in range(extra):
            out.append(quote)
            offsets.append(self.at)
            self.at += 1
        offsets.append(self.at)
        self.at += len(end)
        return "".join(out), tuple(offsets)

    def _plain(self) -> str:
        self.at += 1
        return self.text[self.at - 1]

    def _escaped(self) -> str:
        """Pass one escape; return its character, or nothing for a line continuation."""
        kind = self.text[self.at + 1]
        self.at += 2
        digits = _HEX_DIGITS.get(kind)
        if digits:
            self.at += digits
            return chr(int(self.text[self.at - digits : self.at], 16))
        if kind in _ESCAPES:
            return _ESCAPES[kind]
        while self.text[self.at] in " \t\n":
            self.at += 1
        return ""
