"""A pipeline on HTTP: `hami serve pipeline.toml`, or `create_app(Service.open("pipeline.toml"))`.

Needs the extra `serve`. Nothing else of hami imports this package, but the command line when it is asked to.
"""

from .app import create_app
from .refusal import ServeError
from .service import Service
from .settings import Settings

__all__ = ["ServeError", "Service", "Settings", "create_app"]
