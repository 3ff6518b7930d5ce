"""Every code that the product can raise, found in its sources."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from hami import errors

ROOT = Path(__file__).resolve().parent.parent
SLUG = re.compile(r"[a-z]+(-[a-z0-9]+)+")

# Functions that take a code as a positional argument; a keyword `code=` is one everywhere.
TAKES_CODE = {"error", "_fail", "fail", "error_at", "_error", "_refuse_cycle", "_index_of"}


def python_codes(path: Path) -> Iterator[str]:
    """Yield the codes that a Python file raises."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call):
            continue
        values = [keyword.value for keyword in node.keywords if keyword.arg == "code"]
        if getattr(node.func, "attr", getattr(node.func, "id", "")) in TAKES_CODE:
            values += node.args
        for value in values:
            if isinstance(value, ast.Constant) and SLUG.fullmatch(str(value.value)):
                yield str(value.value)


def cpp_codes(path: Path) -> Iterator[str]:
    """Yield the codes that a C++ file raises."""
    yield from re.findall(r'ErrorKind::k[A-Z]\w+,\s*"([a-z][a-z0-9-]*)"', path.read_text(encoding="utf-8"))


@lru_cache
def all_codes() -> dict[str, str]:
    """Return every code with a file that raises it."""
    found: dict[str, str] = {}
    for folder in ("hami", "backends", "csrc"):
        for path in sorted((ROOT / folder).rglob("*")):
            read = {".py": python_codes, ".cc": cpp_codes, ".h": cpp_codes}.get(path.suffix)
            for code in read(path) if read else ():
                found.setdefault(code, str(path.relative_to(ROOT)))
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.Error):
            found.setdefault(kind.default_code, "hami/errors.py")
    return found
