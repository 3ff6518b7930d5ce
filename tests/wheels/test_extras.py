"""What an extra brings says which one it is where it is missing.

`wheels/extras.py` asks: here with the packages of this environment hidden, for a wheel in an empty one.
"""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path
from typing import Any

import only_core
import pytest

ROOT = Path(__file__).resolve().parents[2]
ASKING = ROOT / "wheels" / "extras.py"

ASKED_ELSEWHERE = {
    "bench": "tests/benchmarks/test_growth.py",
    "grammar": "tests/llm/test_grammar_requests.py",
    "ocr": "tests/examples/test_ocr_detector.py",
    "torchvision": "tests/backends/torch/test_torch_decode.py",
}


def table() -> dict[str, Any]:
    """Return what `extras.py` uses of each extra."""
    uses: dict[str, Any] = runpy.run_path(str(ASKING))["USES"]
    return uses


def test_the_error_of_each_extra_names_it(tmp_path: Path) -> None:
    done = only_core.run(f"import runpy; runpy.run_path({str(ASKING)!r}, run_name='__main__')", tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    for extra in table():
        assert extra in done.stdout


def test_a_use_that_works_or_names_another_extra_is_told(tmp_path: Path) -> None:
    code = f"""
import runpy
asking = runpy.run_path({str(ASKING)!r})
uses = {{"image": asking["pipe"]("DecodeImage"), "none": asking["pipe"]("Identity")}}
asking["USES"].clear()
asking["USES"]["llm"] = uses
print("\\n".join(asking["faults"]()))
"""
    done = only_core.run(code, tmp_path)

    assert done.stdout.startswith("llm: image: ")
    assert "the `image` backends cannot be loaded" in done.stdout
    assert done.stdout.endswith("\nllm: none: it worked\n")


def test_every_extra_is_asked_for() -> None:
    tomllib: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

    # what `dev` and `docs` bring is for this repository alone
    asked = {*table(), *ASKED_ELSEWHERE, "dev", "docs"}
    assert set(project["optional-dependencies"]) == asked
    for extra, file in ASKED_ELSEWHERE.items():
        assert f"hami-core[{extra}]" in (ROOT / file).read_text(encoding="utf-8")


@pytest.mark.parametrize("module", ["numpy", "pytest"])
def test_the_packages_of_this_environment_are_hidden(module: str, tmp_path: Path) -> None:
    assert importlib.util.find_spec(module) is not None
    done = only_core.run(f"import hami, typer, lark, json\nimport {module}", tmp_path)

    assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: No module named '{module}'"
