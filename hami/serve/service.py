"""`Service`: one pipeline that is served, and what the server knows of itself.

Every router gets it. The pipeline may be called from any thread; everything else belongs to the event loop.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from .. import _core
from ..pipeline import Pipeline, pipe
from .log_lines import log_request
from .metrics import HttpCounts
from .settings import Settings

if TYPE_CHECKING:
    from .workers.peers import Peers


class Service:
    """A pipeline under a name, the settings of its server, and whether that one takes requests."""

    def __init__(self, pipe: Pipeline, name: str, settings: Settings | None = None) -> None:
        self.pipe = pipe
        self.name = name
        self.settings = settings or Settings()
        self.peers: Peers | None = None  # the other workers, where there are some
        self.is_draining = False
        self._num_running = 0
        self._is_idle = asyncio.Event()
        self.express = express = _core.ExpressDesk(_log_express, self._is_idle.set)
        self.http_counts = HttpCounts(lambda: express.num_running)

    @classmethod
    def open(cls, source: Any, settings: Settings | None = None) -> Service:
        """Build the pipeline of `source`, as `hami.pipe` takes it. Raises ConfigError and BuildError."""
        return cls(pipe(source), cls.name_of(source), settings)

    @staticmethod
    def name_of(source: Any) -> str:
        """Return the name of a source: that of the file without its ending, `pipeline` for an expression."""
        path = os.fspath(source) if isinstance(source, os.PathLike) else str(source)
        is_file = isinstance(source, os.PathLike) or path.endswith(".toml")
        return os.path.splitext(os.path.basename(path))[0] if is_file else "pipeline"

    def is_ready(self) -> bool:
        """Tell whether a request that came now would be answered."""
        return not self.problems()

    def problems(self) -> list[str]:
        """Return what is wrong now, in words; an empty list means healthy."""
        own = ["the server is shutting down"] if self.is_draining else []
        return own + self.pipe.problems()

    def drain(self) -> None:
        """Take no further requests; those that run go on."""
        self.is_draining = True
        self.express.drain()

    @property
    def num_running(self) -> int:
        """How many requests run now."""
        return self._num_running + self.express.num_running

    def begin(self) -> None:
        """Count a request as running, so that the end of the server waits for it."""
        self._num_running += 1

    def end(self) -> None:
        """Count it as done."""
        self._num_running -= 1
        if self._num_running == 0:
            self._is_idle.set()

    async def idle(self) -> None:
        """Wait until no request runs. REQUIRES: `drain` was called."""
        while self.num_running > 0:
            self._is_idle.clear()
            await self._is_idle.wait()


def _log_express(path: str, num_bytes: int, seconds: float, id: bytes) -> None:
    log_request("POST", path, 200, num_bytes, seconds, id)
