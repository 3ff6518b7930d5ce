"""Where the examples are, their modules by file, and the package that example 01 is compared with."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import hami
from hami.config import import_modules, load

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def backends_of(example: str, file: str) -> ModuleType:
    """Return a module that the example's pipeline imports, loaded the way the pipeline loads it."""
    import_modules(load(EXAMPLES / example / "pipeline.toml"), hami.load)
    path = str(EXAMPLES / example / file)
    return next(module for module in list(sys.modules.values()) if getattr(module, "__file__", None) == path)


def module_at(path: str) -> ModuleType:
    """Return a module of the examples that registers nothing."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, EXAMPLES / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def run_script(*arguments: str, folder: Path) -> str:
    """Run a script of the examples from `folder` and return what it printed."""
    command = [sys.executable, str(EXAMPLES / arguments[0]), *arguments[1:]]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert ended.returncode == 0, f"{command} ended with {ended.returncode}: {ended.stderr}"
    return ended.stdout
