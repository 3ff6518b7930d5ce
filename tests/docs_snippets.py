"""Find and run the code of the documentation: fenced blocks in Markdown files.

`test_docs.py` uses it. All `python` blocks of a file run one after another as one program, in an empty
folder, so a page can build on what it showed before. A block that starts with ```` ```toml title="NAME" ````
is written to that file first, and one that starts with ```` ```python no-run ```` is left alone. Line numbers
in a traceback are those of the page.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

FENCE = re.compile(r"^(?P<indent> *)```(?P<info>.*)$")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the rest of its first line, its text and the line where that starts."""

    language: str
    options: str
    text: str
    line: int

    @property
    def title(self) -> str:
        match = re.search(r'title="([^"]+)"', self.options)
        return match[1] if match else ""

    @property
    def is_run(self) -> bool:
        return self.language == "python" and "no-run" not in self.options.split()


def blocks_of(text: str) -> list[Block]:
    """Return the fenced blocks of a page, in order; raise ValueError if the last one does not end."""
    blocks: list[Block] = []
    opened: tuple[str, str, int] | None = None
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opened is None and fence:
            language, _, options = fence["info"].strip().partition(" ")
            opened, lines = (language, options, number + 1), []
        elif opened is not None and fence and not fence["info"].strip():
            blocks.append(Block(opened[0], opened[1], "".join(f"{x}\n" for x in lines), opened[2]))
            opened = None
        else:
            lines.append(line)
    if opened is not None:
        raise ValueError(f"the block that starts at line {opened[2] - 1} does not end")
    return blocks


def has_code(page: Path) -> bool:
    """Tell whether `page` has a block that is run."""
    return any(block.is_run for block in blocks_of(page.read_text(encoding="utf-8")))


def program_of(blocks: list[Block]) -> str:
    """Return the blocks that are run as one program, each at the line where it stands in the page."""
    lines: list[str] = []
    for block in blocks:
        if block.is_run:
            lines += [""] * (block.line - 1 - len(lines))
            lines += block.text.splitlines()
    return "\n".join(lines) + "\n"


def run_page(page: Path, folder: Path, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
    """Run the code of `page` in `folder` and return how it ended."""
    blocks = blocks_of(page.read_text(encoding="utf-8"))
    for block in blocks:
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
    program = folder / f"{page.stem}_page.py"
    program.write_text(program_of(blocks), encoding="utf-8")
    return subprocess.run(
        [sys.executable, str(program)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def broken_links(page: Path) -> list[str]:
    """Return the links of `page` to files of the repository that do not exist."""
    text = re.sub(r"^ *```.*?^ *```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    return [link for link in links if "://" not in link and not (page.parent / link).exists()]
