"""The kernels that TensorRT-RTX compiles for the card when an engine is first used, kept for the next start.

Full TensorRT compiles when it builds, and has no such cache. TensorRT checks by itself whether a kept cache
is of this card and driver, and begins anew where it is not.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

from .package import log
from .plan import write_atomically


class KernelCache:
    """The compiled kernels of one engine; its contexts add to it, from any thread."""

    def __init__(self, runtime_config: Any, path: Path) -> None:
        self.path = path
        self.runtime_config = runtime_config  # TensorRT keeps no reference to it
        self.cache = runtime_config.create_runtime_cache()
        self._lock = threading.Lock()
        self._kept = b""
        with contextlib.suppress(OSError):
            content = path.read_bytes()
            if self.cache.deserialize(content):
                self._kept = content
            else:
                log.info("the kernels in `%s` are of another card or driver, and are compiled anew", path)

    def save(self) -> None:
        """Write the cache, if kernels came in since the last time."""
        with self._lock:
            content = bytes(self.cache.serialize())
            if content == self._kept:
                return
            try:
                self.path.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self.path, content)
                self._kept = content
            except OSError as error:
                log.warning("compiled kernels cannot be kept for the next start: %s", error)
