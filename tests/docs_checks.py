"""What must hold for the blocks and links of a page of the documentation: each check returns what is wrong.

`test_docs.py` asks on every page, and shows on small pages that each check can fail.
"""

from __future__ import annotations

import ast
import doctest
import json
import re
import shlex
import sys
from pathlib import Path

import docs_snippets
import yaml
from docs_snippets import Block, Command

from hami import parse

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent
LANGUAGES = {"python", "toml", "hami", "console", "sh", "text", "json", "yaml", "cpp", "cmake"}
OPTIONS = {"title", "no-run", "run-by", "output", "excerpt"}

DEFAULT = re.compile(r"\$\{\w+:-(.*?)\}(?=\")")  # of an environment variable, at the end of a text


def block_problems(page: Path) -> list[str]:
    """Return what is wrong with the blocks of a page as they are written: language, options, syntax."""
    problems: list[str] = []
    for block in docs_snippets.page_blocks(page):
        where = f"{page.name}:{block.line}"
        try:
            found = [*option_problems(block, page), *syntax_problems(block)]
        except ValueError as error:
            found = [str(error)]
        problems += [f"{where}: {problem}" for problem in found]
    return problems


def option_problems(block: Block, page: Path) -> list[str]:
    """Return what is wrong with the first line of a block."""
    problems: list[str] = []
    if block.language not in LANGUAGES:
        problems.append(f"`{block.language}` is no language of a block: {sorted(LANGUAGES)}")
    unknown = block.options.keys() - OPTIONS
    if unknown:
        problems.append(f"no options of a block: {sorted(unknown)}")
    if block.options.get("no-run") == "":
        problems.append('`no-run` needs a reason: no-run="..."')
    if "run-by" in block.options:
        test = ROOT / block.options["run-by"]
        if not test.is_file() or page.name not in test.read_text(encoding="utf-8"):
            problems.append(f"`{block.options['run-by']}` is no file that names this page")
    if "excerpt" in block.options:
        problems += excerpt_problems(block, page.parent / block.options["excerpt"])
    if block.is_output and block.language != "text":
        problems.append("`output` belongs to a block of `text`")
    return problems


def excerpt_problems(block: Block, file: Path) -> list[str]:
    """Return the keys of a `toml` block that the file from which it is taken has not, or has otherwise."""
    if not file.is_file():
        return [f"there is no `{file.name}` beside the page"]
    whole = tomllib.loads(DEFAULT.sub(r"\1", file.read_text(encoding="utf-8")))
    return [
        f"`{table}.{key}` is not so in `{file.name}`"
        for table, keys in tomllib.loads(block.text).items()
        for key, value in keys.items()
        if whole.get(table, {}).get(key) != value
    ]


def syntax_problems(block: Block) -> list[str]:
    """Return the error of a text that is not of its language."""
    try:
        if block.language == "python":
            compile(block.text, "block", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        elif block.language == "toml":
            tomllib.loads(block.text)
        elif block.language == "json":
            json.loads(block.text)
        elif block.language == "yaml":
            yaml.safe_load(block.text)
        elif block.language == "hami":
            for text in docs_snippets.expressions_of(block):
                parse(text)
    except (SyntaxError, ValueError, yaml.YAMLError) as error:
        return [f"{type(error).__name__}: {error}"]
    return []


def run_problems(page: Path, folder: Path, timeout_s: float = 60) -> list[str]:
    """Run a page in `folder`: its program, its pipelines, then its commands; return what went wrong."""
    done = docs_snippets.run_program(page, folder, timeout_s)
    if done.returncode != 0:
        return [done.stderr]
    blocks = docs_snippets.page_blocks(page)
    problems = [
        f"line {block.line}: the program printed\n{done.stdout}"
        for block in blocks
        if block.is_output and block.text not in done.stdout
    ]
    for block in blocks:
        for command in block.commands:
            problems += command_problems(command, folder)
    return problems


def command_problems(command: Command, folder: Path) -> list[str]:
    """Run one command of hami and return what is wrong with it or with what it printed."""
    program, *arguments = shlex.split(command.text, comments=True)
    if program != "hami":
        return [f'line {command.line}: only `hami` is run here; say why `{program}` is not: no-run="..."']
    done = docs_snippets.run([sys.executable, "-m", "hami", *arguments], folder)
    printed = done.stdout + done.stderr
    if command.output is None:
        return [f"line {command.line}: {printed}"] if done.returncode != 0 else []
    is_as_shown = doctest.OutputChecker().check_output(command.output, printed, doctest.ELLIPSIS)
    return [] if is_as_shown else [f"line {command.line}: `{command.text}` printed\n{printed}"]


def broken_links(page: Path) -> list[str]:
    """Return the links of `page` to files of the repository that do not exist."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    return [link for link in links if "://" not in link and not (page.parent / link).exists()]
