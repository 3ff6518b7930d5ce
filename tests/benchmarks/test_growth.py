"""Check the benchmark of growth: its exponents on known curves, its plots, and short runs from end to end."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from benchmark_files import load, run_benchmark

growth = load("growth")


def rows_of(series: str, costs: dict[int, list[float]]) -> list[dict[str, Any]]:
    return [
        {"case": series, "size": size, "us_per_request": cost}
        for size, of_size in costs.items()
        for cost in of_size
    ]


def test_the_exponent_of_a_power_is_that_power() -> None:
    sizes = [1, 10, 100]

    assert growth.exponent(sizes, [3.0, 3.0, 3.0]) == pytest.approx(0)
    assert growth.exponent(sizes, [2.0 * size for size in sizes]) == pytest.approx(1)
    assert growth.exponent(sizes, [2.0 * size**2 for size in sizes]) == pytest.approx(2)


def test_one_size_has_no_exponent() -> None:
    assert math.isnan(growth.exponent([1], [2.0]))


def test_the_upper_half_leaves_out_the_fixed_cost() -> None:
    sizes = [1, 2, 4, 8, 16, 32, 64, 128]

    whole, upper = growth.exponents(sizes, [100.0 if size <= 16 else 100.0 * size / 16 for size in sizes])

    assert 0 < whole < 0.7 < upper <= 1


def test_two_sizes_are_enough_for_both_exponents() -> None:
    assert growth.exponents([1, 2], [1.0, 2.0]) == pytest.approx((1, 1))


def test_a_section_shows_the_cost_of_a_unit_where_the_series_is_linear() -> None:
    rows = rows_of("chain", {1: [2.0], 4: [6.0, 4.0, 8.0]})

    text = growth.section(rows, "chain")

    assert "| 4 | 6.00 (4.00 to 8.00) | 1.50 |" in text
    assert text.splitlines()[-1] == "exponent 0.79, over the upper half 0.79 (at most linear: 1)"


def test_flat_series_have_no_unit() -> None:
    assert "| 10 | 2.00 (2.00 to 2.00) |" in growth.section(rows_of("in_flight", {10: [2.0]}), "in_flight")


@pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None,
    reason="matplotlib is missing: pip install hami-core[bench]",
)
def test_a_plot_is_one_small_file_that_depends_on_the_rows_only(tmp_path: Path) -> None:
    rows = rows_of("chain", {1: [2.0], 4: [6.0, 8.0]}) + rows_of("callers", {1: [2.0], 8: [3.0]})

    first = growth.plot(rows, ["chain", "callers"], tmp_path / "a").read_bytes()
    second = growth.plot(rows, ["chain", "callers"], tmp_path / "b").read_bytes()

    assert first == second
    assert b"nodes in a chain" in first and len(first) < 150_000


def test_plots_without_matplotlib_are_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["growth.py", "--plot", str(tmp_path)])

    with pytest.raises(SystemExit):
        growth.main()

    printed = capsys.readouterr()
    assert "pip install hami-core[bench]" in printed.err
    assert printed.out == ""


@pytest.mark.timeout(200)
def test_the_benchmark_runs_from_end_to_end(tmp_path: Path) -> None:
    printed, rows = run_benchmark("growth.py", "--seconds", 0.05, "--max-size", 2, folder=tmp_path)

    for series in growth.SERIES.values():
        assert f"### {series.title}" in printed
    assert "(flat: 0)" in printed and "(at most linear: 1)" in printed
    assert {row["case"] for row in rows} == set(growth.SERIES)
    assert all(row["us_per_request"] > 0 for row in rows)


@pytest.mark.parametrize("series", growth.SERIES)
def test_the_largest_size_of_a_series_gives_right_answers(series: str) -> None:
    size = growth.SERIES[series].sizes[-1]

    row = growth.run_process(growth.sys.executable, "growth_cases.py", series, size, 0.02)

    assert row["case"] == series and row["size"] == size
