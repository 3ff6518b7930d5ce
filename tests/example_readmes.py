"""What the README of an example says that its script prints, and whether a script did.

The block with the title `output` is compared line by line. Figures that differ from run to run or machine to
machine may be others: numbers with decimals, milliseconds, how many runs or batches there were. `…` stands
for the rest of a line, and a line that is `...` for any lines.
"""

from __future__ import annotations

import re
from pathlib import Path

from docs_snippets import blocks_of
from example_files import EXAMPLES

TITLE = "output"
FIGURES = (r"\d+\.\d+", r"\d+(?= ms)", r"(?<=batch of )\d+", r"(?<=in runs: )\d+")
REST, LINES = "…", "..."


def expected_output(example: str) -> str:
    """Return what the README of an example says that its script prints."""
    blocks = blocks_of((EXAMPLES / example / "README.md").read_text(encoding="utf-8"))
    (block,) = [block for block in blocks if block.title == TITLE]
    return block.text


def is_as_expected(expected: str, printed: str) -> bool:
    """Say whether a script printed what was expected."""
    pattern = "".join(_pattern_of(line) for line in expected.strip().splitlines())
    return re.fullmatch(pattern, f"{_normal(printed)}\n") is not None


def check_output(example: str, printed: str) -> None:
    """Fail with both texts where a script printed something else than its README says."""
    expected = expected_output(example)
    assert is_as_expected(expected, printed), f"the README says\n{expected}\nand it printed\n{printed}"


def pictures_of(page: Path) -> list[str]:
    """Return the files of the pictures on a page."""
    return re.findall(r"!\[[^\]]+\]\(([^)]+)\)", page.read_text(encoding="utf-8"))


def _pattern_of(line: str) -> str:
    if line.strip() == LINES:
        return r"(?:.*\n)*?"
    start, rest, end = _normal(line).partition(REST)
    return re.escape(start.rstrip() if rest else start) + (".*" if rest else "") + re.escape(end) + r"\n"


def _normal(text: str) -> str:
    """Return a text with its figures masked and without spaces around its lines."""
    for figure in FIGURES:
        text = re.sub(figure, "N", text)
    return "\n".join(re.sub(r"\s+", " ", line).strip() for line in text.strip().splitlines())
