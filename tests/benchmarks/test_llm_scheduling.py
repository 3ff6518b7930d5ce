"""Check the benchmark of a language model's scheduler: its table on known numbers, and one small run."""

from __future__ import annotations

from pathlib import Path

from benchmark_files import load, run_benchmark

llm_scheduling = load("llm_scheduling")


def test_every_case_has_a_line_and_a_target_where_there_is_one() -> None:
    rows = [
        {"case": f"{num} 200", "rows": num, "mean_us": us, "median_us": us, "longest_us": 2 * us}
        for num in (1, 256)
        for us in (3.0, 5.0)
    ]

    text = llm_scheduling.section(rows)

    assert "| 1 | 200 | 4.0 (3.0 to 5.0) | 4.0 (3.0 to 5.0) | 8.0 (6.0 to 10.0) |  |" in text
    assert "| 256 | 200 |" in text and "| below 100 |" in text


def test_a_small_run_from_end_to_end(tmp_path: Path) -> None:
    text, rows = run_benchmark(
        "llm_scheduling.py", "--rows", "1,4", "--contexts", "20", "--steps", 30, folder=tmp_path
    )

    assert [(row["rows"], row["context"]) for row in rows] == [(1, 20), (4, 20)]
    assert all(0 < row["median_us"] <= row["longest_us"] for row in rows)
    assert "### A decode step without the model" in text
