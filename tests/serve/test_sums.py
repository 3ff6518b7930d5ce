"""Laws of figures added up: those of several workers are what one pipeline would have said."""

from __future__ import annotations

from typing import Any

import pytest

from hami.serve.ui.sums import added


def times(*milliseconds: float) -> dict[str, Any]:
    """Return latencies as `pipe.stats` tells them, each in a bucket of its own."""
    ordered = sorted(milliseconds)

    def at(percent: int) -> float:
        return ordered[max(-(-len(ordered) * percent // 100) - 1, 0)] if ordered else 0.0

    return {
        "count": len(ordered),
        "sum": sum(ordered),
        "max": max(ordered, default=0.0),
        "buckets": {value * 1.03: ordered.count(value) for value in ordered},
        **{f"p{percent}": at(percent) for percent in (50, 90, 99)},
    }


def row(node: str = "a", **changed: Any) -> dict[str, Any]:
    counts = dict.fromkeys(("waiting", "items", "errors", "dropped", "instances", "busy", "hung"), 1)
    whole = {
        "batch_rows": {1: 1},
        "releases": {"full": 1},
        "backend": {},
        "wait_ms": times(),
        "run_ms": times(),
    }
    return {"node": node, **counts, **whole, **changed}


def test_counts_are_added_by_node() -> None:
    first, second = added([[row("a", items=3), row("b")], [row("a", items=4), row("b", errors=5)]])
    assert (first["node"], first["items"], first["instances"]) == ("a", 7, 2)
    assert (second["node"], second["errors"]) == ("b", 6)


def test_counts_by_a_key_are_added_by_key() -> None:
    parts = [
        [row(batch_rows={1: 2, 4: 1}, releases={"full": 2}, backend={"hits": 1.5})],
        [row(batch_rows={4: 3}, releases={"timeout": 1}, backend={"hits": 2, "misses": 1})],
    ]
    (only,) = added(parts)
    assert only["batch_rows"] == {1: 2, 4: 4}
    assert only["releases"] == {"full": 2, "timeout": 1}
    assert only["backend"] == {"hits": 3.5, "misses": 1}


def test_latencies_are_those_of_all_values() -> None:
    values = [float(value) for value in range(1, 101)]
    (only,) = added([[row(wait_ms=times(*values[:30]))], [row(wait_ms=times(*values[30:]))]])
    whole = times(*values)
    for key in ("count", "sum", "max", "p50", "p90", "p99"):
        assert only["wait_ms"][key] == pytest.approx(whole[key], rel=0.06), key
    assert list(only["wait_ms"]["buckets"]) == sorted(only["wait_ms"]["buckets"])


def test_without_values_latencies_are_zero() -> None:
    (only,) = added([[row()], [row()]])
    assert only["run_ms"] == {
        "count": 0,
        "sum": 0,
        "max": 0.0,
        "buckets": {},
        "p50": 0.0,
        "p90": 0.0,
        "p99": 0.0,
    }


def test_one_worker_alone_says_what_it_says() -> None:
    rows = [row(anything=1)]
    assert added([rows]) is rows


def test_a_node_that_one_worker_has_alone_is_there() -> None:
    assert [one["node"] for one in added([[row("a")], [row("b")]])] == ["a", "b"]


def test_parts_of_profiles_stand_side_by_side() -> None:
    parts = [[row(profiles=[{"backend": "x", "items": 1}])], [row(profiles=[{"backend": "x", "items": 2}])]]
    assert [one["items"] for one in added(parts)[0]["profiles"]] == [1, 2]
