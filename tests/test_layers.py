"""Check the rules of the source tree on this repository, and check on small trees that each rule can fail."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import layer_rules
import pytest

ROOT = Path(__file__).resolve().parent.parent

Rule = Callable[[Path], list[str]]
RULES: list[Rule] = [
    layer_rules.include_violations,
    layer_rules.locale_violations,
    layer_rules.import_violations,
    layer_rules.core_violations,
    layer_rules.heavy_import_violations,
    layer_rules.size_violations,
    layer_rules.name_violations,
    layer_rules.proportion_violations,
]


def rule_name(rule: Rule) -> str:
    return rule.__name__.removesuffix("_violations")


def write_tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return root


@pytest.fixture
def good_tree(tmp_path: Path) -> Path:
    """A small repository that keeps every rule; its tests are longer than its product."""
    return write_tree(
        tmp_path,
        {
            "csrc/include/hami/abi.h": "",
            "csrc/core/value.h": "#include <vector>\n#include <hami/abi.h>\n",
            "csrc/plan/build.h": '#include "core/value.h"\n',
            "csrc/graph/pipeline.cc": '#include "plan/build.h"\n',
            "csrc/builtin/identity.cc": '#include "core/value.h"\n',
            "csrc/bind/module.cc": '#include "../plan/build.h"\n',
            "backends/onnx/infer.h": "",
            "backends/onnx/infer.cc": '#include "core/value.h"\n#include "infer.h"\n',
            "backends/image/__init__.py": "from .decode import Decode\n",
            "backends/image/decode.py": "import cv2\nfrom hami.backend import Backend\n",
            "hami/__init__.py": "from .pipeline import pipe\n",
            "hami/_core.pyi": "",
            "hami/errors.py": "",
            "hami/config.py": "from .errors import Error\n",
            "hami/parser/__init__.py": "from .expr import Expr\n",
            "hami/parser/expr.py": "from ..errors import Error\n",
            "hami/backend.py": "def declarations():\n    from . import _core\n",
            "hami/plan.py": "from hami import config\nfrom hami.parser import Expr\n",
            "hami/pipeline.py": "import hami.plan\nfrom . import _core\n",
            "hami/serve/__init__.py": "from fastapi import FastAPI\nfrom ..pipeline import pipe\n",
            "hami/cli/__init__.py": "import hami\nfrom ..pipeline import pipe\nfrom ..serve import app\n",
            "tests/test_all.py": "# a line\n" * 60,
        },
    )


@pytest.mark.parametrize("rule", RULES, ids=rule_name)
def test_the_repository_keeps_the_rule(rule: Rule) -> None:
    assert rule(ROOT) == []


@pytest.mark.parametrize("rule", RULES, ids=rule_name)
def test_a_good_tree_keeps_the_rule(rule: Rule, good_tree: Path) -> None:
    assert rule(good_tree) == []


# The rules about code are only worth something while they see the code.
def test_the_rules_see_the_sources_of_the_repository() -> None:
    assert len(list(layer_rules.sources(ROOT, "csrc", {".cc", ".h"}))) > 20
    assert len(list(layer_rules.sources(ROOT, "hami", {".py"}))) > 10
    assert len(list(layer_rules.sources(ROOT, "backends", {".cc", ".h", ".py"}))) > 3


BAD_INCLUDES = {
    "core includes plan": ("csrc/core/dict.cc", '#include "plan/build.h"', "`core` includes `plan`"),
    "plan includes graph": ("csrc/plan/up.cc", '#include "../graph/x.h"', "`plan` includes `graph`"),
    "anyone includes bind": ("csrc/graph/y.cc", '#include "bind/x.h"', "`graph` includes `bind`"),
    "bind includes builtin": ("csrc/bind/y.cc", '#include "builtin/x.h"', "`bind` includes `builtin`"),
    "builtin goes up": (
        "csrc/builtin/y.cc",
        '#include "schedule/x.h"',
        "`builtin` includes `schedule`",
    ),
    "public goes down": (
        "csrc/include/hami/hami.h",
        '#include "core/value.h"',
        "`include` includes `core`",
    ),
    "family to graph": (
        "backends/onnx/y.cc",
        '#include "graph/x.h"',
        "`backends/onnx` includes `graph`",
    ),
    "family includes family": (
        "backends/torch/y.cc",
        '#include "onnx/infer.h"',
        "`backends/torch` includes `backends/onnx`",
    ),
    "a folder without a rule": ("csrc/extra/y.cc", '#include "core/value.h"', "`extra` is no known layer"),
    "no such header": (
        "csrc/core/y.cc",
        '#include "core/gone.h"',
        "is no file of this repository",
    ),
}


@pytest.mark.parametrize("case", BAD_INCLUDES.values(), ids=BAD_INCLUDES)
def test_an_include_against_the_layers_is_found(case: tuple[str, str, str], good_tree: Path) -> None:
    path, line, message = case
    headers = {f"csrc/{layer}/x.h": "" for layer in ("graph", "bind", "builtin", "schedule")}
    write_tree(good_tree, {**headers, path: f"\n{line}\n"})

    [violation] = layer_rules.include_violations(good_tree)

    assert violation.startswith(f"{path}:2: ")
    assert message in violation


BAD_IMPORTS = {
    "errors imports config": ("hami/errors.py", "from . import config", "`errors` imports `config`"),
    "config imports plan": ("hami/config.py", "import hami.plan", "`config` imports `plan`"),
    "parser imports backend": ("hami/parser/x.py", "from ..backend import A", "`parser` imports `backend`"),
    "parser imports the package": ("hami/parser/x.py", "import hami", "`parser` imports `hami itself`"),
    "plan imports pipeline": ("hami/plan.py", "from hami.pipeline import pipe", "`plan` imports `pipeline`"),
    "pipeline imports a front": (
        "hami/pipeline.py",
        "from .cli import main",
        "`pipeline` imports `cli`",
    ),
    "the package imports a front": (
        "hami/__init__.py",
        "from .cli import x",
        "imports the front `cli`",
    ),
    "a front imports another": ("hami/serve/app.py", "from ..cli import x", "imports the front `cli`"),
    "a family imports plan": ("backends/image/x.py", "from hami import plan", "`backends` imports `plan`"),
    "a family imports a family": (
        "backends/image/x.py",
        "from hami.backends.onnx import session",
        "family `image` imports family `onnx`",
    ),
    "a family imports a family by dots": (
        "backends/image/x.py",
        "from ..onnx import session",
        "family `image` imports family `onnx`",
    ),
    "a hidden import": ("hami/errors.py", "def f():\n    import hami.plan", "`errors` imports `plan`"),
    "a module without a rule": ("hami/extra.py", "", "`extra` is no known module"),
}


@pytest.mark.parametrize("case", BAD_IMPORTS.values(), ids=BAD_IMPORTS)
def test_an_import_against_the_layers_is_found(case: tuple[str, str, str], good_tree: Path) -> None:
    path, text, message = case
    write_tree(good_tree, {path: text})

    [violation] = layer_rules.import_violations(good_tree)

    assert violation.startswith(path)
    assert message in violation


@pytest.mark.parametrize("module", layer_rules.NEVER_THE_CORE)
def test_a_way_from_the_parser_to_the_core_is_found(module: str, good_tree: Path) -> None:
    path = "hami/parser/expr.py" if module == "parser" else f"hami/{module}.py"
    write_tree(good_tree, {path: "def f():\n    from hami import backend\n"})

    violations = layer_rules.core_violations(good_tree)

    assert f"`{module}` reaches the compiled core: {module} -> backend -> _core" in violations


HEAVY = {
    "torch in the pipeline": ("hami/pipeline.py", "import torch"),
    "onnxruntime in another family": ("backends/image/x.py", "from onnxruntime.capi import x"),
    "cv2 inside a function": ("hami/plan.py", "def f():\n    import cv2"),
    "fastapi in the command line": ("hami/cli/x.py", "from fastapi import FastAPI"),
}


@pytest.mark.parametrize("case", HEAVY.values(), ids=HEAVY)
def test_a_heavy_package_outside_its_module_is_found(case: tuple[str, str], good_tree: Path) -> None:
    path, text = case
    write_tree(good_tree, {path: text})

    [violation] = layer_rules.heavy_import_violations(good_tree)

    assert violation.startswith(path)


def test_a_file_of_401_lines_is_found(good_tree: Path) -> None:
    write_tree(good_tree, {"hami/long.py": "#\n" * 401, "hami/full.py": "#\n" * 400})

    assert layer_rules.size_violations(good_tree) == ["hami/long.py: 401 lines"]


@pytest.mark.parametrize("header", ["sstream", "regex"])
def test_a_header_that_needs_locales_is_found(header: str, good_tree: Path) -> None:
    write_tree(good_tree, {"csrc/core/text.cc": f"#include <string>\n#include <{header}>\n"})

    assert layer_rules.locale_violations(good_tree) == [f"csrc/core/text.cc:2: <{header}> needs locales"]


@pytest.mark.parametrize(
    "name", ["hami/utils/x.py", "csrc/core/string_util.h", "tests/helper.py", "hami/batcher_v2.py"]
)
def test_a_name_that_says_nothing_is_found(name: str, good_tree: Path) -> None:
    write_tree(good_tree, {name: ""})

    assert len(layer_rules.name_violations(good_tree)) == 1


def test_a_product_longer_than_its_tests_is_found(good_tree: Path) -> None:
    write_tree(good_tree, {"csrc/core/much.cc": "//\n" * 100})

    [violation] = layer_rules.proportion_violations(good_tree)

    assert violation.startswith("60 lines of tests for")


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout.strip()


def test_importing_hami_loads_no_heavy_package() -> None:
    heavy = sorted({*layer_rules.HEAVY_PACKAGES, "numpy", "typer", "asyncio"})

    loaded = run_python(f"import sys, hami; print([name for name in {heavy} if name in sys.modules])")

    assert loaded == "[]"


def test_importing_hami_takes_below_a_tenth_of_a_second() -> None:
    code = "import time; t = time.process_time(); import hami; print(time.process_time() - t)"

    # processor time, and the best of several: the machine may be busy with something else
    assert min(float(run_python(code)) for _ in range(5)) < 0.1
