"""Python classes of a plan on their way to another process: by module and name, never by value."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from ..backend import WithPlans
from ..errors import BuildError

_MAIN = "__main__"


@dataclass(frozen=True)
class Reference:
    """Where a class or function is found; `file` helps where the module's name alone does not."""

    module: str
    name: str
    file: str | None = None


@dataclass(frozen=True)
class MainModule:
    """The program: a module that was run with `-m`, or a script."""

    module: str | None = None
    file: str | None = None


def find_main() -> MainModule | None:
    """Return how another process can import the program, or None: `python -c`, a prompt, a notebook."""
    main = sys.modules.get(_MAIN)
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name != _MAIN:
        return MainModule(module=spec.name)
    file = getattr(main, "__file__", None)
    return MainModule(file=os.path.abspath(file)) if file and os.path.isfile(file) else None


def refer_all(plan: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plan of one node with a Reference for each class. Raises BuildError for one that has none."""
    nodes = [{**node, "expr": _refer_expr(node["expr"])} for node in plan["nodes"]]
    return {**plan, "nodes": nodes}


def _refer_expr(expr: Mapping[str, Any]) -> dict[str, Any]:
    python = expr["python"]
    if isinstance(python, WithPlans):
        plans = tuple(refer_all(plan) for plan in python.plans)
        python = WithPlans(_refer(python.python, expr), plans, python.imports)
    elif python is not None:
        python = _refer(python, expr)
    return {**expr, "python": python, "children": [_refer_expr(child) for child in expr["children"]]}


def _refer(target: Any, expr: Mapping[str, Any]) -> Reference:
    module, name = getattr(target, "__module__", None), getattr(target, "__qualname__", None)

    def refuse(reason: str, help: str) -> BuildError:
        where, shown = expr["where"], expr["class"]
        message = f"`{shown}` cannot be used in a worker process: {reason}"
        return BuildError(message, code="worker-reference", where=where, help=help)

    in_module = "define it at the top level of a module, and name the module in `imports`"
    if not isinstance(module, str) or not isinstance(name, str) or "<locals>" in name:
        raise refuse("it is defined inside a function", in_module)
    if module == _MAIN and find_main() is None:
        raise refuse("it is defined in an interactive session or in `python -c`", in_module)
    if _look_up(sys.modules.get(module), name) is not target:
        raise refuse(f"`{module}` has no `{name}` that is the same object", in_module)
    return Reference(module, name, getattr(sys.modules[module], "__file__", None))


def _look_up(module: ModuleType | None, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def resolve_all(plan: Mapping[str, Any], load_main: Callable[[], None]) -> dict[str, Any]:
    """Return the plan with the classes again. Raises BuildError for one that cannot be imported."""
    nodes = [{**node, "expr": _resolve_expr(node["expr"], load_main)} for node in plan["nodes"]]
    return {**plan, "nodes": nodes}


def _resolve_expr(expr: Mapping[str, Any], load_main: Callable[[], None]) -> dict[str, Any]:
    python = expr["python"]
    if isinstance(python, WithPlans):
        plans = tuple(resolve_all(plan, load_main) for plan in python.plans)
        python = WithPlans(_resolve(python.python, expr, load_main), plans, python.imports)
    elif python is not None:
        python = _resolve(python, expr, load_main)
    children = [_resolve_expr(child, load_main) for child in expr["children"]]
    return {**expr, "python": python, "children": children}


def _resolve(reference: Reference, expr: Mapping[str, Any], load_main: Callable[[], None]) -> Any:
    if reference.module == _MAIN:
        load_main()
        module = sys.modules[_MAIN]
    else:
        module = _import(reference)
    found = _look_up(module, reference.name)
    if found is None:
        raise BuildError(
            f"`{expr['class']}` is not in `{reference.module}` when a worker process imports it",
            code="worker-reference",
            where=expr["where"],
            help="define it whenever the module is imported, not under a condition",
        )
    return found


def _import(reference: Reference) -> ModuleType:
    """Import a module by its name, or else from the file that it was loaded from."""
    if reference.module in sys.modules:
        return sys.modules[reference.module]
    try:
        return importlib.import_module(reference.module)
    except ModuleNotFoundError:
        if reference.file is None or not os.path.isfile(reference.file):
            raise
    spec = importlib.util.spec_from_file_location(reference.module, reference.file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[reference.module] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[reference.module]
        raise
    return module
