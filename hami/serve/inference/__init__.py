"""The Open Inference Protocol, version 2, with binary tensors: what clients of KServe and Triton speak.

A model is the whole pipeline under the service's name, or a node under its own. The path of a tensor is
`reading` → `models` → the pipeline → `writing`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from importlib import metadata
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response

from ...errors import did_you_mean, quoted
from ..body import read_body
from ..direct import Begin, Call
from ..health import is_server_ready
from ..json_values import json_response
from ..raw_route import described, raw_router
from ..refusal import ServeError
from ..service import Service
from . import description
from .models import VERSION, Model, models_of
from .reading import read_infer_request
from .repeated import Repeated, answer_of
from .writing import HEADER_SIZE

_JSON = "application/json"
_BYTES = "application/octet-stream"
_MODEL_PATH = {"model": "the pipeline's name, or that of a node"}


def router(service: Service) -> APIRouter:
    """Return the routes below `/v2`."""
    routes = raw_router("Open Inference Protocol")
    models = models_of(service)
    hami_version = metadata.version("hami-core")

    def add(path: str, endpoint: Any, result: dict[str, Any], **more: Any) -> None:
        extra = described(result=result, **more)
        method = "POST" if "body" in more else "GET"
        routes.add_api_route(path, endpoint, methods=[method], openapi_extra=extra)

    async def live(request: Request) -> Response:
        """Tell that the server runs."""
        return json_response({"live": True})

    async def ready(request: Request) -> Response:
        """Tell whether requests are answered: 200, or 503."""
        is_ready = await is_server_ready(service)
        return json_response({"ready": is_ready}, 200 if is_ready else 503)

    async def server(request: Request) -> Response:
        """Tell name, version and extensions of the server."""
        return json_response({"name": "hami", "version": hami_version, "extensions": ["binary_tensor_data"]})

    async def model_metadata(request: Request) -> Response:
        """Tell which tensors a model takes and gives."""
        return json_response(_find(models, request).metadata())

    async def model_ready(request: Request) -> Response:
        """Tell whether a model answers: 200, or 503."""
        model = _find(models, request)
        is_ready = await is_server_ready(service)
        return json_response({"name": model.name, "ready": is_ready}, 200 if is_ready else 503)

    async def infer(request: Request) -> Response:
        """Run a model."""
        model = _find(models, request)
        body = await read_body(request, service.settings)
        asked = read_infer_request(body, request.headers.get(HEADER_SIZE))
        return answer_of(model, asked, await model.run(service, asked)).response()

    add("/v2", server, {_JSON: description.SERVER})
    add("/v2/health/live", live, {_JSON: description.LIVE})
    add("/v2/health/ready", ready, {_JSON: description.READY}, unready={_JSON: description.READY})
    for path, names in (
        ("/v2/models/{model}", _MODEL_PATH),
        ("/v2/models/{model}/versions/{version}", {**_MODEL_PATH, "version": f"`{VERSION}`, the only one"}),
    ):
        add(path, model_metadata, {_JSON: description.MODEL}, in_path=names)
        unready = {_JSON: description.MODEL_READY}
        add(f"{path}/ready", model_ready, {_JSON: description.MODEL_READY}, in_path=names, unready=unready)
        add(
            f"{path}/infer",
            infer,
            {_JSON: description.INFER_RESPONSE, _BYTES: description.BINARY},
            in_path=names,
            body={_JSON: description.INFER_REQUEST, _BYTES: description.BINARY},
        )
    return routes


def direct_calls(service: Service) -> dict[bytes, Call]:
    """Return the calls of the models by their targets."""
    calls = {}
    for name, model in models_of(service).items():
        for part in ("", f"/versions/{VERSION}"):
            path = f"/v2/models/{name}{part}/infer"
            if quote(path) == path:
                route = "/v2/models/{model}" + ("/versions/{version}" if part else "") + "/infer"
                calls[path.encode()] = Call(route, model.node, partial(_prepare, model))
    return calls


def _prepare(model: Model, headers: Mapping[bytes, bytes]) -> Begin:
    size = headers.get(HEADER_SIZE.lower().encode())
    return Repeated(model, None if size is None else size.decode("latin-1")).begin


def _find(models: dict[str, Model], request: Request) -> Model:
    """Return the model that the path names. Raises ServeError."""
    name = request.path_params["model"]
    version = request.path_params.get("version", VERSION)
    if name not in models:
        help = did_you_mean(name, models, otherwise=f"there are {quoted(models)}")
        raise ServeError(f"there is no model `{name}`", status=404, code="serve-unknown-model", help=help)
    if version != VERSION:
        help = f"leave the version out, or use {VERSION}"
        message = f"model `{name}` has no version `{version}`"
        raise ServeError(message, status=404, code="serve-unknown-model", help=help)
    return models[name]
