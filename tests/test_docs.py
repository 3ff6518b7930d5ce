"""Run the code of the documentation, follow its links, and check that each of these checks can fail."""

from __future__ import annotations

from pathlib import Path

import docs_checks
import docs_snippets
import pytest

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted(
    page
    for pattern in ("*.md", "docs/**/*.md", "backends/*/*.md", "examples/**/*.md", "benchmarks/*.md")
    for page in ROOT.glob(pattern)
)
PAGES_WITH_CODE = [page for page in PAGES if any(block.is_run for block in docs_snippets.page_blocks(page))]


def page_name(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


NEEDS = {"docs/language_models.md": "llguidance"}  # a package that not every interpreter has
PAGE_S = 150


@pytest.mark.timeout(PAGE_S + 10)
@pytest.mark.parametrize("page", PAGES_WITH_CODE, ids=page_name)
def test_the_code_of_the_page_runs(page: Path, tmp_path: Path) -> None:
    if page_name(page) in NEEDS:
        pytest.importorskip(NEEDS[page_name(page)], reason=f"needs {NEEDS[page_name(page)]}")

    assert docs_checks.run_problems(page, tmp_path, PAGE_S) == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_the_blocks_of_the_page_are_what_they_say(page: Path) -> None:
    assert docs_checks.block_problems(page) == []


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_the_links_of_the_page_lead_somewhere(page: Path) -> None:
    assert docs_checks.broken_links(page) == []


def test_the_first_pages_have_code_that_runs() -> None:
    pages = {page_name(page) for page in PAGES_WITH_CODE}

    assert {"README.md", "docs/quickstart.md", "docs/from_torchpipe.md", "docs/from_triton.md"} <= pages


# --- the program of a page ---


def write_page(folder: Path, text: str) -> Path:
    page = folder / "page.md"
    page.write_text(text, encoding="utf-8")
    return page


def run_printed(page: Path, folder: Path) -> str:
    return docs_snippets.run_program(page, folder).stdout


def test_blocks_of_a_page_share_their_names(tmp_path: Path) -> None:
    page = write_page(tmp_path, "# a\n```python\nx = 2\n```\ntext\n```python\nprint(x + 1)\n```\n")

    assert run_printed(page, tmp_path) == "3\n"


def test_a_failing_block_is_found_at_its_line(tmp_path: Path) -> None:
    page = write_page(tmp_path, "# a\n\n```python\nx = 2\n```\n\n```python\nx / 0\n```\n")

    (problem,) = docs_checks.run_problems(page, tmp_path)

    assert "line 8" in problem and "ZeroDivisionError" in problem


def test_a_block_with_a_title_is_a_file(tmp_path: Path) -> None:
    page = write_page(
        tmp_path,
        '```toml title="a.toml" no-run="text"\nkey = 1\n```\n```python\nprint(open("a.toml").read())\n```\n',
    )

    assert run_printed(page, tmp_path) == "key = 1\n\n"


def test_a_file_of_python_is_imported_and_is_no_part_of_the_program(tmp_path: Path) -> None:
    page = write_page(
        tmp_path, '```python title="part.py"\nx = __name__\n```\n```python\nimport part\nprint(part.x)\n```\n'
    )

    assert run_printed(page, tmp_path) == "part\n"


def test_two_files_of_one_name_are_an_error(tmp_path: Path) -> None:
    page = write_page(tmp_path, '```toml title="a.toml"\n```\n' * 2)

    with pytest.raises(ValueError, match=r"line 3: another block is `a\.toml` already"):
        docs_snippets.run_program(page, tmp_path)


@pytest.mark.parametrize("option", ['no-run="it divides by zero"', 'run-by="tests/test_docs.py"'])
def test_a_block_that_is_left_alone_does_not_run(tmp_path: Path, option: str) -> None:
    page = write_page(tmp_path, f"```python {option}\n1 / 0\n```\n```\nplain\n```\n")

    assert docs_checks.run_problems(page, tmp_path) == []
    assert [block.is_run for block in docs_snippets.page_blocks(page)] == [False] * 2


def test_a_block_that_does_not_end_is_an_error() -> None:
    with pytest.raises(ValueError, match="starts at line 2"):
        docs_snippets.blocks_of("# a\n```python\nx = 1\n")


def test_a_block_in_a_list_is_read_without_its_indent() -> None:
    (block,) = docs_snippets.blocks_of("- a\n  ```python\n  if x:\n      y\n  ```\n")

    assert block.text == "if x:\n    y\n"


# --- pipelines and expressions ---

BACKEND = "```python\nimport hami\nhami.register('PageSquare', lambda batch: [1 for _ in batch])\n```\n"


def test_a_pipeline_may_name_the_backends_of_the_program(tmp_path: Path) -> None:
    page = write_page(tmp_path, f'```toml\n[a]\nbackend = "PageSquare"\n```\n{BACKEND}')

    assert docs_checks.run_problems(page, tmp_path) == []


def test_a_pipeline_with_a_wrong_key_is_found_at_its_place(tmp_path: Path) -> None:
    page = write_page(tmp_path, '# a\n```toml\n[a]\nbackend = "Pow"\nmaxx = 4\n```\n')

    (problem,) = docs_checks.run_problems(page, tmp_path)

    assert "line_3.toml:3: config-unknown-key" in problem


def test_expressions_of_a_block_are_planned_one_by_one(tmp_path: Path) -> None:
    page = write_page(tmp_path, "```hami\nS[Pow,\n  Identity]\nS[Pow, Powr]\n```\n")

    (problem,) = docs_checks.run_problems(page, tmp_path)

    assert docs_snippets.expressions_of(docs_snippets.page_blocks(page)[0]) == [
        "S[Pow,\n  Identity]",
        "S[Pow, Powr]",
    ]
    assert "plan-unknown-backend" in problem and "Powr" in problem


# --- commands and what is printed ---


def test_a_command_prints_what_the_page_shows(tmp_path: Path) -> None:
    page = write_page(
        tmp_path, "```console\n$ hami check 'S[Pow]'  # a comment\nexpression: ...: 1 node, 2 backends\n```\n"
    )

    assert docs_checks.run_problems(page, tmp_path) == []


def test_a_command_that_prints_something_else_is_found(tmp_path: Path) -> None:
    page = write_page(
        tmp_path, "# a\n```console\n$ hami check Pow\nexpression: ok: 2 nodes\n$ hami check Pow\n```\n"
    )

    first, second = docs_checks.run_problems(page, tmp_path)

    assert first == "line 3: `hami check Pow` printed\nexpression: ok: 1 node, 1 backends\n"
    assert second.startswith("line 5: `hami check Pow`")


def test_a_command_of_a_shell_block_must_end_well(tmp_path: Path) -> None:
    page = write_page(tmp_path, "```sh\nmake nothing\nhami check Pow\nhami check Powr\n```\n")

    (problem,) = docs_checks.run_problems(page, tmp_path)

    assert problem.startswith("line 4: ") and "plan-unknown-backend" in problem


def test_a_console_runs_nothing_but_hami(tmp_path: Path) -> None:
    page = write_page(tmp_path, "```console\n$ touch gone\n```\n")

    (problem,) = docs_checks.run_problems(page, tmp_path)

    assert "why `touch` is not" in problem
    assert not (tmp_path / "gone").exists()


def test_output_that_the_program_does_not_print_is_found(tmp_path: Path) -> None:
    page = write_page(
        tmp_path, "```python\nprint(1 + 1)\n```\n```text output\n2\n```\n```text output\n3\n```\n"
    )

    assert docs_checks.run_problems(page, tmp_path) == ["line 8: the program printed\n2\n"]


# --- how blocks are written ---


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ("```python no-run\nx\n```", "`no-run` needs a reason"),
        ('```python norun="x"\nx\n```', "no options of a block: ['norun']"),
        ("```python no-run=x\nx\n```", "is no option of a block"),
        ("```py\nx\n```", "`py` is no language of a block"),
        ('```python run-by="tests/registries.py"\nx\n```', "is no file that names this page"),
        ('```toml excerpt="gone.toml"\n[a]\n```', "there is no `gone.toml` beside the page"),
        ("```python output\nx\n```", "`output` belongs to a block of `text`"),
        ('```python no-run="why"\nx = \n```', "SyntaxError"),
        ('```toml no-run="why"\nx = \n```', "TOMLDecodeError"),
        ('```json no-run="why"\n{"x": 1,}\n```', "JSONDecodeError"),
        ('```yaml no-run="why"\n{x: 1\n```', "ParserError"),
        ('```hami no-run="why"\nS[Pow\n```', "ConfigError"),
    ],
)
def test_a_block_that_is_written_wrong_is_found(tmp_path: Path, block: str, problem: str) -> None:
    (found,) = docs_checks.block_problems(write_page(tmp_path, f"# a\n{block}\n"))

    assert found.startswith("page.md:3: ") and problem in found


def test_an_excerpt_says_what_its_file_says(tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text('[a]\nbackend = "${B:-Pow}"\nmax = 4\n', encoding="utf-8")
    right = '```toml excerpt="pipeline.toml"\n[a]\nbackend = "Pow"\n```\n'
    wrong = '```toml excerpt="pipeline.toml"\n[a]\nmax = 5\n```\n'

    assert docs_checks.block_problems(write_page(tmp_path, right)) == []
    assert docs_checks.block_problems(write_page(tmp_path, wrong)) == [
        "page.md:2: `a.max` is not so in `pipeline.toml`"
    ]


def test_a_block_that_waits_is_right_in_an_example(tmp_path: Path) -> None:
    page = write_page(tmp_path, '```python no-run="why"\nawait pipe.acall(d)\n```\n')

    assert docs_checks.block_problems(page) == []


def test_a_link_to_a_missing_file_is_found(tmp_path: Path) -> None:
    page = write_page(
        tmp_path,
        "[a](page.md) [b](gone.md#part) [c](https://example.org/x) [d](#part)\n```\n[e](code.md)\n```\n",
    )

    assert docs_checks.broken_links(page) == ["gone.md"]
