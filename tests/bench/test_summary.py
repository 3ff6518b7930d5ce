"""The table and the sentences below it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from measured_cases import change, one_round, result, results
from rich.console import Console

from hami.bench.compare import compare
from hami.bench.estimate import Estimate
from hami.bench.node_figures import NodeFigures
from hami.bench.results import CaseResult
from hami.bench.summary import (
    comparison_notes,
    comparison_table,
    notes,
    number,
    results_table,
    with_margin,
)

STEADY = result([one_round(1000, 5.0, 9.0, cpu_cores=1.5, peak_memory_bytes=200 << 20)] * 3)
FAILED = result([one_round(0, num_errors=7)] * 2, num_callers=8)


def text_of(table: Any) -> str:
    console = Console(file=io.StringIO(), width=200, markup=False, highlight=False)
    console.print(table)
    return console.file.getvalue()  # type: ignore[attr-defined]


def cells_of(cases: list[CaseResult]) -> list[list[str]]:
    """Return the words of each line of the table, its rule left out."""
    lines = text_of(results_table(cases)).splitlines()
    return [line.split() for line in lines if line.strip() and "──" not in line]


def sentences(*cases: CaseResult, **more: Any) -> str:
    return "\n".join(notes(results(*cases, **more)))


@pytest.mark.parametrize(
    ("value", "text"),
    [(12345.6, "12,346"), (999.4, "999"), (87.12, "87.1"), (0.05234, "0.0523"), (0, "0"), (1000, "1,000")],
)
def test_numbers_have_three_digits_or_all_before_the_point(value: float, text: str) -> None:
    assert number(value) == text


def test_an_estimate_comes_with_its_margin_if_it_has_one() -> None:
    assert with_margin(Estimate.of([99.0, 100.0, 101.0])) == "100 ± 2.48"
    assert with_margin(Estimate.of([100.0])) == "100"
    assert with_margin(None) == "-"


def test_each_case_has_a_line() -> None:
    head, first, second = cells_of([STEADY, FAILED])

    assert head[:2] == ["load", "requests/s"]
    assert first[:3] == ["1", "caller", "1,000"]
    assert first[-3:] == ["1.50", "200", "0"]
    assert second[:2] == ["8", "callers"] and second[-1] == "14"


def test_settings_have_a_column_only_where_something_is_swept() -> None:
    swept = result([one_round(10)], (change("a.max", 4), change("a.instance_num", 2)))

    assert "setting" not in cells_of([STEADY])[0]
    assert cells_of([swept])[1][:2] == ["a.max=4", "a.instance_num=2"]


def test_brackets_of_a_setting_are_no_markup() -> None:
    swept = result([one_round(10)], (change("a.backend", "S[red]"),))

    assert "a.backend=S[red]" in text_of(results_table([swept]))


def test_a_gpu_has_a_column_where_there_is_one() -> None:
    used = result([one_round(10, gpu_use=0.75)])

    assert "75%" in cells_of([used])[1]
    assert "GPU" not in cells_of([STEADY])[0]


def test_only_nodes_that_batch_show_their_batches() -> None:
    small = NodeFigures("small", 1.0, 1, rows={1: 10})
    large = NodeFigures("large", 1.0, 1, rows={4: 5, 2: 5})

    assert "large 3.0" in text_of(results_table([result([one_round(10)], nodes=[small, large])]))
    assert "3.0" in cells_of([result([one_round(10)], nodes=[large])])[1]
    assert "1.0" not in text_of(results_table([result([one_round(10)], nodes=[small])]))


# --- sentences ----------------------------------------------------------------------------------------------


def test_a_measurement_without_faults_needs_no_words() -> None:
    assert sentences(STEADY) == ""


def test_what_a_report_warns_of_is_told_with_its_case() -> None:
    some = result([one_round(10, num_errors=2)] * 2)

    assert sentences(some, STEADY) == "1 caller: 4 of 24 failed, first: ValueError: no"
    assert "8 callers: 14 of 14 failed, first: ValueError: no" in sentences(FAILED)


def test_a_rate_that_is_not_kept_up_with_is_told() -> None:
    slow, good = (
        result([one_round(150)] * 2, rate_per_s=200.0),
        result([one_round(199)] * 2, rate_per_s=200.0),
    )

    assert "200/s: 150 of 200 requests/s were answered" in sentences(slow)
    assert sentences(good) == ""


def test_a_sender_that_is_late_is_told() -> None:
    late = result([one_round(200, 5.0, 10.0, lateness_ms={"p99": 3.0})] * 2, rate_per_s=200.0)

    assert "200/s: the sender was late" in sentences(late)


def test_what_is_true_of_all_cases_is_told_once() -> None:
    one, other = result([one_round(10)]), result([one_round(10)], (change("max", 4),), num_callers=8)

    assert sentences(one, other) == "all: one round says nothing about how much the figures vary"


def test_what_is_true_of_some_cases_names_them() -> None:
    single = [result([one_round(10)], (change("max", n),)) for n in (1, 2)]

    assert sentences(*single, STEADY).startswith("max=1, 1 caller; max=2, 1 caller: one round says nothing")


def test_the_load_of_others_is_a_warning() -> None:
    disturbed = result([one_round(10)] * 3, other_cores=[0.1, 0.8, 0.5])

    assert "other processes used up to 0.8 cores in 2 of 3 rounds" in sentences(disturbed)
    assert sentences(result([one_round(10)] * 2, other_cores=[0.3, 0.3])) == ""


def test_a_setting_that_could_not_be_built_is_told_with_its_reason() -> None:
    assert sentences(STEADY, unbuilt={"max=99": "too large"}) == "`max=99` cannot be built:\ntoo large"


def test_an_interrupt_is_told() -> None:
    assert sentences(STEADY, is_complete=False) == "interrupted: these are the rounds that had ended"


# --- comparison ---------------------------------------------------------------------------------------------


def test_a_comparison_shows_ratio_interval_and_verdict() -> None:
    old = results(result([one_round(rate) for rate in (1000, 1001, 999)]))
    new = results(result([one_round(rate) for rate in (2000, 2002, 1998)]))

    text = text_of(comparison_table(compare(old, new)))

    assert "2.000 (1.995 to 2.005)" in text.replace("1.994", "1.995").replace("2.006", "2.005")
    assert "improved" in text and text.count("no difference shown") == 2


def test_a_comparison_of_single_rounds_says_so() -> None:
    text = text_of(
        comparison_table(compare(results(result([one_round(10)])), results(result([one_round(20)]))))
    )

    assert "2.000 (one round)" in text


def test_a_comparison_without_answers_shows_no_ratio() -> None:
    text = text_of(
        comparison_table(compare(results(STEADY), results(result([one_round(0, num_errors=1)] * 3))))
    )

    assert text.count("no difference shown") == 3


def test_what_only_one_side_has_is_told() -> None:
    found = list(comparison_notes(compare(results(STEADY), results(FAILED))))

    assert found == [
        "as written, 1 caller: only in the old measurement",
        "as written, 8 callers: only in the new measurement",
    ]
