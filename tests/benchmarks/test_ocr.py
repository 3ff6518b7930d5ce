"""Check the benchmark of the OCR example: its tables on known numbers, and one small run from end to end."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from benchmark_files import load, run_benchmark

ocr, ocr_cases = load("ocr"), load("ocr_cases")


def row(
    case: str, callers: int, pictures_per_s: float, texts: list[list[str]], number: int = 1
) -> dict[str, Any]:
    figures = {"callers": callers, "pictures_per_s": pictures_per_s, "busy_share": 0.5}
    return {"case": case, "texts": texts, "round": number, **figures}


def test_ratios_compare_with_the_package_alone_within_a_round() -> None:
    rows = [row("package", 1, 2, []), row("hami", 8, 4, [])]
    rows += [row("package", 1, 1, [], 2), row("hami", 8, 1.6, [], 2)]

    assert ocr.target_line(rows) == "hami at 8 callers: 1.80x the package alone (target: at least 1.5x)"
    assert "| hami | 8 | 2.80 (1.60 to 4.00) | 1.80x | 50 |" in ocr.result_table(rows)


def test_without_eight_callers_there_is_no_verdict() -> None:
    assert ocr.target_line([row("package", 1, 2, [])]).startswith("no run with 8 callers")


def test_another_text_ends_the_benchmark() -> None:
    same = [row(case, 1, 1, [["a", "b"]]) for case in ("one_by_one", "hami", "package")]

    assert "reads the same 2 lines" in ocr.text_line(same) and ocr.text_line(same).endswith("the same")
    assert ocr.text_line([*same, row("package", 2, 1, [["x"]])]).endswith("some of it differently")
    with pytest.raises(SystemExit, match="hami reads"):
        ocr.text_line([*same, row("hami", 4, 1, [["x"]])])


def stats(items: int, runs: int) -> list[dict[str, Any]]:
    times = {"run_ms": {"count": runs, "p50": 20.0}, "wait_ms": {"p50": 3.0}}
    return [{"node": "detect", "instances": 2, "items": items, **times}]


def test_nodes_are_told_by_the_picture() -> None:
    nodes = ocr_cases.node_figures(stats(2, 2), stats(42, 12))

    text = ocr.node_table({"pictures_per_s": 10.0, "seconds": 2.0, "nodes": nodes})

    assert text.splitlines()[-1] == "| detect | 2.0 | 4.0 | 20.00 | 3.00 | 10.0 | 5 |"


@pytest.mark.timeout(300)
@pytest.mark.skipif(
    importlib.util.find_spec("rapidocr_onnxruntime") is None,
    reason="rapidocr-onnxruntime is not installed: PyPI has it for Python below 3.13",
)
def test_the_benchmark_runs_from_end_to_end(tmp_path: Path) -> None:
    options = ["--pictures", 1, "--callers", 1, "--package-callers", 1]

    printed, rows = run_benchmark("ocr.py", *options, folder=tmp_path, timeout_s=280)

    assert [row["case"] for row in rows] == ["package", "one_by_one", "hami"]
    assert "text: hami reads the same" in printed and "| recognise |" in printed
