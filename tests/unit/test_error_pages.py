"""docs/errors.md has a section for each code that the product can raise, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from error_codes import all_codes

PAGE = Path(__file__).resolve().parents[2] / "docs" / "errors.md"


def sections() -> list[str]:
    return re.findall(r"^### ([a-z0-9-]+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


def test_every_code_has_a_section() -> None:
    missing = {code: place for code, place in all_codes().items() if code not in sections()}

    assert missing == {}


def test_every_section_is_about_a_code_that_exists() -> None:
    assert [section for section in sections() if section not in all_codes()] == []


def test_no_section_comes_twice() -> None:
    assert len(sections()) == len(set(sections()))


def test_every_section_says_something() -> None:
    for body in re.split(r"^### ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        assert len(body.split("\n## ")[0].strip().split("\n")) > 1, body


def test_the_codes_are_found_where_they_are_written() -> None:
    codes = all_codes()

    assert codes["parse-unclosed-bracket"] == "hami/parser/parse.py"
    assert codes["expand-bad-form"] == "hami/parser/expand.py"
    assert codes["plan-duplicate-next"] == "hami/plan/graph.py"
    assert codes["forked"].endswith(".cc")
    assert len(codes) > 100
