"""Every error that hami raises by itself, and how an error is worded.

All layers use this module; it imports none of them. An error reads `where: code: what is wrong`, then the
source line with a caret where there is one, then `help:` with one thing to do; docs/errors.md explains each
code. `Source` and `Span` say where in a text something stands; everything that comes from a text carries a
`Span`.
"""

from __future__ import annotations

import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

_EXCERPT_COLUMNS = 100


class Error(Exception):
    """Base of hami's own errors; `str()` is the full text, the attributes are its parts."""

    http_status = 500
    default_code = "error"

    def __init__(
        self, message: str = "", *, code: str = "", where: str = "", help: str = "", excerpt: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code or self.default_code
        self.where = where
        self.help = help
        self.excerpt = excerpt

    def __str__(self) -> str:
        head = f"{self.where}: {self.code}: {self.message}" if self.where else f"{self.code}: {self.message}"
        tail = f"help: {self.help}" if self.help else ""
        return "\n".join(_printable(part) for part in (head, self.excerpt, tail) if part)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message), dict(self.__dict__)


def _rebuild(kind: type[Error], message: str) -> Error:
    """Make an error again after pickling or copying; its attributes follow as state."""
    return kind(message)


class ConfigError(Error, ValueError):
    """A pipeline text, file or dict is wrong; raised before anything runs."""

    http_status = 400
    default_code = "config-error"


class BuildError(Error, RuntimeError):
    """A backend of a correct configuration could not be made: a model is missing, an engine refuses it."""

    http_status = 500
    default_code = "build-error"


class RequestError(Error, ValueError):
    """One request is wrong: a missing key, a wrong type or shape, rows above every instance's `max`."""

    http_status = 422
    default_code = "request-error"


class QueueFull(Error):  # noqa: N818  the name users know
    """The entry queue or the pipeline is full; try again later."""

    http_status = 429
    default_code = "queue-full"


class DeadlineExceeded(Error, TimeoutError):  # noqa: N818  the name users know
    """The request's deadline passed before its answer was there."""

    http_status = 504
    default_code = "deadline-exceeded"


class Cancelled(Error):  # noqa: N818  the name users know
    """The request was cancelled before it ended."""

    http_status = 499
    default_code = "cancelled"


class Closed(Error, RuntimeError):  # noqa: N818  the name users know
    """The pipeline is closed, or was closed while the request waited."""

    http_status = 503
    default_code = "closed"


class WorkerError(Error, RuntimeError):
    """A worker process died, or raised what cannot leave it."""

    http_status = 500
    default_code = "worker-error"


def exit_of(error: BaseException) -> tuple[str, int]:
    """Return what a command prints for an error that ends it, and its exit status: 2 for hami's own."""
    if isinstance(error, Error):
        return str(error), 2
    notes = "".join(f"\n{note}" for note in getattr(error, "__notes__", ()))
    return f"{type(error).__name__}: {error}{notes}", 1


@dataclass(frozen=True)
class Source:
    """A text that was read, with its name; positions in it are character offsets from 0.

    A text that came out of another one (a string value of a TOML file) has that one as `outer`, and
    `offsets`: for each of its characters, and for its end, the offset in `outer`. `line` and `column` are
    those of the first character, from 1.
    """

    text: str = field(repr=False)
    name: str = ""
    line: int = 1
    column: int = 1
    outer: Source | None = field(default=None, repr=False)
    offsets: Sequence[int] = field(default=(), repr=False, compare=False)

    def position(self, offset: int) -> tuple[int, int]:
        """Return line and column, from 1, of a character."""
        if self.outer is not None:
            return self.outer.position(self.offsets[min(offset, len(self.offsets) - 1)])
        starts = self._line_starts
        index = bisect_right(starts, offset) - 1
        shift = self.column if index == 0 else 1
        return self.line + index, offset - starts[index] + shift

    def excerpt(self, start: int, end: int) -> str:
        """Render the line of `start` with carets below the characters from `start` to `end`."""
        if self.outer is not None:
            last = len(self.offsets) - 1
            outer_start = self.offsets[min(start, last)]
            outer_end = self.offsets[min(end - 1, last)] + 1 if end > start else outer_start
            return self.outer.excerpt(outer_start, outer_end)
        starts = self._line_starts
        index = bisect_right(starts, start) - 1
        line_end = starts[index + 1] - 1 if index + 1 < len(starts) else len(self.text)
        text = self.text[starts[index] : line_end].rstrip("\r")
        return excerpt(text, self.line + index, start - starts[index] + 1, min(end, line_end) - start)

    def replaced(self, text: str, offsets: Sequence[int]) -> Source:
        """Return a text made from this one; `offsets` says where each of its characters comes from."""
        return Source(text, self.name, outer=self, offsets=offsets)

    @cached_property
    def _line_starts(self) -> list[int]:
        starts, at = [0], self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return starts


