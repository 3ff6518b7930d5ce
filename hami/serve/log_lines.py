"""What a server process writes to its log on stderr; of each request one JSON object in a line."""

from __future__ import annotations

import logging
import os

import orjson

_access = logging.getLogger("hami.access")


def configure_logging(level: str, *, has_pid: bool = False) -> None:
    """Send the log of hami, of this level and worse, to stderr, and what uvicorn warns of.

    With `has_pid` every line names its process, as those of requests always do.
    """
    plain = logging.StreamHandler()
    process = " [%(process)d]" if has_pid else ""
    plain.setFormatter(logging.Formatter(f"%(asctime)s{process} %(levelname)s %(name)s: %(message)s"))
    bare = logging.StreamHandler()
    bare.setFormatter(logging.Formatter("%(message)s"))
    for name, handler in (("hami", plain), ("hami.access", bare), ("uvicorn.error", plain)):
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.addHandler(handler)
        logger.propagate = False
    # It tells at INFO of every start, which the line with the address does already.
    uvicorn_level = max(logging.getLogger("uvicorn.error").level, logging.WARNING)
    logging.getLogger("uvicorn.error").setLevel(uvicorn_level)


def log_request(method: str, path: str, status: int, num_bytes: int, seconds: float, id: bytes) -> None:
    """Write the line of one request; `path` is without percent signs."""
    if not _access.isEnabledFor(logging.INFO):
        return
    line = {
        "method": method,
        "path": path,
        "status": status,
        "bytes": num_bytes,
        "ms": round(seconds * 1000, 3),
        "request_id": id.decode(),
        "pid": os.getpid(),
    }
    _access.info("%s", orjson.dumps(line).decode())
