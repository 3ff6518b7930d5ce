"""`create_app`: the web application around one service. Each feature is a module with a `router(service)`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import metadata

from fastapi import APIRouter, FastAPI

from . import errors, inference, metrics, openai, rest, ui
from .access import AccessLog, Bearer
from .direct import Call
from .limits import Limits
from .service import Service

# One line for each feature.
_ROUTERS: tuple[Callable[[Service], APIRouter], ...] = (
    inference.router,
    rest.router,
    openai.router,
    metrics.router,
    ui.router,
)


def direct_calls(service: Service) -> dict[bytes, Call]:
    """Return the calls that a server may make without the application, by the target of their request."""
    return {**rest.direct_calls(service), **inference.direct_calls(service)}


def create_app(service: Service) -> FastAPI:
    """Return the application that answers for `service`. It may run on one event loop at a time."""
    app = FastAPI(
        title=f"hami: {service.name}", version=metadata.version("hami-core"), redirect_slashes=False
    )
    for router in _ROUTERS:
        app.include_router(router(service))
    errors.add_handlers(app, service.settings)
    # The last one is the outermost.
    app.add_middleware(Limits, service=service)
    if service.settings.token is not None:
        app.add_middleware(Bearer, service=service, token=service.settings.token)
    app.add_middleware(metrics.HttpMetrics, counts=service.http_counts)
    app.add_middleware(AccessLog)
    return app
