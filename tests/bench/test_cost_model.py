"""The cost model: what it makes of measured runs, and what it expects of sizes."""

from __future__ import annotations

import math

import numpy
import pytest

from hami.bench.cost_model import Arrivals, NodeModel, RunTime, Sizes, doublings, fit_run_time
from hami.bench.node_figures import NodeFigures


def figures(rows: dict[int, int], run_ms: dict[int, float]) -> NodeFigures:
    """Return runs of these rows that took so many milliseconds each."""
    return NodeFigures(
        "a", 1.0, 1, run_s=sum(count * run_ms[n] for n, count in rows.items()) / 1e3, rows=rows
    )


def line(fixed: float, row: float) -> dict[int, float]:
    return {n: fixed + row * n for n in range(1, 65)}


# --- the line -----------------------------------------------------------------------------------------------


def test_a_straight_line_is_found_exactly_from_mixed_batches() -> None:
    true = line(2.0, 0.5)
    measured = [figures({1: 100}, true), figures({3: 10, 4: 30, 5: 7}, true), figures({16: 5, 9: 2}, true)]

    run_time = fit_run_time(measured)

    assert run_time is not None
    assert (run_time.fixed_ms, run_time.row_ms) == (pytest.approx(2.0), pytest.approx(0.5))
    assert run_time.largest_rows == pytest.approx((16 * 5 + 9 * 2) / 7)
    assert run_time.of(8) == pytest.approx(6.0)


def test_it_is_weighted_least_squares() -> None:
    generator = numpy.random.default_rng(1)
    sizes, counts = [1, 2, 4, 8, 16], [500, 200, 80, 30, 9]
    times = {n: 3.0 + 0.7 * n + float(generator.normal(0, 0.3)) for n in sizes}

    run_time = fit_run_time(figures({n: count}, times) for n, count in zip(sizes, counts, strict=True))

    slope, fixed = numpy.polyfit(sizes, [times[n] for n in sizes], 1, w=numpy.sqrt(counts))
    assert run_time is not None
    assert (run_time.fixed_ms, run_time.row_ms) == (pytest.approx(fixed), pytest.approx(slope))


def test_runs_of_one_size_say_nothing_about_a_fixed_part() -> None:
    assert fit_run_time([figures({4: 10}, line(2.0, 1.0))]) == RunTime(0.0, pytest.approx(1.5), 4)


def test_neither_part_is_negative() -> None:
    falling = fit_run_time([figures({1: 10}, {1: 5.0}), figures({8: 10}, {8: 4.0})])
    steep = fit_run_time([figures({1: 10}, {1: 1.0}), figures({8: 10}, {8: 40.0})])

    assert falling is not None and falling.row_ms == 0.0 and falling.fixed_ms > 0
    assert steep is not None and steep.fixed_ms == pytest.approx(0.0) and steep.row_ms > 0


def test_without_runs_there_is_no_line() -> None:
    assert fit_run_time([]) is None
    assert fit_run_time([figures({}, {})]) is None


# --- callers in a loop --------------------------------------------------------------------------------------


def expected(model: NodeModel, rows: int, instances: int, **arrivals: float) -> tuple[float, float]:
    found = model.expected(Sizes(rows, instances), Arrivals(**arrivals))  # type: ignore[arg-type]
    return found.throughput_per_s, found.latency_ms


def test_callers_in_a_loop_fill_batches_and_share_the_throughput() -> None:
    model = NodeModel(RunTime(8.0, 1.0, 16), cores=2, cores_per_run=1.0)

    assert expected(model, 8, 1, num_callers=16) == (pytest.approx(500.0), pytest.approx(32.0))
    assert expected(model, 16, 1, num_callers=16) == (pytest.approx(16 / 0.024), pytest.approx(24.0))


def test_no_batch_is_larger_than_the_callers_there_are() -> None:
    model = NodeModel(RunTime(8.0, 1.0, 16), cores=2, cores_per_run=1.0)

    assert expected(model, 64, 1, num_callers=4) == expected(model, 4, 1, num_callers=4)


def test_instances_help_while_there_are_cores() -> None:
    model = NodeModel(RunTime(10.0, 0.0, 1), cores=2, cores_per_run=1.0)

    one, two, four = (expected(model, 1, n, num_callers=8)[0] for n in (1, 2, 4))

    assert (two, four) == (pytest.approx(2 * one), pytest.approx(2 * one))


def test_a_run_that_uses_all_cores_gains_nothing_from_a_second_instance() -> None:
    model = NodeModel(RunTime(10.0, 0.0, 1), cores=2, cores_per_run=2.0)

    assert expected(model, 1, 2, num_callers=8)[0] == pytest.approx(expected(model, 1, 1, num_callers=8)[0])


def test_a_run_on_a_device_does_not_use_up_the_cores() -> None:
    model = NodeModel(RunTime(10.0, 0.0, 1), cores=2, cores_per_run=0.1)

    assert expected(model, 1, 4, num_callers=8)[0] == pytest.approx(400.0)


def test_the_rest_of_the_pipeline_bounds_it() -> None:
    slow_rest = NodeModel(RunTime(1.0, 0.0, 1), 2, 1.0, rest_per_s=50.0)
    far_rest = NodeModel(RunTime(1.0, 0.0, 1), 2, 1.0, rest_ms=99.0)

    assert expected(slow_rest, 1, 1, num_callers=8) == (50.0, pytest.approx(160.0))
    assert expected(far_rest, 1, 1, num_callers=8)[0] == pytest.approx(80.0)


# --- requests at a rate -------------------------------------------------------------------------------------


def test_at_a_rate_above_the_capacity_the_queue_grows_for_ever() -> None:
    model = NodeModel(RunTime(8.0, 1.0, 16), cores=2, cores_per_run=1.0)

    assert expected(model, 1, 1, rate_per_s=200) == (pytest.approx(1 / 0.009), math.inf)
    assert expected(model, 8, 1, rate_per_s=200)[0] == 200


def test_at_a_rate_the_rest_must_keep_up_too() -> None:
    model = NodeModel(RunTime(1.0, 0.0, 1), 2, 1.0, rest_per_s=50.0)

    assert expected(model, 1, 1, rate_per_s=100) == (50.0, math.inf)


def test_the_latency_at_a_rate_grows_with_the_use_and_never_falls_below_a_run() -> None:
    model = NodeModel(RunTime(4.0, 1.0, 16), cores=2, cores_per_run=1.0, rest_ms=3.0)

    latencies = [expected(model, 4, 1, rate_per_s=rate)[1] for rate in (1, 100, 200, 400)]

    assert latencies == sorted(latencies)
    assert latencies[0] >= 3.0 + 5.0


def test_sizes_to_try_double_and_end_with_the_largest() -> None:
    assert doublings(40) == [1, 2, 4, 8, 16, 32, 40]
    assert doublings(16) == [1, 2, 4, 8, 16]
    assert doublings(1) == doublings(0) == [1]
