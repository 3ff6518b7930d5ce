"""`hami explain`: the section of a code, and the list of all of them."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from command_line import assert_refused, run
from error_codes import all_codes

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
explain = import_module("hami.cli.explain")  # the package has the function under this name

PAGE = """\
# Errors

What all have in common.

## Syntax

### parse-one
One thing is wrong. Write `two`.

### parse-two
`A(k=v)`: a sentence
over two lines. More.

A second paragraph.

## Requests

Words for the whole group.

### request-error
The request is wrong.
"""


def test_it_prints_the_section_of_a_code() -> None:
    sections = explain.sections_of(PAGE)

    assert explain.section_text(sections, "parse-two") == (
        "parse-two (Syntax)\n\n`A(k=v)`: a sentence\nover two lines. More.\n\nA second paragraph."
    )


@pytest.mark.parametrize("code", ["`parse-one`", "parse-one:"])
def test_a_code_may_be_pasted_with_what_stands_around_it(code: str) -> None:
    assert explain.section_text(explain.sections_of(PAGE), code).startswith("parse-one (Syntax)\n")


def test_it_lists_all_codes_by_group_with_a_sentence_each() -> None:
    assert explain.list_text(explain.sections_of(PAGE)) == (
        "Syntax:\n"
        "  parse-one                       One thing is wrong.\n"
        "  parse-two                       `A(k=v)`: a sentence over two lines.\n"
        "\n"
        "Requests:\n"
        "  request-error                   The request is wrong."
    )


def test_the_command_lists_every_code_of_the_product() -> None:
    result = run("explain")

    assert result.exit_code == 0
    listed = {line.split()[0] for line in result.stdout.splitlines() if line.startswith("  ")}
    assert listed == set(all_codes())


def test_every_code_is_explained() -> None:
    sections = explain.sections_of(explain.page_text())

    for code in all_codes():
        head, blank, *body = explain.section_text(sections, code).splitlines()
        assert head == f"{code} ({sections[code].group})" and sections[code].group and not blank, code
        assert body and not any(line.startswith("#") for line in body), code


def test_the_command_prints_the_section() -> None:
    result = run("explain", "queue-full")

    assert result.exit_code == 0
    assert result.stdout.startswith("queue-full (Requests)\n\nThe entry node's queue")


def test_an_unknown_code_is_refused_with_the_nearest_one() -> None:
    result = run("explain", "config-unknwn-key")

    assert_refused(
        result, "hami explain: cli-unknown-code: ", "`config-unknwn-key`", "did you mean `config-unknown-key`"
    )


def test_a_word_that_is_like_no_code_is_pointed_to_the_list() -> None:
    assert_refused(run("explain", "nope"), "help: run `hami explain` for the list")


def test_a_wheel_has_the_page_beside_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "errors.md"
    installed.write_text(PAGE, encoding="utf-8")
    monkeypatch.setattr(explain, "PLACES", (installed, explain.PLACES[1]))

    assert run("explain", "parse-one").stdout == "parse-one (Syntax)\n\nOne thing is wrong. Write `two`.\n"


def test_the_build_of_a_wheel_leaves_the_page_in() -> None:
    pathspec = pytest.importorskip("pathspec", reason="needs pathspec, by which the build reads its patterns")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["scikit-build"]
    excluded = pathspec.GitIgnoreSpec.from_lines(settings["wheel"]["exclude"])
    installed = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")

    assert "install(FILES docs/errors.md DESTINATION hami)" in installed
    assert not excluded.match_file("hami/errors.md")
    assert excluded.match_file("hami/backends/torch/README.md")


def test_an_installation_without_the_page_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explain, "PLACES", (tmp_path / "errors.md",))

    assert_refused(
        run("explain", "parse-one"), "cli-explain-page", str(tmp_path), "help: reinstall `hami-core`"
    )


def test_it_loads_neither_the_core_nor_numpy() -> None:
    program = (
        "import sys; from hami.cli import app; "
        "app(['explain', 'closed'], standalone_mode=False); "
        "print([name for name in ('hami._core', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.splitlines()[-1] == "[]"
