"""What the core needs is there for every interpreter that it has wheels for: packages without compiled parts.

`pip install hami-core` must not need a compiler, least of all on a Python without the GIL, for which few
packages publish wheels.
"""

from __future__ import annotations

import importlib.metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PURE_AS_WELL = {"tomli"}
"""Those that publish a wheel for every interpreter beside their compiled ones."""


def needed_by(name: str) -> set[str]:
    """Return the packages that one needs on this interpreter, without extras, and what these need in turn."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        for text in importlib.metadata.requires(waiting.pop()) or []:
            requirement = Requirement(text)
            needed = canonicalize_name(requirement.name)
            is_asked = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if is_asked and needed not in found:
                found.add(needed)
                waiting.append(needed)
    return found


def compiled_parts(name: str) -> list[str]:
    files = importlib.metadata.distribution(name).files or []
    return [str(file) for file in files if file.suffix == ".so"]


def test_what_the_core_needs_has_no_compiled_parts() -> None:
    needed = needed_by("hami-core")

    assert {"lark", "typer", "rich"} <= needed
    assert {name: parts for name in needed - PURE_AS_WELL if (parts := compiled_parts(name))} == {}


def test_a_package_with_compiled_parts_is_seen() -> None:
    assert any("multiarray" in part for part in compiled_parts("numpy"))
