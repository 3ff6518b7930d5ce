"""Find and run the code of the documentation: fenced blocks in Markdown files.

`test_docs.py` uses it. The first line of a block says how it is run:

- `python`: all of a page run one after another as one program, so a page can build on what it showed before.
  Line numbers in a traceback are those of the page.
- `toml`: planned by hami after the program, with the backends that the program registered.
- `hami`: expressions, each from a line without indent to the next; planned as the entrypoint of a node.
- `console`: `$ hami ...` is run, and must print what follows it, where `...` stands for anything.
- `sh`: lines that begin with `hami` are run, and must end with 0.
- `text output`: the program must have printed it.
- `json`, `yaml`: must be of that format.

`title="NAME"` makes any block a file of that name first; Python in a file is not a part of the program.
`no-run="REASON"` leaves a block alone, `run-by="tests/..."` does so where that test runs it, and
`excerpt="NAME"` where it is a part of a pipeline file beside the page. Syntax is checked in all cases.

A page is run in a folder that looks like the top of the repository: `examples` and `docs` are there.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^(?P<indent> *)```(?P<info>.*)$")
OPTION = re.compile(r'(?P<name>[a-z-]+)(?:="(?P<value>[^"]*)")?(?:\s+|$)')


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the rest of its first line, its text and the line where that starts."""

    language: str
    info: str
    text: str
    line: int

    @cached_property
    def options(self) -> dict[str, str]:
        """The words behind the language with their values; raise ValueError for what is no option."""
        options: dict[str, str] = {}
        at = 0
        while at < len(self.info):
            match = OPTION.match(self.info, at)
            if match is None:
                raise ValueError(f"line {self.line - 1}: `{self.info[at:]}` is no option of a block")
            options[match["name"]] = match["value"] or ""
            at = match.end()
        return options

    @property
    def title(self) -> str:
        return self.options.get("title", "")

    @property
    def is_left_alone(self) -> bool:
        return not {"no-run", "run-by", "excerpt"}.isdisjoint(self.options)

    @property
    def is_program(self) -> bool:
        return self.language == "python" and not self.title and not self.is_left_alone

    @property
    def is_planned(self) -> bool:
        return self.language in {"toml", "hami"} and not self.is_left_alone

    @property
    def is_output(self) -> bool:
        return "output" in self.options

    @property
    def commands(self) -> list[Command]:
        """Return the commands of hami that are run, each with what it must print."""
        if self.is_left_alone or self.language not in {"console", "sh"}:
            return []
        lines = enumerate(self.text.splitlines(), self.line)
        if self.language == "sh":
            return [Command(text, None, line) for line, text in lines if text.startswith("hami ")]
        found: list[Command] = []
        for line, text in lines:
            if text.startswith("$ "):
                found.append(Command(text[2:], "", line))
            elif found:
                found[-1] = Command(found[-1].text, f"{found[-1].output}{text}\n", found[-1].line)
            else:
                raise ValueError(f"line {line}: a `console` block begins with `$ ` and a command")
        return found

    @property
    def is_run(self) -> bool:
        return self.is_program or self.is_planned or self.is_output or bool(self.commands)


@dataclass(frozen=True)
class Command:
    """A command of a page, what it must print (None: whatever it likes), and the line where it stands."""

    text: str
    output: str | None
    line: int


def blocks_of(text: str) -> list[Block]:
    """Return the fenced blocks of a page, in order; raise ValueError if the last one does not end."""
    blocks: list[Block] = []
    opened: tuple[str, str, int] | None = None
    indent = 0
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None and fence:
            language, _, info = fence["info"].strip().partition(" ")
            opened, lines, indent = (language, info.strip(), number + 1), [], len(fence["indent"])
        elif opened is not None and fence and not fence["info"].strip():
            blocks.append(Block(opened[0], opened[1], "".join(f"{x}\n" for x in lines), opened[2]))
            opened = None
        else:
            lines.append(line[indent:] if not line[:indent].strip() else line)
    if opened is not None:
        raise ValueError(f"the block that starts at line {opened[2] - 1} does not end")
    return blocks


def page_blocks(page: Path) -> list[Block]:
    """Return the blocks of a page."""
    return blocks_of(page.read_text(encoding="utf-8"))


def program_of(blocks: list[Block]) -> str:
    """Return the blocks that are run as one program, each at the line where it stands in the page."""
    lines: list[str] = []
    for block in blocks:
        if block.is_program:
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.text.splitlines()
    return "\n".join(lines) + "\n"


def expressions_of(block: Block) -> list[str]:
    """Return the expressions of a `hami` block."""
    return [text.strip() for text in re.split(r"\n(?=\S)", block.text) if text.strip()]


def plans_of(blocks: list[Block]) -> str:
    """Return a program that plans the pipelines and the expressions of a page."""
    lines = ["from hami.plan import plan"]
    for block in blocks:
        if block.is_planned and block.language == "toml":
            lines.append(f"plan({file_name(block)!r})")
        elif block.is_planned:
            lines += [
                f"plan({{'backend': 'Identity', 'node_entrypoint': {text!r}}})"
                for text in expressions_of(block)
            ]
    return "\n".join(lines[1:] and lines) + "\n"


def file_name(block: Block) -> str:
    """Return the name of the file that a block becomes."""
    return block.title or f"line_{block.line}.{block.language}"


def write_files(blocks: list[Block], folder: Path) -> None:
    """Write the blocks that are files; raise ValueError where two have one name."""
    written: set[str] = set()
    for block in blocks:
        if block.title or (block.is_planned and block.language == "toml"):
            name = file_name(block)
            if name in written:
                raise ValueError(f"line {block.line - 1}: another block is `{name}` already")
            written.add(name)
            (folder / name).write_text(block.text, encoding="utf-8")


def run_program(page: Path, folder: Path, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Write the files of `page` into `folder`, run its program, plan its pipelines; return how that ended."""
    blocks = page_blocks(page)
    for name in ("docs", "examples"):
        (folder / name).symlink_to(ROOT / name)
    write_files(blocks, folder)
    program = folder / f"{page.stem}_page.py"
    program.write_text(program_of(blocks) + plans_of(blocks), encoding="utf-8")
    return run([sys.executable, str(program)], folder, timeout_s)


def run(command: list[str], folder: Path, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder and return how it ended."""
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)
