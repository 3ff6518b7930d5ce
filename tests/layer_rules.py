"""The rules of the source tree, as functions that take a root folder and return the violations as sentences.

`test_layers.py` applies them to this repository and, to show that each can fail, to small trees made for the
purpose. The rules are those of CONTRIBUTING.md: who may include or import whom, where heavy packages may be
imported, sizes and names of files.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAX_LINES = 400
SIZED_FOLDERS = ("csrc", "hami", "backends", "tests", "examples", "benchmarks", "tools")
SOURCE_SUFFIXES = {".py", ".pyi", ".cc", ".h", ".lark", ".toml", ".sh"}
VAGUE_NAMES = {"util", "utils", "helper", "helpers", "misc"}

# A folder of csrc/ may include from itself and from these.
MAY_INCLUDE = {
    "include": set(),
    "core": {"include"},
    "plan": {"core", "include"},
    "engine": {"core", "include"},
    "load": {"core", "include"},
    "schedule": {"plan", "core", "include"},
    "graph": {"schedule", "load", "plan", "core", "include"},
    "bind": {
        "graph",
        "schedule",
        "engine",
        "llm",
        "kernels",
        "load",
        "paged",
        "plugin",
        "plan",
        "core",
        "include",
    },
    "builtin": {"load", "plan", "core", "include"},
    "paged": {"core", "include"},
    "llm": {"paged", "core", "include"},
    "kernels": {"core", "include"},
    "plugin": {"plan", "core", "include"},
    "backends": {"paged", "engine", "plan", "core", "include"},  # plan: a backend is made from a Build
}

# A module of hami/ may import from itself and from these; `_core` is the compiled core.
MAY_IMPORT = {
    "errors": set(),
    "config": {"errors"},
    "parser": {"errors"},
    "failures": {"errors"},
    "trace": {"errors"},
    "tensors": {"backend", "errors", "_core"},
    "engine": {"backend", "errors"},
    "picture_header": {"errors"},
    "params": {"errors"},
    "scheduler": set(),
    "backend": {"params", "errors", "parser", "scheduler", "_core"},
    "conditions": {"backend", "errors"},
    "installed": {"errors"},
    "plugins": {"backend", "installed", "parser", "errors", "_core"},
    "event_loop": set(),
    "instances": {"backend", "errors", "event_loop", "_core"},
    "event": {"errors", "failures"},
    "process": {"backend", "config", "plugins", "errors", "_core"},
    "plan": {"config", "parser", "params", "plugins", "backend", "scheduler", "errors"},
    "drawing": {"plan", "parser"},
    "answers": {"_core"},
    "stream": {"errors", "_core"},
    "pipeline": {
        "plan",
        "config",
        "parser",
        "backend",
        "engine",
        "event",
        "answers",
        "stream",
        "tensors",
        "trace",
        "errors",
        "_core",
    },
    "testing": {"pipeline", "plan", "config", "parser", "backend", "tensors", "trace", "errors"},
    "sources": {"backend", "errors"},
    "backends": {
        "backend",
        "engine",
        "params",
        "picture_header",
        "scheduler",
        "tensors",
        "errors",
        "_core",
    },
}
FRONT_MODULES = {"cli", "serve", "ray", "bench"}  # may import everything but each other
MAY_IMPORT_FRONTS = {"cli": {"bench", "serve", "ray"}, "ray": {"serve"}}  # who starts the server, or measures
NEVER_THE_CORE = ("errors", "config", "parser")

# The folders where a package may be imported. Elsewhere it is an optional dependency that slows every start.
HEAVY_PACKAGES = {
    "torch": ("backends/torch", "backends/llm", "backends/hstu", "backends/embedding", "backends/tensorrt"),
    "onnxruntime": ("backends/onnxruntime",),
    "tensorrt": ("backends/tensorrt",),
    "cv2": ("backends/image", "backends/torch"),
    "torchvision": ("backends/torch",),
    "fastapi": ("hami/serve", "hami/ray"),
    "ray": ("hami/ray",),
    "starlette": ("hami/serve",),
    "uvicorn": ("hami/serve",),
    "uvloop": ("hami/serve",),
    "orjson": ("hami/serve",),
    "prometheus_client": ("hami/serve", "hami/ray"),
    "onnx": ("backends/tensorrt",),
    "psutil": ("hami/bench",),
    "pynvml": ("hami/bench",),
    "tokenizers": ("backends/llm",),
    "safetensors": ("backends/llm",),
    "jinja2": ("backends/llm",),
    "llguidance": ("backends/llm",),
    "matplotlib": ("hami/bench",),
    "transformers": (),
    "PIL": (),
    "skimage": (),
}


@dataclass(frozen=True)
class Import:
    """One import statement: the dotted name that it loads, and where it stands."""

    name: str
    path: Path
    line: int


def sources(root: Path, folder: str, suffixes: set[str]) -> Iterator[Path]:
    """Yield the files below `root/folder` with one of `suffixes`, in order of their names.

    What examples fetch into their folders `models` is not ours.
    """
    for path in sorted((root / folder).rglob("*")):
        is_foreign = not {"__pycache__", "models"}.isdisjoint(path.relative_to(root).parts[:-1])
        if path.is_file() and path.suffix in suffixes and not is_foreign:
            yield path


def num_lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


# --- C++ ---------------------------------------------------------------------------------------


def cpp_layer(root: Path, path: Path) -> str:
    """Return the folder of csrc/ that `path` belongs to, or `backends/<family>`."""
    parts = path.relative_to(root).parts
    return "/".join(parts[:2]) if parts[0] == "backends" else parts[1]


def find_header(root: Path, includer: Path, text: str) -> Path | None:
    """Return the file of this repository that `#include "text"` or `<hami/...>` means, if it is one."""
    for base in (includer.parent, *(root / name for name in ("csrc", "backends", "csrc/include", ""))):
        if (base / text).is_file():
            return (base / text).resolve()
    return None


def include_violations(root: Path) -> list[str]:
    """Return the includes between folders of C++ code that MAY_INCLUDE does not list."""
    root = root.resolve()
    found = []
    for folder in ("csrc", "backends"):
        for path in sources(root, folder, {".cc", ".h"}):
            layer = cpp_layer(root, path)
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = re.match(r'\s*#\s*include\s*(?:"([^"]+)"|<(hami/[^>]+)>)', line)
                if not match:
                    continue
                place = f"{path.relative_to(root)}:{number}"
                header = find_header(root, path, match[1] or match[2])
                if header is None:
                    found.append(f"{place}: `{match[1] or match[2]}` is no file of this repository")
                    continue
                target = cpp_layer(root, header)
                allowed = MAY_INCLUDE.get(layer.split("/")[0])
                if allowed is None:
                    found.append(f"{place}: `{layer}` is no known layer")
                elif target not in {layer, *allowed}:
                    found.append(f"{place}: `{layer}` includes `{target}`")
    return found


# Headers whose code lives in the locales of libstdc++. A process may hold two copies of it, that of a
# framework among them, and what one made crashes in the other.
LOCALE_HEADERS = {
    "fstream",
    "iomanip",
    "iostream",
    "istream",
    "locale",
    "ostream",
    "regex",
    "sstream",
    "streambuf",
}


def locale_violations(root: Path) -> list[str]:
    """Return the includes in C++ code of what depends on locales."""
    found = []
    for folder in ("csrc", "backends"):
        for path in sources(root, folder, {".cc", ".h"}):
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                match = re.match(r"\s*#\s*include\s*<(\w+)>", line)
                if match and match[1] in LOCALE_HEADERS:
                    found.append(f"{path.relative_to(root)}:{number}: <{match[1]}> needs locales")
    return found


# --- Python ------------------------------------------------------------------------------------


def module_name(root: Path, path: Path) -> str:
    """Return the dotted name under which `path` is installed: backends/x.py is hami.backends.x."""
    parts = path.relative_to(root).with_suffix("").parts
    if parts[0] == "backends":
        parts = ("hami", *parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(root: Path, path: Path) -> Iterator[Import]:
    """Yield the imports of `path` at any depth, relative ones resolved; `from a import b` gives a.b."""
    package = module_name(root, path).split(".")
    if path.stem != "__init__":
        package.pop()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, path, node.lineno)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            prefix = [*base, *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                yield Import(".".join([*prefix, alias.name]), path, node.lineno)


def is_module(root: Path, first: str) -> bool:
    return first in {"_core", "backends"} or any(
        (root / "hami" / name).exists() for name in (first, f"{first}.py", f"{first}.pyi")
    )


def import_violations(root: Path) -> list[str]:
    """Return the imports between modules of the package that MAY_IMPORT does not list."""
    found = []
    for folder in ("hami", "backends"):
        for path in sources(root, folder, {".py"}):
            own = module_name(root, path).split(".")[1:]
            if own[:1] == ["__main__"]:  # `python -m hami` is the command line
                own = ["cli"]
            if not own or own[0] in FRONT_MODULES:
                allowed = None
            else:
                allowed = MAY_IMPORT.get(own[0])
                if allowed is None:
                    found.append(f"{path.relative_to(root)}: `{own[0]}` is no known module: add its rule")
                    continue
            for imported in imports_of(root, path):
                found += import_violation(root, own, allowed, imported)
    return found


def import_violation(root: Path, own: list[str], allowed: set[str] | None, imported: Import) -> list[str]:
    package, *rest = imported.name.split(".")
    if package != "hami":
        return []
    place = f"{imported.path.relative_to(root)}:{imported.line}"
    target = rest[0] if rest and is_module(root, rest[0]) else ""
    me = own[0] if own else ""
    if me == "backends" and target == "backends":
        if len(own) > 1 and rest[1:2] != own[1:2]:
            return [f"{place}: family `{own[1]}` imports family `{'.'.join(rest[1:2])}`"]
        return []
    if target == me:
        return []
    if allowed is None:  # the package itself and its fronts
        is_front = target in FRONT_MODULES - MAY_IMPORT_FRONTS.get(me, set())
        return [f"{place}: `{me or 'hami'}` imports the front `{target}`"] if is_front else []
    if target not in allowed:
        return [f"{place}: `{me}` imports `{target or 'hami itself'}`"]
    return []


def core_violations(root: Path) -> list[str]:
    """Return the chains of imports by which a module of NEVER_THE_CORE reaches the compiled core."""
    graph: dict[str, set[str]] = {}
    for path in sources(root, "hami", {".py"}):
        own = module_name(root, path).split(".")[1:2]
        edges = graph.setdefault(own[0] if own else "", set())
        for imported in imports_of(root, path):
            package, *rest = imported.name.split(".")
            if package == "hami" and rest and is_module(root, rest[0]):
                edges.add(rest[0])
    found = []
    for start in NEVER_THE_CORE:
        chains, seen = [[start]], {start}
        while chains:
            chain = chains.pop(0)
            if chain[-1] == "_core":
                found.append(f"`{start}` reaches the compiled core: {' -> '.join(chain)}")
                continue
            for following in sorted(graph.get(chain[-1], set()) - seen):
                seen.add(following)
                chains.append([*chain, following])
    return found


def heavy_import_violations(root: Path) -> list[str]:
    """Return the imports of heavy packages outside the folders that need them."""
    found = []
    for folder in ("hami", "backends"):
        for path in sources(root, folder, {".py"}):
            place = path.relative_to(root).as_posix()
            for imported in imports_of(root, path):
                package = imported.name.split(".")[0]
                homes = HEAVY_PACKAGES.get(package)
                if homes is not None and not any(
                    place.startswith((f"{home}/", f"{home}.py")) for home in homes
                ):
                    found.append(f"{place}:{imported.line}: imports `{package}`")
    return found


# --- sizes and names ---------------------------------------------------------------------------


def size_violations(root: Path) -> list[str]:
    """Return the source files that are longer than MAX_LINES."""
    return [
        f"{path.relative_to(root)}: {lines} lines"
        for folder in SIZED_FOLDERS
        for path in sources(root, folder, SOURCE_SUFFIXES)
        if (lines := num_lines(path)) > MAX_LINES
    ]


def name_violations(root: Path) -> list[str]:
    """Return the files and folders whose name says nothing, or carries a version."""
    found = []
    for folder in SIZED_FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            words = path.stem.lower().split("_")
            if VAGUE_NAMES & set(words):
                found.append(f"{path.relative_to(root)}: name it after what it does")
            elif path.suffix in SOURCE_SUFFIXES and re.fullmatch(r"v\d+", words[-1]):
                found.append(f"{path.relative_to(root)}: a version in a name")
    return found


def total_lines(root: Path, folders: tuple[str, ...]) -> int:
    return sum(num_lines(path) for folder in folders for path in sources(root, folder, SOURCE_SUFFIXES))


def proportion_violations(root: Path) -> list[str]:
    """Return a sentence if the tests are shorter than the product."""
    product, tests = total_lines(root, ("csrc", "hami", "backends")), total_lines(root, ("tests",))
    return [f"{tests} lines of tests for {product} lines of product"] if tests < product else []
