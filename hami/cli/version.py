"""`hami --version`: the version, and what a report of a fault should name."""

from __future__ import annotations

import platform
from collections.abc import Iterator
from importlib import metadata


def facts() -> Iterator[str]:
    """Yield the lines: the package first, then how its core was built, the interpreter and the machine."""
    try:
        yield f"hami {metadata.version('hami-core')}"
    except metadata.PackageNotFoundError:
        yield "hami, from a source tree that is not installed"
    try:
        from .. import _core
    except ImportError as error:
        yield f"core: cannot be loaded: {error}"
    else:
        built = _core.build_facts()
        yield "core: " + ", ".join(
            [built.pop("version"), *(f"{name} {text}" for name, text in built.items())]
        )
        yield f"kernels: {_core.cpu_isas()[-1]}"
    yield f"python: {platform.python_implementation()} {platform.python_version()}"
    yield f"system: {platform.system()} {platform.machine()}, {' '.join(platform.libc_ver())}"
