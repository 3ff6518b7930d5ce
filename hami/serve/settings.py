"""What whoever starts a server can choose."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The choices of one server.

    `timeout_s`: how long a client may take to send a request, the pipeline to begin its answer, and a stream
    to go on. `drain_s`: how long running requests may take to end once the server was told to. `token`: what
    clients must bring (`Authorization: Bearer ...`); None admits everybody. `show_errors`: whether a client
    sees the type and message of what a backend raised. `max_connections`: how many are open at a time;
    further ones wait. `workers`: how many processes share the port and the connections, each with its own
    pipeline.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    certificate: Path | None = None
    key: Path | None = None
    token: str | None = field(default=None, repr=False)
    max_body_bytes: int = 64 << 20
    max_header_bytes: int = 32 << 10
    timeout_s: float = 60.0
    drain_s: float = 30.0
    max_connections: int = 1000
    workers: int = 1
    show_errors: bool = False
