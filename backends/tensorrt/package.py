"""Which TensorRT is used, and where its log lines go.

`tensorrt`, `tensorrt_rtx` and `tensorrt_lean` have one Python interface; the first that is installed serves,
and nothing is imported before a model is loaded. TensorRT knows one logger per process, so there is one for
each package. Any thread may call.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hami.errors import BuildError, quoted

PACKAGES = ("tensorrt", "tensorrt_rtx", "tensorrt_lean")
VARIABLE = "HAMI_TENSORRT"
INSTALL = "pip install hami-core[tensorrt]"

log = logging.getLogger("hami.tensorrt")

_LEVELS = {
    "INTERNAL_ERROR": logging.ERROR,
    "ERROR": logging.ERROR,
    "WARNING": logging.WARNING,
    "INFO": logging.DEBUG,
    "VERBOSE": logging.DEBUG - 5,
}

_lock = threading.Lock()
_packages: dict[str, Package] = {}


class Collector:
    """The lines in which TensorRT said why something failed, first one first."""

    def __init__(self) -> None:
        self.errors: list[str] = []
        self.warnings: list[str] = []

    @property
    def reason(self) -> str:
        """The first error, or where TensorRT only warned the first warning, as one line."""
        lines = self.errors or self.warnings
        return " ".join(lines[0].split()) if lines else "TensorRT gave no reason"


@dataclass
class Package:
    """One installed TensorRT: its module, and the logger that all its objects share."""

    name: str
    module: Any = field(repr=False)
    logger: Any = field(repr=False, default=None)
    collectors: list[Collector] = field(default_factory=list, repr=False)

    def __post_init__(self) -> None:
        self.logger = _make_logger(self)

    @property
    def version(self) -> str:
        """The version of the package, such as `10.9.0.34`."""
        return str(self.module.__version__)

    @property
    def can_build(self) -> bool:
        """Whether it has a builder: the lean one only runs what others have built."""
        return hasattr(self.module, "Builder")

    @contextlib.contextmanager
    def collect(self) -> Iterator[Collector]:
        """Collect what TensorRT says while the block runs, in whichever of its threads."""
        collector = Collector()
        self.collectors.append(collector)
        try:
            yield collector
        finally:
            self.collectors.remove(collector)


def _make_logger(package: Package) -> Any:
    """Return an object that TensorRT logs to: it forwards to `logging` and feeds the collectors."""
    base: Any = package.module.ILogger

    class Bridge(base):  # type: ignore[misc]  # the base is known at run time only
        def __init__(self) -> None:
            base.__init__(self)

        def log(self, severity: Any, message: str) -> None:
            level = _LEVELS.get(severity.name, logging.ERROR)
            if level >= logging.WARNING:
                for collector in list(package.collectors):
                    lines = collector.errors if level >= logging.ERROR else collector.warnings
                    lines.append(message)
            log.log(level, "%s: %s", package.name, message)

    return Bridge()


def _import(name: str) -> Any:
    """Import a package; where it was installed as wheels alone, its bindings stand for it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name not in (name, None):
            raise
        try:
            return importlib.import_module(f"{name}_bindings")
        except ModuleNotFoundError:
            raise error from None


def find_package(wanted: str | None = None) -> Package:
    """Return the TensorRT to use: `wanted`, else that of the environment, else the first installed one.

    Raises BuildError naming what to install.
    """
    name = wanted or os.environ.get(VARIABLE, "")
    if name and name not in PACKAGES:
        raise BuildError(
            f"`{name}` in `{VARIABLE}` is no TensorRT package",
            code="tensorrt-missing",
            help=f"use one of {quoted(PACKAGES)}",
        )
    failures = []
    with _lock:
        for candidate in [name] if name else PACKAGES:
            known = _packages.get(candidate)
            if known is not None:
                return known
            try:
                module = _import(candidate)
            except (ImportError, OSError) as error:  # OSError: a shared library is missing or damaged
                failures.append(f"`{candidate}`: {error}")
                continue
            return _packages.setdefault(candidate, Package(candidate, module))
    raise BuildError(
        f"TensorRT cannot be loaded: {'; '.join(failures)}", code="tensorrt-missing", help=INSTALL
    )
