"""Check tools/requirements.py, which tells `make setup` what to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).resolve().parents[2] / "tools" / "requirements.py"


def pyproject(**extras: list[str]) -> dict[str, object]:
    return {
        "build-system": {"requires": ["scikit-build-core>=0.10"]},
        "project": {
            "name": "hami-core",
            "dependencies": ["lark>=1.2"],
            "optional-dependencies": extras,
        },
    }


def requirements(project: dict[str, object], wanted: list[str]) -> list[str]:
    sys.path.insert(0, str(TOOL.parent))
    try:
        import requirements as tool
    finally:
        sys.path.remove(str(TOOL.parent))
    found: list[str] = tool.requirements(project, wanted)
    return found


def test_those_of_the_build_and_of_the_project_come_first() -> None:
    assert requirements(pyproject(dev=["pytest"]), ["dev"]) == [
        "scikit-build-core>=0.10",
        "lark>=1.2",
        "pytest",
    ]


def test_an_extra_that_names_the_project_is_replaced_by_its_contents() -> None:
    project = pyproject(a=["numpy"], b=["hami-core[a]", "onnx"], dev=["hami-core[b, a]"])

    assert requirements(project, ["dev"])[2:] == ["onnx", "numpy"]


def test_extras_that_name_each_other_end() -> None:
    project = pyproject(a=["hami-core[b]", "x"], b=["hami-core[a]", "y"])

    assert requirements(project, ["a"])[2:] == ["x", "y"]


def test_a_requirement_is_listed_once() -> None:
    assert requirements(pyproject(dev=["numpy", "numpy", "lark>=1.2"]), ["dev"])[1:] == ["lark>=1.2", "numpy"]


def test_it_prints_the_requirements_of_this_project() -> None:
    done = subprocess.run([sys.executable, str(TOOL), "dev"], capture_output=True, text=True, timeout=60)

    lines = done.stdout.splitlines()
    assert any(line.startswith("scikit-build-core") for line in lines)
    assert any(line.startswith("pytest") for line in lines)
    assert not any(line.startswith("hami-core") for line in lines)
