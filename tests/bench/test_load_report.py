"""Laws of estimates and reports: intervals, what is left out, JSON, and what a reader is warned of."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from hami.bench import Estimate, Load, LoadReport, Round
from hami.bench.estimate import t_point
from hami.errors import ConfigError

LATENCY = {"p50": 1.0, "p90": 2.0, "p99": 3.0, "p99.9": 4.0, "mean": 1.2, "max": 9.0}
ROUND = Round(seconds=2.0, num_requests=100, num_errors=0, first_error=None, latency_ms=LATENCY)


def report_of(*rounds: Round, load: Load | None = None) -> LoadReport:
    return LoadReport(
        load or Load(num_callers=4), rounds, {"hami": "0.1.0", "time": "2026-01-01T00:00:00+00:00"}
    )


@pytest.mark.parametrize("degrees", [*range(1, 40), 100, 999])
def test_the_points_of_students_t_are_those_of_scipy(degrees: int) -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")

    assert t_point(degrees) == pytest.approx(stats.t.ppf(0.975, degrees), rel=1e-4)


def test_an_interval_is_that_of_scipy() -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    values = [10.0, 11.5, 9.8, 10.4, 10.9]

    estimate = Estimate.of(values)

    wanted = stats.t.interval(0.95, 4, loc=sum(values) / 5, scale=stats.sem(values))
    assert (estimate.low, estimate.high) == pytest.approx(wanted, rel=1e-4)
    assert (estimate.smallest, estimate.largest) == (9.8, 11.5)
    assert estimate.margin == pytest.approx((wanted[1] - wanted[0]) / 2, rel=1e-4)


def test_a_single_round_has_no_interval() -> None:
    assert Estimate.of([3.0]) == Estimate(3.0, None, None, 3.0, 3.0)
    assert Estimate.of([3.0]).margin is None


def test_rounds_that_agree_have_an_interval_without_width() -> None:
    assert Estimate.of([2.0, 2.0, 2.0]) == Estimate(2.0, 2.0, 2.0, 2.0, 2.0)


def test_throughput_counts_answers_without_an_error() -> None:
    failed = replace(ROUND, num_errors=40, first_error="ValueError: no")

    report = report_of(ROUND, failed)

    assert [each.throughput_per_s for each in report.rounds] == [50.0, 30.0]
    assert report.throughput_per_s.mean == 40.0
    assert (report.num_requests, report.num_errors) == (200, 40)
    assert report.first_error == "ValueError: no"


def test_a_round_in_which_all_failed_has_no_part_in_latencies() -> None:
    nothing = replace(ROUND, num_errors=100, first_error="x", latency_ms={})

    assert report_of(nothing).latency_ms("p99") is None
    latency = report_of(ROUND, nothing).latency_ms("p99")
    assert latency is not None
    assert (latency.mean, latency.low) == (3.0, None)


def test_another_percentile_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"`percentile` must be one of .*, got `p95`"):
        report_of(ROUND).latency_ms("p95")


def test_what_was_not_measured_is_none() -> None:
    report = report_of(ROUND)

    figures = [report.cpu_cores, report.peak_memory_bytes, report.gpu_use, report.gpu_memory_bytes]
    assert figures == [None] * 4
    assert report.lateness_ms() is None


def test_a_report_survives_json() -> None:
    measured = replace(
        ROUND, lateness_ms=LATENCY, cpu_cores=1.5, peak_memory_bytes=1 << 30, gpu_use=0.5, gpu_memory_bytes=7
    )
    report = report_of(ROUND, measured, load=Load(rate_per_s=50))

    assert LoadReport.from_dict(json.loads(json.dumps(report.to_dict(), allow_nan=False))) == report


def test_a_report_of_a_later_hami_with_more_figures_is_read() -> None:
    data = report_of(ROUND).to_dict()
    data["rounds"][0]["watts"] = 300

    assert LoadReport.from_dict(data).rounds == (ROUND,)


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "hami.load-report/99"},
        {"schema": None},
        {"rounds": None},
        {"rounds": [{"seconds": 1}]},
        {"rounds": ["x"]},
        {"load": {"num_callers": 0}},
        {"load": None},
        {"made_with": 3},
    ],
)
def test_what_is_no_report_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        LoadReport.from_dict({**report_of(ROUND).to_dict(), **change})


@pytest.mark.parametrize("data", [None, [], "text", {}])
def test_what_is_no_dict_of_a_report_is_refused(data: Any) -> None:
    with pytest.raises(ConfigError, match=r"hami\.load-report/1"):
        LoadReport.from_dict(data)


def test_the_text_has_a_line_for_each_figure() -> None:
    faster = replace(ROUND, num_requests=120, cpu_cores=1.5, peak_memory_bytes=100 << 20)
    slower = replace(ROUND, cpu_cores=1.25, peak_memory_bytes=104 << 20)

    lines = str(report_of(faster, slower)).splitlines()

    assert lines[0] == "closed loop, 4 callers, 5 x 5 s, warm-up 1 s"
    assert lines[1].split() == ["throughput", "55.00", "/s", "±", "63.53", "(50.00", "to", "60.00)"]
    assert [line[:13].strip() for line in lines[2:8]] == [
        "latency p50",
        "latency p90",
        "latency p99",
        "latency p99.9",
        "processor",
        "memory",
    ]
    assert lines[-1] == "220 requests, 0 with an error"


def test_a_quiet_report_has_no_warning() -> None:
    assert report_of(ROUND, ROUND).warnings == []


def test_a_single_round_is_warned_of() -> None:
    assert report_of(ROUND).warnings == ["one round says nothing about how much the figures vary"]
    assert "±" not in str(report_of(ROUND))


def test_errors_are_warned_of_with_the_first() -> None:
    failed = replace(ROUND, num_errors=40, first_error="ValueError: no")

    [warning] = report_of(failed, ROUND).warnings

    assert warning == "40 of 200 failed, first: ValueError: no"


@pytest.mark.parametrize(("late_ms", "is_warned"), [(0.2, False), (0.4, True)])
def test_a_sender_whose_delay_is_a_tenth_of_the_latency_is_warned_of(late_ms: float, is_warned: bool) -> None:
    late = replace(ROUND, lateness_ms={**LATENCY, "p99": late_ms})

    warnings = report_of(late, late, load=Load(rate_per_s=50)).warnings

    assert [("the sender was late" in warning) for warning in warnings] == [True] * is_warned


def test_a_rate_that_was_not_answered_is_warned_of() -> None:
    [warning] = report_of(ROUND, ROUND, load=Load(rate_per_s=100)).warnings

    assert warning.startswith("50.00 of 100 requests/s were answered")


def test_figures_are_printed_without_exponents() -> None:
    tiny = replace(ROUND, latency_ms=dict.fromkeys(LATENCY, 0.000123), num_requests=10_000_000)

    text = str(report_of(tiny, tiny))

    assert "0.000123 ms" in text
    assert "5000000 /s" in text
    assert not math.isnan(report_of(tiny, tiny).throughput_per_s.mean)
