"""What the monitoring of a server needs to know about what it serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from ..pipeline import Pipeline

if TYPE_CHECKING:
    from .metrics.http import HttpCounts
    from .workers.peers import Peers


class Watched(Protocol):
    """A pipeline with a name; it may be another one tomorrow, so nobody keeps it."""

    @property
    def pipe(self) -> Pipeline:
        """The pipeline that answers now."""

    peers: Peers | None
    """The other workers of the server, where there are some."""

    @property
    def http_counts(self) -> HttpCounts | None:
        """The counts of the server's requests, where it counts."""

    @property
    def name(self) -> str:
        """How the pipeline is called among people."""

    @property
    def settings(self) -> Any:
        """The choices of the server; `show_errors`: whether clients see what backends raise."""
