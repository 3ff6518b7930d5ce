"""Print the requirements that `pyproject.toml` lists, one a line, for pip.

`tools/setup.sh` installs them before the project itself, so that a change of the code never waits for a
resolver. It runs with the bare interpreter of a new environment: the standard library and pip are all it has.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:  # the reader that pip itself carries; nothing else is installed yet
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent


def requirements(pyproject: dict[str, Any], wanted: list[str]) -> list[str]:
    """Return the requirements of the build, of the project and of its extras `wanted`, without repeats.

    An extra that names the project itself (`hami-core[onnx]`) is replaced by what it stands for.
    """
    project = pyproject["project"]
    own = re.compile(rf"{re.escape(project['name'])}\[([^\]]+)\]$")
    found: dict[str, None] = dict.fromkeys(pyproject["build-system"]["requires"] + project["dependencies"])
    seen: set[str] = set()
    todo = list(wanted)
    while todo:
        extra = todo.pop(0)
        if extra in seen:
            continue
        seen.add(extra)
        for line in project["optional-dependencies"][extra]:
            if itself := own.match(line):
                todo += [name.strip() for name in itself[1].split(",")]
            else:
                found[line] = None
    return list(found)


if __name__ == "__main__":
    with open(ROOT / "pyproject.toml", "rb") as file:
        print("\n".join(requirements(tomllib.load(file), sys.argv[1:])))
