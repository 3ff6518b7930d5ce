"""`Model`: what the protocol calls a model: the whole pipeline, or one node of it.

It knows which tensors go in and come out, makes requests of the pipeline out of tensors, and tensors out of
its results. Without an engine at an end, `data` or `result` is there, of any kind.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from ...engine import TensorSpec
from ...errors import did_you_mean, quoted
from ..arrays import OF_DTYPE
from ..json_values import read_json
from ..refusal import ServeError
from ..service import Service
from .reading import InferRequest, Input
from .tensors import BYTES, bad_tensor

VERSION = "1"
# Keys of a request under other names.
_SEQUENCE_KEYS = {"sequence_id": "request_id", "sequence_end": "request_end"}
_OWN_PARAMETERS = {"timeout", "binary_data_output", "content_type", "sequence_start", *_SEQUENCE_KEYS}
_MAX_REQUESTS = 4096  # of one call
Specs = tuple[TensorSpec, ...] | None


@dataclass(frozen=True)
class Model:
    """A part of the pipeline under a name; `node` None: all of it. Specs None: anything."""

    name: str
    node: str | None
    inputs: Specs
    outputs: Specs

    def metadata(self) -> dict[str, Any]:
        """Return what the protocol tells of a model."""
        return {
            "name": self.name,
            "versions": [VERSION],
            "platform": "hami",
            "inputs": _described(self.inputs, "data"),
            "outputs": _described(self.outputs, "result"),
        }

    async def run(self, service: Service, infer: InferRequest) -> list[dict[str, Any]]:
        """Return the finished requests: one, or one for each element of BYTES. Raises what they fail with."""
        requests = self.requests(infer)
        calls = [service.pipe.acall(request, node=self.node) for request in requests]
        if len(calls) == 1:
            return [await calls[0]]
        tasks = [asyncio.ensure_future(call) for call in calls]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    def requests(self, infer: InferRequest) -> list[dict[str, Any]]:
        """Return the dicts that the pipeline gets. Raises ServeError."""
        common = _keys_of(infer.parameters)
        if self.inputs is not None:
            return [{**common, **_engine_keys(self.inputs, infer.inputs)}]
        whole: dict[str, Any] = {}
        columns: dict[str, list[Any]] = {}
        for name, tensor in infer.inputs.items():
            if tensor.datatype == BYTES:
                columns[name] = _elements(name, tensor, infer.parameters)
            else:
                whole[name] = tensor.value
        return [
            {**common, **whole, **{name: column[index % len(column)] for name, column in columns.items()}}
            for index in range(_num_requests(columns))
        ]

    def results(self, finished: list[dict[str, Any]], wanted: list[str]) -> dict[str, list[Any]]:
        """Return the values of the outputs by name, one for each finished request. Raises ServeError."""
        rows = [self._values(request) for request in finished]
        names = wanted or list(rows[0])
        return {
            name: [self._one(name, values, request) for values, request in zip(rows, finished, strict=True)]
            for name in names
        }

    def _values(self, request: dict[str, Any]) -> dict[str, Any]:
        result = request.get("result")
        if self.outputs is not None and len(self.outputs) == 1:
            return {self.outputs[0].name: result}
        if self.outputs is not None and isinstance(result, dict):
            return {spec.name: result[spec.name] for spec in self.outputs}
        return {"result": result}

    def _one(self, name: str, values: dict[str, Any], request: dict[str, Any]) -> Any:
        if name in values:
            return values[name]
        if name in request:
            return request[name]
        names = [*values, *(key for key in request if key not in ("data", "result"))]
        help = did_you_mean(name, names, otherwise=f"there are {quoted(names)}")
        raise ServeError(f"there is no output `{name}`", code="serve-unknown-output", help=help)


def models_of(service: Service) -> dict[str, Model]:
    """Return the models of a service by name; a node of the pipeline's name is behind the pipeline."""
    ports = service.pipe.ports()
    plan = service.pipe.plan
    models = {name: Model(name, name, _known(one.inputs), _known(one.outputs)) for name, one in ports.items()}
    roots = [plan.nodes[index] for index in plan.regions[0].roots]
    last = plan.nodes[plan.regions[0].output]
    # A node with a `map` takes keys of its own; one that may be passed by says nothing of the result.
    inputs = models[roots[0].name].inputs if len(roots) == 1 and roots[0].map is None else None
    outputs = None if last.is_or else models[last.name].outputs
    return {**models, service.name: Model(service.name, None, inputs, outputs)}


