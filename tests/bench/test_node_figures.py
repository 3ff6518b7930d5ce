"""What nodes did between two readings of their statistics."""

from __future__ import annotations

from typing import Any

import pytest

from hami.bench.node_figures import NodeFigures, by_node, figures_between, summed


def row(**more: Any) -> dict[str, Any]:
    """Return what `pipe.stats(buckets=True)` gives for one node, as far as it is read."""
    empty = {"count": 0, "sum": 0.0}
    return {
        "node": "a",
        "items": 0,
        "instances": 2,
        "batch_rows": {},
        "releases": {},
        "run_ms": empty,
        "wait_ms": empty,
        **more,
    }


BEFORE = row(
    items=10,
    batch_rows={1: 2, 4: 2},
    releases={"full": 2, "timeout": 2},
    run_ms={"count": 4, "sum": 40.0},
    wait_ms={"count": 10, "sum": 5.0},
)
AFTER = row(
    items=30,
    batch_rows={1: 2, 4: 6, 2: 2},
    releases={"full": 6, "timeout": 2, "everyone_here": 2},
    run_ms={"count": 10, "sum": 100.0},
    wait_ms={"count": 30, "sum": 65.0},
)


def test_only_what_happened_between_counts() -> None:
    (figures,) = figures_between([BEFORE], [AFTER], 0.5)

    assert (figures.items, figures.rows) == (20, {4: 4, 2: 2})
    assert figures.releases == {"full": 4, "everyone_here": 2}
    assert figures.mean_batch == pytest.approx(20 / 6)
    assert (figures.mean_run_ms, figures.mean_wait_ms) == (pytest.approx(10.0), pytest.approx(3.0))


def test_busy_is_the_part_of_the_time_of_all_instances() -> None:
    (figures,) = figures_between([BEFORE], [AFTER], 0.5)

    assert figures.busy == pytest.approx(60.0 / (500.0 * 2))


def test_runs_that_were_not_timed_count_with_the_mean_of_those_that_were() -> None:
    after = row(batch_rows={1: 100}, run_ms={"count": 10, "sum": 20.0})

    (figures,) = figures_between([row()], [after], 1.0)

    assert figures.run_s == pytest.approx(0.2)
    assert figures.mean_run_ms == pytest.approx(2.0)


def test_a_node_that_nothing_reached_has_zeros() -> None:
    (figures,) = figures_between([BEFORE], [BEFORE], 1.0)

    assert (figures.mean_batch, figures.mean_run_ms, figures.mean_wait_ms, figures.busy) == (0, 0, 0, 0)
    assert figures.release_share("full") == 0


def test_the_sum_of_rounds_is_one_long_round() -> None:
    one = NodeFigures("a", 1.0, 2, 4, 0.4, 0.1, {4: 1}, {"full": 1})
    two = NodeFigures("a", 3.0, 2, 4, 0.8, 0.1, {4: 1, 2: 1}, {"timeout": 2})

    both = summed([one, two])

    assert both == NodeFigures(
        "a", 4.0, 2, 8, pytest.approx(1.2), 0.2, {2: 1, 4: 2}, {"full": 1, "timeout": 2}
    )
    assert both.largest_batch == 4
    assert both.release_share("timeout") == pytest.approx(2 / 3)


def test_rounds_are_summed_node_by_node() -> None:
    rounds = [(NodeFigures("a", 1.0, 1, 1), NodeFigures("b", 1.0, 1, 2))] * 3

    assert [(one.node, one.items) for one in by_node(rounds)] == [("a", 3), ("b", 6)]


def test_figures_survive_json() -> None:
    import json

    figures = NodeFigures("a", 1.0, 2, 4, 0.4, 0.1, {4: 1, 16: 2}, {"full": 1})

    assert NodeFigures.from_dict(json.loads(json.dumps(figures.to_dict()))) == figures
