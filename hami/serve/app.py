"""`create_app`: the web application around one service. Each feature is a module with a `router(service)`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

from fastapi import APIRouter, FastAPI

from . import errors
from .service import Service

# One line for each feature.
_ROUTERS: tuple[Callable[[Service], APIRouter], ...] = ()


def create_app(service: Service) -> FastAPI:
    """Return the application that answers for `service`. It may run on one event loop at a time."""
    app = FastAPI(title=f"hami: {service.name}", version=metadata.version("hami-core"))
    for router in _ROUTERS:
        app.include_router(router(service))
    errors.add_handlers(app, service.settings)
    return app
