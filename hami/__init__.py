"""hami: a runtime for inference pipelines.

Write a bracket expression or a TOML file, and call `hami.pipe(config)({"data": x})["result"]`, from many
threads.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .backend import Backend, load_family, param, register
from .conditions import condition
from .errors import (
    BuildError,
    Cancelled,
    Closed,
    ConfigError,
    DeadlineExceeded,
    Error,
    QueueFull,
    RequestError,
    WorkerError,
)
from .parser import Expr, alias, parse
from .scheduler import Scheduler

if TYPE_CHECKING:
    from .engine import Engine, TensorSpec
    from .event import Dict, Event
    from .pipeline import Pipeline, pipe
    from .plugins import get_cmake_dir, get_include, load
    from .sources import source

__all__ = [
    "Backend",
    "BuildError",
    "Cancelled",
    "Closed",
    "ConfigError",
    "DeadlineExceeded",
    "Dict",
    "Engine",
    "Error",
    "Event",
    "Expr",
    "Pipeline",
    "QueueFull",
    "RequestError",
    "Scheduler",
    "TensorSpec",
    "WorkerError",
    "alias",
    "condition",
    "get_cmake_dir",
    "get_include",
    "load",
    "param",
    "parse",
    "pipe",
    "register",
    "source",
]

# The compiled core is loaded with the first pipeline, so that checking a file needs none of it; the others
# with their first use.
_HOMES = {
    "AsyncLLM": ".backends.llm.async_llm",
    "Dict": ".event",
    "Engine": ".engine",
    "Event": ".event",
    "LLM": ".backends.llm.llm",
    "Pipeline": ".pipeline",
    "SamplingParams": ".backends.llm.sampling",
    "TensorSpec": ".engine",
    "ThroughputBenchmark": ".bench",
    "get_cmake_dir": ".plugins",
    "get_include": ".plugins",
    "load": ".plugins",
    "pipe": ".pipeline",
    "source": ".sources",
}


# What needs an extra: its absence is an error that names it.
_FAMILIES = {"AsyncLLM": "llm", "LLM": "llm"}

# Modules that need an extra, and so are no part of the package until somebody asks for them.
_MODULES = ("ray",)


def __getattr__(name: str) -> Any:
    if name in _FAMILIES:
        load_family(_FAMILIES[name])
    if name in _HOMES:
        return getattr(import_module(_HOMES[name], __name__), name)
    if name in _MODULES:
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module `hami` has no attribute `{name}`")
