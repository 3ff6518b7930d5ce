"""Every name of TensorRT and CUDA that the product uses is in the real bindings, with these arguments.

The names are read from the source, so that code which cannot run on the machine of the tests is held to the
interface all the same.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

FAMILY = Path(__file__).resolve().parents[3] / "backends" / "tensorrt"

# What a variable or attribute of this name holds, by module; `*` for all modules.
ROLES = {
    "*": {
        "trt": "module",
        "module": "module",
        "builder": "Builder",
        "network": "INetworkDefinition",
        "parser": "OnnxParser",
        "tensor": "ITensor",
        "added": "IOptimizationProfile",
        "engine": "ICudaEngine",
        "context": "IExecutionContext",
        "runtime_config": "IRuntimeConfig",
    },
    "builder": {
        "config": "IBuilderConfig",
        "cache": "ITimingCache",
        "error": "ParserError",
        "flags": "NetworkDefinitionCreationFlag",
        "memory": "IHostMemory",
    },
    "execution": {"config": "IRuntimeConfig", "runtime": "Runtime"},
    "kernels": {"cache": "IRuntimeCache"},
}
MODULES = ("builder", "execution", "kernels", "package")
# Names of Python's own on things that share a name with one of TensorRT's.
OWN = {("module", "__version__")}
# What the classes that TensorRT calls back must define.
CALLED_BACK = {"IProgressMonitor": ("phase_start", "step_complete", "phase_finish"), "ILogger": ("log",)}


@dataclass(frozen=True)
class Use:
    """One use of a name: `holder.name`, called with so many arguments, or -1 where it is not called."""

    module: str
    line: int
    holder: str
    name: str
    num_arguments: int = -1
    keywords: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.module}.py:{self.line}: {self.holder}.{self.name}"


def tree_of(module: str) -> ast.Module:
    return ast.parse((FAMILY / f"{module}.py").read_text(encoding="utf-8"))


def holder_of(module: str, node: ast.expr) -> str:
    """Return the class of TensorRT's that an expression holds, by the name of its last part."""
    name = node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""
    if isinstance(node, ast.Attribute) and ast.unparse(node.value) in ("trt", "package.module"):
        return node.attr  # a class or an enumeration of the module
    return ROLES.get(module, {}).get(name) or ROLES["*"].get(name, "")


def uses_of(module: str) -> Iterator[Use]:
    """Yield the uses of TensorRT in a module."""
    tree = tree_of(module)
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            holder = holder_of(module, node.value)
            if not holder or (holder, node.attr) in OWN:
                continue
            call = calls.get(id(node))
            count = -1 if call is None else len(call.args) + len(call.keywords)
            keywords = () if call is None else tuple(one.arg or "" for one in call.keywords)
            yield Use(module, node.lineno, holder, node.attr, count, keywords)


USES = [use for module in MODULES for use in uses_of(module)]


def signatures(function: Any) -> list[list[str]]:
    """Return the parameters of each overload that pybind wrote into a docstring; defaults begin with `?`."""
    found = []
    for line in (function.__doc__ or "").splitlines():
        match = re.match(r"\s*(?:\d+\. )?\w+\((self: .*)\) -> ", line)
        if match:
            parts, depth, part = [], 0, ""
            for character in match[1]:
                depth += (character in "([<") - (character in ")]>")
                if character == "," and depth == 0:
                    parts.append(part)
                    part = ""
                else:
                    part += character
            parts.append(part)
            names = [one.split(":")[0].strip() for one in parts]
            found.append(
                [("?" if " = " in one else "") + name for one, name in zip(parts, names, strict=True)][1:]
            )
    return found


@pytest.fixture(scope="module")
def bindings() -> Any:
    return pytest.importorskip(
        "tensorrt_rtx_bindings",
        reason="the packages `tensorrt-rtx-cu13-libs` and `-bindings` are not installed",
    )


