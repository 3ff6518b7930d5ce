"""The errors of the last minutes: what hami logs, kept short, without tracebacks, and never many."""

from __future__ import annotations

import logging
import weakref
from collections import deque
from dataclasses import dataclass
from itertools import count

from ...errors import Error

MAX_ERRORS = 100
MAX_CHARACTERS = 400

_NODE = "hami.node."


@dataclass(frozen=True)
class RecentError:
    """One record of the log. Of a private one `code` and `message` are what a backend raised."""

    number: int
    time_s: float
    node: str
    code: str
    message: str
    is_private: bool


class _Keeper(logging.Handler):
    """Puts warnings and worse into a queue."""

    def __init__(self, kept: deque[RecentError]) -> None:
        super().__init__(logging.WARNING)
        self._kept = kept
        self._numbers = count(1)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep one record; what its author wrote may raise, and harms nobody then."""
        try:
            self._kept.append(_error_of(next(self._numbers), record))
        except Exception:
            self.handleError(record)


class RecentErrors:
    """Listens to the logger `hami` for as long as it lives; any thread.

    Failures that are not logged, since the level of the logger is above WARNING, are not seen here either.
    """

    def __init__(self) -> None:
        self._kept: deque[RecentError] = deque(maxlen=MAX_ERRORS)
        keeper = _Keeper(self._kept)
        logger = logging.getLogger("hami")
        logger.addHandler(keeper)
        self.close = weakref.finalize(self, logger.removeHandler, keeper)

    def latest(self, nodes: frozenset[str]) -> list[RecentError]:
        """Return what concerns these nodes, or no node at all, the newest first."""
        return [error for error in reversed(self._kept.copy()) if not error.node or error.node in nodes]


def _error_of(number: int, record: logging.LogRecord) -> RecentError:
    node = record.name.removeprefix(_NODE) if record.name.startswith(_NODE) else ""
    error = record.exc_info[1] if record.exc_info else None
    is_private = False
    if isinstance(error, Error):
        code, message, is_private = error.code, error.message, error.http_status == 500
    elif node and error is not None:
        code, message, is_private = type(error).__name__, str(error), True
    else:
        code, message = record.name, record.getMessage()
    short = message if len(message) <= MAX_CHARACTERS else f"{message[:MAX_CHARACTERS]}…"
    return RecentError(number, record.created, node, code, short, is_private)
