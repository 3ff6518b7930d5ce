"""What the page asks for once a second: the graph, the figures of its nodes, the errors, as one JSON text."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...pipeline import Pipeline
from ..watched import Watched
from .errors import MAX_ERRORS, RecentError, RecentErrors
from .graph import draw
from .sums import added

_HIDDEN_CODE = "backend-error"
_HIDDEN_MESSAGE = "a backend raised an exception; the log has its text"


@dataclass(frozen=True)
class Figures:
    """What one worker knows: rows of `pipe.stats()`, problems in words, errors as they are shown."""

    rows: list[dict[str, Any]]
    problems: list[str]
    errors: list[dict[str, Any]]


class State:
    """Makes the JSON of a service; any thread."""

    def __init__(self, service: Watched, errors: RecentErrors) -> None:
        self._service = service
        self._errors = errors
        self._drawn: tuple[Pipeline, dict[str, Any]] | None = None

    def figures(self) -> Figures:
        """Return what one worker knows."""
        pipe = self._service.pipe
        names = frozenset(node.name for node in pipe.plan.nodes)
        errors = [self._told(error) for error in self._errors.latest(names)]
        return Figures(pipe.stats(buckets=True), pipe.problems(), errors)

    def to_json(self, others: Sequence[Figures] = (), missing: Sequence[str] = ()) -> bytes:
        """Return the state now, with what other workers know, and in words those that said nothing.

        `clock_s` only ever grows, so that two states give a rate; `time_s` is the time of the day, in seconds
        since 1970. Latencies are in milliseconds, their buckets pairs of an upper bound and a count.
        """
        parts = [self.figures(), *others]
        rows = added([part.rows for part in parts])
        # Numbers of different workers must differ, and the newest must stay the newest.
        errors = [
            {**error, "number": error["number"] * len(parts) + place}
            for place, part in enumerate(parts)
            for error in part.errors
        ]
        state = {
            "name": self._service.name,
            "clock_s": time.monotonic(),
            "time_s": time.time(),
            "problems": [*dict.fromkeys(text for part in parts for text in part.problems), *missing],
            "graph": self._graph(self._service.pipe, {row["node"] for row in rows}),
            "nodes": {row["node"]: _figures(row) for row in rows},
            "errors": sorted(errors, key=lambda error: -error["time_s"])[:MAX_ERRORS],
        }
        # as ASCII, since half a surrogate pair is no UTF-8
        return json.dumps(state, allow_nan=False, separators=(",", ":")).encode()

    def _graph(self, pipe: Pipeline, measured: set[str]) -> dict[str, Any]:
        if self._drawn is None or self._drawn[0] is not pipe:
            self._drawn = (pipe, draw(pipe.plan, measured))
        return self._drawn[1]

    def _told(self, error: RecentError) -> dict[str, Any]:
        is_hidden = error.is_private and not getattr(self._service.settings, "show_errors", False)
        return {
            "number": error.number,
            "time_s": error.time_s,
            "node": error.node,
            "code": _HIDDEN_CODE if is_hidden else error.code,
            "message": _HIDDEN_MESSAGE if is_hidden else error.message,
        }


def _figures(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row of `pipe.stats()` as JSON can say it."""
    return {
        **row,
        "batch_rows": sorted(row["batch_rows"].items()),
        "wait_ms": _times(row["wait_ms"]),
        "run_ms": _times(row["run_ms"]),
        "backend": {name: value if math.isfinite(value) else None for name, value in row["backend"].items()},
    }


def _times(times: dict[str, Any]) -> dict[str, Any]:
    return {**times, "buckets": [[round(below, 6), count] for below, count in times["buckets"].items()]}