@pytest.mark.parametrize("use", USES, ids=str)
def test_a_name_of_tensorrt_exists_and_takes_the_arguments(bindings: Any, use: Use) -> None:
    holder = bindings if use.holder == "module" else getattr(bindings, use.holder)
    assert hasattr(holder, use.name), f"`{use.holder}` has no `{use.name}`"
    if use.num_arguments < 0 or use.holder == "module":
        return
    known = signatures(getattr(holder, use.name))
    assert known, f"`{use.holder}.{use.name}` is called and is no method"
    fits = [
        overload
        for overload in known
        if sum(not name.startswith("?") for name in overload) <= use.num_arguments <= len(overload)
        and all(keyword in [name.lstrip("?") for name in overload] for keyword in use.keywords)
    ]
    assert fits, f"called with {use.num_arguments} arguments, known are {known}"


def test_the_uses_are_really_found() -> None:
    """A parser that finds nothing would let every fault pass."""
    found = {(use.holder, use.name) for use in USES}
    for expected in (
        ("Builder", "build_serialized_network"),
        ("OnnxParser", "parse_from_file"),
        ("IBuilderConfig", "set_compute_capability"),
        ("BuilderFlag", "TF32"),
        ("NetworkDefinitionCreationFlag", "STRONGLY_TYPED"),
        ("Runtime", "deserialize_cuda_engine"),
        ("ICudaEngine", "create_execution_context"),
        ("ICudaEngine", "get_device_memory_size_for_profile_v2"),
        ("IExecutionContext", "execute_async_v3"),
        ("IExecutionContext", "set_device_memory"),
        ("IExecutionContext", "set_tensor_address"),
        ("IRuntimeConfig", "set_runtime_cache"),
        ("IRuntimeCache", "deserialize"),
        ("ExecutionContextAllocationStrategy", "USER_MANAGED"),
        ("DynamicShapesKernelSpecializationStrategy", "EAGER"),
    ):
        assert expected in found
    assert len(found) > 50


@pytest.mark.parametrize(("base", "methods"), CALLED_BACK.items())
def test_what_tensorrt_calls_back_has_the_parameters_that_it_gives(
    bindings: Any, base: str, methods: tuple[str, ...]
) -> None:
    functions = {
        node.name: node
        for module in ("builder", "package")
        for node in ast.walk(tree_of(module))
        if isinstance(node, ast.FunctionDef)
    }
    for method in methods:
        (names,) = signatures(getattr(getattr(bindings, base), method))
        assert len(functions[method].args.args) == len(names) + 1


# --- CUDA ------------------------------------------------------------------------------------------


def cuda_names() -> Iterator[str]:
    """Yield the functions that are called by name, and the constants that are read."""
    for module in ("cuda", "device_array", "execution"):
        for node in ast.walk(tree_of(module)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                first = node.args[0]
                is_name = isinstance(first, ast.Constant) and str(first.value).startswith("cuda")
                if node.func.id in ("call", "_release") and is_name:
                    yield first.value
            is_runtime = isinstance(node, ast.Attribute) and (
                (isinstance(node.value, ast.Call) and ast.unparse(node.value) == "runtime()")
                or (isinstance(node.value, ast.Name) and node.value.id == "cuda" and module == "cuda")
            )
            if is_runtime:
                yield node.attr


def test_every_function_and_constant_of_cuda_exists() -> None:
    runtime = pytest.importorskip(
        "cuda.bindings.runtime", reason="the package `cuda-bindings` is not installed"
    )
    names = sorted(set(cuda_names()))
    assert len(names) > 20
    assert [name for name in names if not hasattr(runtime, name)] == []
    assert hasattr(runtime.cudaMemcpyKind, "cudaMemcpyDefault")
    assert hasattr(runtime.cudaStreamCaptureMode, "cudaStreamCaptureModeThreadLocal")
    properties = runtime.cudaDeviceProp()
    assert all(hasattr(properties, name) for name in ("name", "major", "minor"))
