"""Beyond one machine: the same TOML as an application of Ray Serve.

`app` makes the application, `build` is its builder for Ray's own files and commands. Needs the extra `ray`.
Ray does everything that is distributed; hami runs inside each replica as in any other process.
"""

from __future__ import annotations

from ..errors import ConfigError

try:
    import ray.serve  # noqa: F401  the real one: imports are absolute

    from .application import app, build
except ImportError as error:
    raise ConfigError(
        f"Ray Serve, or what hami needs beside it, cannot be loaded: {error}",
        code="ray-missing-package",
        help="pip install hami-core[ray]",
    ) from error

__all__ = ["app", "build"]
