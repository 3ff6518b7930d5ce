"""Hide every package that hami-core itself does not need, as if it were alone in its environment.

`run` does so in a process of its own.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from importlib import metadata
from importlib.abc import MetaPathFinder
from pathlib import Path


def requirements_of(distribution: metadata.Distribution) -> Iterable[str]:
    """Yield the names of what a distribution needs without any of its extras."""
    for line in distribution.requires or ():
        requirement, _, marker = line.partition(";")
        if "extra" not in marker:
            name = re.match(r"[\w.-]+", requirement)
            assert name is not None, line
            yield name[0]


def modules_of_the_core() -> set[str]:
    """Return the top-level modules of hami-core and of what it needs, each with what that needs."""
    modules: set[str] = {"hami"}
    todo, seen = ["hami-core"], set()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            distribution = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # for other versions of Python, or other systems
            continue
        modules |= {file.parts[0].split(".")[0] for file in distribution.files or ()}
        todo += requirements_of(distribution)
    return modules


class _Hidden(MetaPathFinder):
    def __init__(self, allowed: set[str]) -> None:
        self.allowed = allowed

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> None:
        top = fullname.partition(".")[0]
        # `sysconfig` reads a module with a name of its own on each system
        if top not in self.allowed and not top.startswith("_sysconfigdata_"):
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def hide_the_rest() -> None:
    """Let no other module be imported from now on. REQUIRES: none has been."""
    sys.meta_path.insert(0, _Hidden(modules_of_the_core() | set(sys.stdlib_module_names)))


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a process that finds nothing but the core; warnings are errors."""
    here = str(Path(__file__).resolve().parent)
    start = f"import sys; sys.path.append({here!r}); import only_core; only_core.hide_the_rest()"
    command = [sys.executable, "-W", "error", "-c", f"{start}\n{code}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, cwd=folder)
