"""`POST /v1/pipeline` and `/v1/nodes/{node}`: one request as JSON, as a form, or as the bytes of a file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request, Response
from starlette.datastructures import UploadFile

from .. import _core
from ..errors import did_you_mean, quoted
from .answer import BYTES, JSON, Answer
from .body import read_body
from .direct import Begin, Begun, Call, headers_of
from .express import Known
from .json_values import read_json, write_json
from .raw_route import described, raw_router
from .refusal import ServeError
from .service import Service

_FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")
# A browser must not take bytes that somebody sent for a page.
_NO_PAGE = (("X-Content-Type-Options", "nosniff"),)
_BYTES = {"type": "string", "format": "binary"}
_BODY = {
    "application/json": {
        "type": "object",
        "description": "the keys of the request: `data`, and what else nodes read",
    },
    "multipart/form-data": {
        "type": "object",
        "description": "files become bytes, fields text; the names are keys",
    },
    "*/*": {**_BYTES, "description": "any other content is `data`, as bytes"},
}
_RESULT = {
    "application/json": {"description": "the value of `output`, arrays as lists"},
    "application/octet-stream": {**_BYTES, "description": "the value of `output` if it is bytes"},
}
_QUERY = {
    "output": "the key of the finished request that is the answer; `result` by default",
    "priority": "higher ones run first where the node's scheduler says so",
    "deadline_ms": "after how many milliseconds nobody wants the answer",
}


def router(service: Service) -> APIRouter:
    """Return the routes below `/v1` that take one request."""
    routes = raw_router("Requests")
    nodes = [node.name for node in service.pipe.plan.nodes]

    async def run_pipeline(request: Request) -> Response:
        """Run the whole pipeline."""
        return await _run(service, request, None)

    async def run_node(request: Request) -> Response:
        """Run one node, whichever stand before and behind it."""
        node = request.path_params["node"]
        if node not in nodes:
            help = did_you_mean(node, nodes, otherwise=f"there are {quoted(nodes)}")
            raise ServeError(f"there is no node `{node}`", status=404, code="serve-unknown-node", help=help)
        return await _run(service, request, node)

    extra = described(in_query=_QUERY, body=_BODY, result=_RESULT)
    routes.add_api_route("/v1/pipeline", run_pipeline, methods=["POST"], openapi_extra=extra)
    extra = described(in_path={"node": "the name of a node"}, in_query=_QUERY, body=_BODY, result=_RESULT)
    routes.add_api_route("/v1/nodes/{node}", run_node, methods=["POST"], openapi_extra=extra)
    return routes


def direct_calls(service: Service) -> dict[bytes, Call]:
    """Return the calls of these routes by their targets."""

    def prepare(headers: Mapping[bytes, bytes]) -> Begin | None:
        kind = kind_of(headers.get(b"content-type", b"").decode("latin-1"))
        return None if kind in _FORMS else partial(_begin, kind)

    nodes = {node.name: f"/v1/nodes/{node.name}" for node in service.pipe.plan.nodes}
    calls = {
        path: Call("/v1/nodes/{node}", name, prepare) for name, path in nodes.items() if quote(path) == path
    }
    return {
        path.encode(): call
        for path, call in {**calls, "/v1/pipeline": Call("/v1/pipeline", None, prepare)}.items()
    }


def _begin(kind: str, body: bytes) -> Begun:
    """Return what to do with a body that comes the direct way. Raises ServeError."""
    return Begun(read_keys(kind, body), answer_of, _learn if _is_data(kind) else None)


def _learn(finished: dict[str, Any]) -> Known | None:
    """Return what is known of requests with bytes, once one has been answered with bytes."""
    return _BYTES_KNOWN if isinstance(finished.get("result"), bytes) else None


async def _run(service: Service, request: Request, node: str | None) -> Response:
    kind = kind_of(request.headers.get("content-type", ""))
    keys = (
        await _read_form(request)
        if kind in _FORMS
        else read_keys(kind, await read_body(request, service.settings))
    )
    finished = await service.pipe.acall({**keys, **_read_query(request)}, node=node)
    return answer_of(finished, request.query_params.get("output", "result")).response()


def _is_data(kind: str) -> bool:
    return kind != JSON and not kind.endswith("+json")


def _keys_of(body: bytes) -> dict[str, Any]:
    return {"data": body}


def kind_of(content_type: str) -> str:
    """Return the content type without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def read_keys(kind: str, body: bytes) -> dict[str, Any]:
    """Return the keys that a body stands for, unless it is a form. Raises ServeError."""
    if _is_data(kind):
        return _keys_of(body)
    keys = read_json(body)
    if isinstance(keys, dict):
        return keys
    help = 'send `{"data": ...}`'
    raise ServeError("the body is no JSON object", code="serve-json", help=help)


def answer_of(finished: dict[str, Any], output: str = "result") -> Answer:
    """Return the value under `output` of a finished request. Raises ServeError."""
    if output not in finished:
        help = did_you_mean(output, finished, otherwise=f"there are {quoted(finished)}")
        raise ServeError(f"the request has no key `{output}`", code="serve-unknown-output", help=help)
    value = finished[output]
    if isinstance(value, (bytes, bytearray, memoryview)):
        return Answer(bytes(value), BYTES, _NO_PAGE)
    return Answer(write_json(value), JSON)


async def _read_form(request: Request) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    async with request.form() as form:
        for name in form:
            values = [
                await value.read() if isinstance(value, UploadFile) else value for value in form.getlist(name)
            ]
            keys[name] = values[0] if len(values) == 1 else values
    return keys


def _read_query(request: Request) -> dict[str, Any]:
    keys: dict[str, Any] = {}
    for name, kind in (("priority", int), ("deadline_ms", float)):
        text = request.query_params.get(name)
        if text is None:
            continue
        try:
            keys[name] = kind(text)
        except ValueError:
            message = f"`{name}` is `{text[:40]}`, which is no number"
            raise ServeError(message, code="serve-query", help="send a number") from None
    return keys


_BYTES_KNOWN = Known(
    keys=_keys_of(b""),
    keys_of=_keys_of,
    reply=_core.ReplyForm(headers_of(BYTES, _NO_PAGE)),
    end=answer_of,
    learn=_learn,
)
