"""What the page asks for once a second: the graph, the figures of its nodes, the errors, as one JSON text."""

from __future__ import annotations

import json
import math
import time
from typing import Any

from ...pipeline import Pipeline
from ..watched import Watched
from .errors import RecentError, RecentErrors
from .graph import draw

_HIDDEN_CODE = "backend-error"
_HIDDEN_MESSAGE = "a backend raised an exception; the log has its text"


class State:
    """Makes the JSON of a service; any thread."""

    def __init__(self, service: Watched, errors: RecentErrors) -> None:
        self._service = service
        self._errors = errors
        self._drawn: tuple[Pipeline, dict[str, Any]] | None = None

    def to_json(self) -> bytes:
        """Return the state now.

        `clock_s` only ever grows, so that two states give a rate; `time_s` is the time of the day, in seconds
        since 1970. Latencies are in milliseconds, their buckets pairs of an upper bound and a count.
        """
        pipe = self._service.pipe
        rows = pipe.stats(buckets=True)
        names = frozenset(node.name for node in pipe.plan.nodes)
        state = {
            "name": self._service.name,
            "clock_s": time.monotonic(),
            "time_s": time.time(),
            "problems": pipe.problems(),
            "graph": self._graph(pipe, {row["node"] for row in rows}),
            "nodes": {row["node"]: _figures(row) for row in rows},
            "errors": [self._told(error) for error in self._errors.latest(names)],
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
