"""Old beside new: the verdict, its interval, and what two measurements do not have in common."""

from __future__ import annotations

import dataclasses
import math

import numpy
import pytest
from measured_cases import change, one_round, result, results
from scipy import stats

from hami.bench.compare import IMPROVED, NO_DIFFERENCE, REGRESSED, Ratio, compare, ratio_of
from hami.bench.results import CaseResult, Results


def measured(per_s: list[float], p50: list[float] | None = None, **more: object) -> CaseResult:
    """Return a case with these figures in its rounds; latencies are alike unless they are given."""
    latencies = p50 or [5.0, 5.01, 4.99, 5.0, 5.0][: len(per_s)]
    rounds = [one_round(rate, ms, 2 * ms) for rate, ms in zip(per_s, latencies, strict=True)]
    return result(rounds, **more)  # type: ignore[arg-type]


STEADY = measured([1000, 1002, 998, 1001, 999])
FASTER = measured([1200, 1203, 1197, 1201, 1199])
SLOWER = measured([850, 852, 848, 851, 849])
NOISY = measured([700, 1300, 900, 1250, 1000])


def verdicts(old: CaseResult, new: CaseResult) -> dict[str, str]:
    found = compare(results(old), results(new))
    return {difference.figure.name: difference.verdict for difference in found.differences}


# --- verdicts -----------------------------------------------------------------------------------------------


def test_more_requests_are_an_improvement() -> None:
    assert verdicts(STEADY, FASTER)["requests/s"] == IMPROVED


def test_fewer_requests_are_a_regression() -> None:
    assert verdicts(STEADY, SLOWER)["requests/s"] == REGRESSED


def test_the_same_figures_show_no_difference() -> None:
    assert set(verdicts(STEADY, STEADY).values()) == {NO_DIFFERENCE}


def test_a_difference_within_the_noise_is_not_shown() -> None:
    assert verdicts(NOISY, FASTER)["requests/s"] == NO_DIFFERENCE


def test_longer_latencies_are_a_regression_and_shorter_ones_an_improvement() -> None:
    slow = measured([1000, 1002, 998, 1001, 999], [8.0, 8.1, 7.9, 8.0, 8.0])

    assert verdicts(STEADY, slow) == {"requests/s": NO_DIFFERENCE, "p50": REGRESSED, "p99": REGRESSED}
    assert verdicts(slow, STEADY) == {"requests/s": NO_DIFFERENCE, "p50": IMPROVED, "p99": IMPROVED}


def test_one_round_shows_nothing() -> None:
    one, two = measured([1000]), measured([3000])

    assert set(verdicts(one, two).values()) == {NO_DIFFERENCE}
    assert compare(results(one), results(two)).differences[0].ratio == Ratio(pytest.approx(3.0), None, None)


def test_a_case_without_answers_is_not_compared() -> None:
    failed = result([one_round(0, num_errors=5)] * 3)

    found = compare(results(STEADY), results(failed))

    assert all(difference.ratio is None and difference.loss == 0 for difference in found.differences)


# --- the interval -------------------------------------------------------------------------------------------


def test_the_interval_is_welchs_of_the_logarithms() -> None:
    generator = numpy.random.default_rng(3)
    old, new = generator.lognormal(3, 0.1, 6), generator.lognormal(3.2, 0.02, 9)

    ratio = ratio_of(list(old), list(new))

    expected = stats.ttest_ind(numpy.log(new), numpy.log(old), equal_var=False)
    interval = expected.confidence_interval(0.95)
    assert ratio is not None and ratio.low is not None and ratio.high is not None
    assert ratio.mean == pytest.approx(math.exp(numpy.log(new).mean() - numpy.log(old).mean()))
    # whole degrees of freedom, rounded down: wider, but not by much
    assert math.exp(interval.low) * 0.98 < ratio.low <= math.exp(interval.low) * 1.0001
    assert math.exp(interval.high) * 0.9999 <= ratio.high < math.exp(interval.high) * 1.02


def test_of_equal_variances_it_is_students_to_four_digits() -> None:
    old, new = [100.0, 110.0, 121.0], [200.0, 220.0, 242.0]

    ratio = ratio_of(old, new)

    interval = stats.ttest_ind(numpy.log(new), numpy.log(old)).confidence_interval(0.95)
    assert ratio == Ratio(
        pytest.approx(2.0),
        pytest.approx(math.exp(interval.low), rel=1e-4),
        pytest.approx(math.exp(interval.high), rel=1e-4),
    )


def test_the_interval_misses_the_truth_in_about_one_of_twenty_cases() -> None:
    generator = numpy.random.default_rng(0)
    missed = 0
    for _ in range(2000):
        ratio = ratio_of(list(generator.lognormal(0, 0.1, 5)), list(generator.lognormal(0, 0.1, 5)))
        assert ratio is not None
        missed += ratio.is_shown

    assert 0.02 < missed / 2000 < 0.06


def test_rounds_without_any_spread_are_exact() -> None:
    assert ratio_of([2.0, 2.0], [3.0, 3.0]) == Ratio(*[pytest.approx(1.5)] * 3)


@pytest.mark.parametrize(("old", "new"), [([], [1.0]), ([1.0], []), ([0.0, 1.0], [1.0, 1.0])])
def test_what_has_no_ratio_has_none(old: list[float], new: list[float]) -> None:
    assert ratio_of(old, new) is None


# --- how much worse -----------------------------------------------------------------------------------------


def test_a_loss_is_a_part_of_the_old_figure() -> None:
    requests = compare(results(STEADY), results(SLOWER)).differences[0]

    assert requests.loss == pytest.approx(0.15, abs=0.001)


def test_only_what_is_worse_by_more_than_the_limit_is_named() -> None:
    found = compare(results(STEADY), results(SLOWER))

    assert [difference.figure.name for difference in found.worse_than(0.10)] == ["requests/s"]
    assert found.worse_than(0.20) == []


def test_an_improvement_is_no_loss_whatever_the_limit() -> None:
    assert compare(results(STEADY), results(FASTER)).worse_than(0.0) == []


def test_a_loss_that_is_not_shown_does_not_count() -> None:
    worse = measured([990, 400, 1400, 380, 800])

    assert compare(results(NOISY), results(worse)).worse_than(0.0) == []


# --- what they have in common -------------------------------------------------------------------------------


def test_cases_are_matched_by_setting_and_load() -> None:
    old = results(
        measured([100, 101], changes=(change("a.max", 4),)), measured([200, 201], num_callers=8), STEADY
    )
    new = results(measured([100, 101], changes=(change("a.max", 8),)), measured([200, 201], num_callers=8))

    found = compare(old, new)

    assert {(one.setting, one.load) for one in found.differences} == {("as written", "8 callers")}
    assert found.only_old == (("a.max=4", "1 caller"), ("as written", "1 caller"))
    assert found.only_new == (("a.max=8", "1 caller"),)


def test_another_machine_is_told() -> None:
    report = dataclasses.replace(
        STEADY.report, made_with={"hami": "0.1.0", "machine": "another", "time": "2026-02-02"}
    )
    moved = dataclasses.replace(STEADY, report=report)

    notes = compare(results(STEADY), results(moved)).notes

    assert notes == ("`machine` was `a machine`, and is `another`",)


def test_nothing_can_be_compared_with_nothing() -> None:
    empty = Results("", ())

    found = compare(empty, results(STEADY))

    assert (found.differences, found.notes) == ((), ())
    assert found.only_new == (("as written", "1 caller"),)
