"""Run the code of the documentation, follow its links, and check that both checks can fail."""

from __future__ import annotations

from pathlib import Path

import docs_snippets
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "backends/*/*.md", "examples/**/*.md", "benchmarks/*.md")
    for page in ROOT.glob(pattern)
)
PAGES_WITH_CODE = [
    page
    for page in PAGES
    if any(block.is_run for block in docs_snippets.blocks_of(page.read_text(encoding="utf-8")))
]


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("page", PAGES_WITH_CODE, ids=page_name)
def test_the_code_of_the_page_runs(page: Path, tmp_path: Path) -> None:
    done = docs_snippets.run_page(page, tmp_path)

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_the_links_of_the_page_lead_somewhere(page: Path) -> None:
    assert docs_snippets.broken_links(page) == []


def test_the_first_pages_have_code_that_runs() -> None:
    assert {"README.md", "docs/quickstart.md"} <= {page_name(page) for page in PAGES_WITH_CODE}


def write_page(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


def test_blocks_of_a_page_share_their_names(tmp_path: Path) -> None:
    page = write_page(tmp_path, "# a\n```python\nx = 2\n```\ntext\n```python\nprint(x + 1)\n```\n")

    assert docs_snippets.run_page(page, tmp_path).stdout == "3\n"


def test_a_failing_block_is_found_at_its_line(tmp_path: Path) -> None:
    page = write_page(tmp_path, "# a\n\n```python\nx = 2\n```\n\n```python\nx / 0\n```\n")

    done = docs_snippets.run_page(page, tmp_path)

    assert done.returncode == 1
    assert "line 8" in done.stderr


def test_a_block_with_a_title_is_a_file(tmp_path: Path) -> None:
    page = write_page(
        tmp_path, '```toml title="a.toml"\nkey = 1\n```\n```python\nprint(open("a.toml").read())\n```\n'
    )

    assert docs_snippets.run_page(page, tmp_path).stdout == "key = 1\n\n"


def test_a_block_marked_no_run_and_other_languages_are_left_alone(tmp_path: Path) -> None:
    page = write_page(tmp_path, "```python no-run\n1 / 0\n```\n```sh\nfalse\n```\n```\nplain\n```\n")

    assert docs_snippets.run_page(page, tmp_path).returncode == 0
    assert [block.is_run for block in docs_snippets.blocks_of(page.read_text())] == [False] * 3


def test_a_block_that_does_not_end_is_an_error() -> None:
    with pytest.raises(ValueError, match="starts at line 2"):
        docs_snippets.blocks_of("# a\n```python\nx = 1\n")


def test_a_link_to_a_missing_file_is_found(tmp_path: Path) -> None:
    page = write_page(
        tmp_path,
        "[a](page.md) [b](gone.md#part) [c](https://example.org/x) [d](#part)\n```\n[e](code.md)\n```\n",
    )

    assert docs_snippets.broken_links(page) == ["gone.md"]
