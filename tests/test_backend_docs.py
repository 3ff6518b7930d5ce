"""Check the page that tools/write_backend_docs.py writes: its form, and that it is up to date."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from hami.backend import Declaration, Param

TOOL = Path(__file__).resolve().parent.parent / "tools" / "write_backend_docs.py"


@pytest.fixture(scope="module")
def docs() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_backend_docs", TOOL)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# In a process of its own: other tests register backends here.
def test_the_stored_page_is_what_the_declarations_say(docs: ModuleType) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(TOOL.parent)!r}); import write_backend_docs as w; "
        "sys.stdout.reconfigure(encoding='utf-8'); print(w.page_of(w.own_declarations()), end='')"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout.decode() == docs.PAGE.read_text(encoding="utf-8"), "run `make docs`"


def test_a_parameter_is_shown_with_unit_default_limits_and_meaning(docs: ModuleType) -> None:
    wait = Param("wait", "float", 4.0, unit="ms", min=0, max=10, doc="how long | at most")

    section = docs.section_of(Declaration("Wait", "Wait a little.", params=(wait,)))

    assert section.startswith("### Wait\n\nWait a little.\n")
    assert "| `wait` | float, ms | `4.0` | 0 to 10 | how long \\| at most |" in section


def test_a_backend_without_parameters_has_no_table(docs: ModuleType) -> None:
    assert docs.section_of(Declaration("Identity", "Do nothing.")) == "### Identity\n\nDo nothing.\n"


@pytest.mark.parametrize(
    ("param", "default"),
    [
        (Param("x", required=True), "required"),
        (Param("x"), ""),
        (Param("x", default=False), "`false`"),
        (Param("x", default=""), '`""`'),
        (Param("x", default=0), "`0`"),
    ],
)
def test_a_default_is_written_as_in_a_pipeline_file(docs: ModuleType, param: Param, default: str) -> None:
    assert docs.default_of(param) == default


@pytest.mark.parametrize(
    ("param", "limits"),
    [
        (Param("x", choices=("a", "b")), "`a`, `b`"),
        (Param("x", min=1), "at least 1"),
        (Param("x", max=0.5), "at most 0.5"),
        (Param("x", min=0, max=86_400_000), "0 to 86,400,000"),
        (Param("x"), ""),
    ],
)
def test_limits_are_told_in_words(docs: ModuleType, param: Param, limits: str) -> None:
    assert docs.limits_of(param) == limits


def test_hidden_backends_are_left_out_and_families_keep_their_order(docs: ModuleType) -> None:
    page = docs.page_of(
        [
            Declaration("Decode", "d.", family="image", extra="image"),
            Declaration("Old", "o.", family="flow", is_hidden=True),
            Declaration("Pow", "p.", family="flow"),
            Declaration("Add", "a.", family="flow"),
        ]
    )

    headings = [line for line in page.splitlines() if line.startswith("#")]
    assert headings == ["# Backends", "## Flow", "### Add", "### Pow", "## Images", "### Decode"]
    assert "pip install 'hami-core[image]'" in page
