"""What the monitoring of a server needs to know about what it serves."""

from __future__ import annotations

from typing import Any, Protocol

from ..pipeline import Pipeline


class Watched(Protocol):
    """A pipeline with a name; it may be another one tomorrow, so nobody keeps it."""

    @property
    def pipe(self) -> Pipeline:
        """The pipeline that answers now."""

    @property
    def name(self) -> str:
        """How the pipeline is called among people."""

    @property
    def settings(self) -> Any:
        """The choices of the server; `show_errors`: whether clients see what backends raise."""
