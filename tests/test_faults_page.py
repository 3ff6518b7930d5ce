"""docs/faults.md names tests that exist, has every row, and forgets none of the tests made for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", PAGE)))
ROWS = re.findall(r"^\| (\d+) \|.*$", PAGE, re.MULTILINE)
ROWS_OF_LANGUAGE_MODELS = re.findall(r"^\| L(\d+) \|.*$", PAGE, re.MULTILINE)


def names_of_tests(path: str) -> set[str]:
    """Return the names of the tests in a file."""
    text = (ROOT / path).read_text(encoding="utf-8")
    return set(re.findall(r"^ *(?:async )?def (test_\w+)\(", text, re.MULTILINE))


@pytest.mark.parametrize(("path", "name"), NAMED, ids=[name for _, name in NAMED])
def test_every_named_test_exists(path: str, name: str) -> None:
    assert name in names_of_tests(path)


def test_every_reported_fault_has_its_row_and_its_test() -> None:
    assert [int(number) for number in ROWS] == list(range(1, 20))
    assert [int(number) for number in ROWS_OF_LANGUAGE_MODELS] == list(range(1, 31))
    for line in PAGE.splitlines():
        if re.match(r"\| (\d+|[^-#|]+) \|.*\|$", line) and "| test |" not in line:
            assert "::test_" in line, line


def test_every_named_file_exists() -> None:
    for path in re.findall(r"`(tests/[\w/]+\.py)`", PAGE):
        assert names_of_tests(path), path


def test_no_test_of_a_row_is_left_out() -> None:
    path = "tests/flow/test_fault_rows.py"
    assert names_of_tests(path) <= {name for file, name in NAMED if file == path}
