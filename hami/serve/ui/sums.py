"""Rows of `pipe.stats()` of several workers as those of one pipeline: counts are added up."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

_COUNTS = ("waiting", "items", "errors", "dropped", "instances", "busy", "hung")
_MIDDLE = 0.97  # of a bucket, as a part of its upper bound
Row = dict[str, Any]


def added(parts: Sequence[list[Row]]) -> list[Row]:
    """Return a row for each node, from the rows of each worker; percentiles are right to about 6 percent."""
    if len(parts) == 1:
        return parts[0]
    nodes: dict[str, list[Row]] = {}
    for rows in parts:
        for row in rows:
            nodes.setdefault(row["node"], []).append(row)
    return [_one(rows) for rows in nodes.values()]


def _one(rows: list[Row]) -> Row:
    return {
        **rows[0],
        **{key: sum(row[key] for row in rows) for key in _COUNTS},
        **{key: _sums([row[key] for row in rows]) for key in ("batch_rows", "releases", "backend")},
        **{key: _times([row[key] for row in rows]) for key in ("wait_ms", "run_ms")},
        **({"profiles": [one for row in rows for one in row["profiles"]]} if "profiles" in rows[0] else {}),
    }


def _sums(counts: list[dict[Any, Any]]) -> dict[Any, Any]:
    total: Counter[Any] = Counter()
    for one in counts:
        for key, count in one.items():
            total[key] += count
    return dict(total)


def _times(times: list[dict[str, Any]]) -> dict[str, Any]:
    buckets = dict(sorted(_sums([one["buckets"] for one in times]).items()))
    count = sum(one["count"] for one in times)
    return {
        "count": count,
        "sum": sum(one["sum"] for one in times),
        "max": max(one["max"] for one in times),
        "buckets": buckets,
        **{f"p{percent}": _percentile(buckets, math.ceil(count * percent / 100)) for percent in (50, 90, 99)},
    }


def _percentile(buckets: dict[float, int], rank: int) -> float:
    below = 0
    for upper, count in buckets.items():
        below += count
        if below >= rank:
            return upper * _MIDDLE
    return 0.0