@dataclass(frozen=True)
class Span:
    """The characters of `source` from `start` to `end` (exclusive)."""

    source: Source
    start: int
    end: int

    @property
    def where(self) -> str:
        """`file:line`, or only the line of a text without a name."""
        line = self.source.position(self.start)[0]
        return f"{self._name}:{line}"

    @property
    def where_column(self) -> str:
        """`file:line:column`."""
        line, column = self.source.position(self.start)
        return f"{self._name}:{line}:{column}"

    @property
    def _name(self) -> str:
        source = self.source
        while source.outer is not None:
            source = source.outer
        return source.name or "expression"

    @property
    def excerpt(self) -> str:
        """The line with carets below the span."""
        return self.source.excerpt(self.start, self.end)

    def error(self, code: str, message: str, help: str = "", *, with_column: bool = False) -> ConfigError:
        """Return a ConfigError about this place; syntax errors give the column too."""
        where = self.where_column if with_column else self.where
        return ConfigError(message, code=code, where=where, help=help, excerpt=self.excerpt)


def excerpt(line_text: str, line: int, column: int, width: int = 1) -> str:
    """Render one source line with carets below it.

    `column` counts from 1; `width` is the number of characters to underline, at least one caret is drawn. A
    long line is cut to a window around the caret.
    """
    start = max(column - 1, 0)
    end = min(max(start + width, start + 1), max(len(line_text), start + 1))
    cut_left = cut_right = ""
    if len(line_text) > _EXCERPT_COLUMNS:
        left = max(0, min(start - _EXCERPT_COLUMNS // 2, len(line_text) - _EXCERPT_COLUMNS))
        right = left + _EXCERPT_COLUMNS
        cut_left, cut_right = ("…" if left else ""), ("…" if right < len(line_text) else "")
        line_text, start, end = line_text[left:right], start - left, min(end, right) - left
    shown = "".join(_visible(c) for c in line_text)
    before = "".join(c if c == "\t" else " " * _columns(c) for c in line_text[:start])
    before += " " * (start - len(line_text[:start]))
    carets = "^" * max(1, sum(_columns(c) for c in line_text[start:end]))
    margin = " " * len(str(line))
    source = f"{line} | {cut_left}{shown}{cut_right}".rstrip()
    return f"{source}\n{margin} | {' ' * len(cut_left)}{before}{carets}"


def _visible(character: str) -> str:
    return character if character == "\t" or character.isprintable() else "\N{REPLACEMENT CHARACTER}"


def _printable(text: str) -> str:
    """Return text without control characters, so that no input can steer a terminal or fail to encode."""
    return "\n".join(
        line if line.isprintable() else "".join(map(_visible, line)) for line in text.split("\n")
    )


def _columns(character: str) -> int:
    """Return how many terminal columns a character takes."""
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def nearest(name: str, candidates: Iterable[str], *, cutoff: float = 0.5, count: int = 1) -> list[str]:
    """Return up to `count` candidates that look like `name`, best first; case does not matter."""
    import difflib

    by_lower: dict[str, str] = {}
    for candidate in sorted(candidates):
        by_lower.setdefault(candidate.lower(), candidate)
    wanted = name.lower()[:200]
    found = difflib.get_close_matches(wanted, list(by_lower), n=count, cutoff=cutoff)
    likeness = [difflib.SequenceMatcher(None, key, wanted).ratio() for key in found]
    # Beside one that is nearly the same, what only looks a little like it is no help.
    return [by_lower[key] for key, like in zip(found, likeness, strict=True) if like > likeness[0] - 0.25]


def did_you_mean(name: str, candidates: Iterable[str], *, cutoff: float = 0.5, otherwise: str = "") -> str:
    """Return a help sentence with the nearest candidates, or `otherwise` where nothing is near."""
    near = nearest(name, candidates, cutoff=cutoff, count=3)
    return f"did you mean {' or '.join(f'`{item}`' for item in near)}?" if near else otherwise


def quoted(names: Iterable[object], *, limit: int = 12) -> str:
    """Return names as "`a`, `b`", cut after `limit` of them."""
    items = [f"`{name}`" for name in names]
    return ", ".join(items[:limit]) + (", ..." if len(items) > limit else "")