def _known(specs: Specs) -> Specs:
    """Return the specs if the protocol has names for all of their types."""
    return specs if specs is not None and all(spec.dtype in OF_DTYPE for spec in specs) else None


def _described(specs: Specs, otherwise: str) -> list[dict[str, Any]]:
    if specs is None:
        return [{"name": otherwise, "datatype": BYTES, "shape": [-1]}]
    return [
        {
            "name": spec.name,
            "datatype": OF_DTYPE[spec.dtype],
            "shape": [-1, *spec.shape[1:]] if spec.has_rows else list(spec.shape),
        }
        for spec in specs
    ]


def _keys_of(parameters: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a request that its parameters stand for."""
    keys = {name: value for name, value in parameters.items() if name not in _OWN_PARAMETERS}
    timeout = parameters.get("timeout")  # microseconds, 0 for none
    if timeout is not None:
        if isinstance(timeout, str) or timeout < 0:
            raise ServeError(
                "`timeout` is no number of microseconds", code="serve-infer-request", help="send one"
            )
        if timeout:
            keys["deadline_ms"] = timeout / 1000
    for name, key in _SEQUENCE_KEYS.items():
        if name in parameters:
            keys[key] = parameters[name]
    return keys


def _engine_keys(specs: tuple[TensorSpec, ...], inputs: dict[str, Input]) -> dict[str, Any]:
    """Return the keys for a model whose inputs are known. What is wrong with the arrays the engine says."""
    names = [spec.name for spec in specs]
    for name in inputs:
        if name not in names:
            help = did_you_mean(name, names, otherwise=f"there are {quoted(names)}")
            raise ServeError(f"there is no input `{name}`", code="serve-unknown-input", help=help)
    for name in names:
        if name not in inputs:
            raise bad_tensor(name, "is missing", f"send one for each of {quoted(names)}")
    arrays = {name: inputs[name].value for name in names}
    keys = {"data": arrays if len(names) > 1 else arrays[names[0]]}
    for spec in specs:
        shape: tuple[int, ...] = getattr(arrays[spec.name], "shape", ())
        if spec.has_rows and len(shape) == len(spec.shape):
            return {**keys, "request_size": max(shape[0], 1)}
    return keys


def _num_requests(columns: dict[str, list[Any]]) -> int:
    """Return how many requests the elements of BYTES make: a lone one goes to all. Raises ServeError."""
    counts = {len(column) for column in columns.values()} - {1}
    if len(counts) > 1:
        message = f"inputs of BYTES have different numbers of elements: {sorted(counts)}"
        raise ServeError(message, code="serve-tensor", help="send as many of each, or one")
    num_requests = counts.pop() if counts else 1
    if num_requests > _MAX_REQUESTS:
        message = f"{num_requests} elements of BYTES would be as many requests, above {_MAX_REQUESTS}"
        raise ServeError(message, code="serve-tensor", help="send fewer at a time")
    return num_requests


def _elements(name: str, tensor: Input, parameters: dict[str, Any]) -> list[Any]:
    """Return the elements of a tensor of BYTES, as what its `content_type` says."""
    kind = tensor.parameters.get("content_type", parameters.get("content_type", "application/octet-stream"))
    elements: list[Any] = tensor.value
    if not elements:
        raise bad_tensor(name, "has no elements", "leave the call out when there is nothing to compute")
    if kind == "application/octet-stream":
        return elements
    if kind == "application/json":
        return [read_json(element, f"an element of `{name}`") for element in elements]
    if kind == "text/plain":
        try:
            return [element.decode() for element in elements]
        except UnicodeDecodeError:
            raise bad_tensor(
                name, "has an element that is no UTF-8", "send text, or no `content_type`"
            ) from None
    what = f"has the `content_type` `{kind}`, which the server does not read"
    raise bad_tensor(name, what, "use application/octet-stream, application/json or text/plain")
