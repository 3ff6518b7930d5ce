"""Which models a service has: the `LLM` nodes of its pipeline, by the names that clients use."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from hami.backends.llm.sampling import SamplingParams  # type: ignore[import-untyped]
from hami.errors import did_you_mean, quoted
from hami.pipeline import Pipeline
from hami.plan import Plan, PlannedBackend

from .errors import ApiError

BACKEND = "LLM"


class Service(Protocol):
    """What this API uses of a service."""

    @property
    def pipe(self) -> Pipeline:
        """The running pipeline."""

    @property
    def name(self) -> str:
        """What the pipeline is called."""


@dataclass(frozen=True)
class Model:
    """One model: the node that runs it, where requests enter, and the node's own sampling parameters."""

    id: str
    node: str
    entry: str | None
    sampling: Mapping[str, Any]


class Models:
    """The models of a service, found once."""

    def __init__(self, service: Service) -> None:
        self._created = int(time.time())
        found = list(_models_of(service.pipe.plan))
        if len(found) == 1 and service.name and service.name != found[0].id:
            found.append(replace(found[0], id=service.name))
        self._by_id = {model.id: model for model in found}

    def find(self, id: str) -> Model:
        """Return a model. Raises ApiError 404 with `model_not_found`."""
        if id not in self._by_id:
            help = did_you_mean(id, self._by_id, otherwise=f"there are {quoted(self._by_id) or 'none'}")
            message = f"The model `{id}` does not exist: {help}"
            raise ApiError(message, status=404, param="model", code="model_not_found")
        return self._by_id[id]

    def described(self, id: str) -> dict[str, Any]:
        """Return what the API tells of a model. Raises ApiError."""
        model = self.find(id)
        return {
            "id": model.id,
            "object": "model",
            "created": self._created,
            "owned_by": "hami",
            "root": model.node,
        }

    def listed(self) -> dict[str, Any]:
        """Return all models."""
        return {"object": "list", "data": [self.described(id) for id in self._by_id]}


def _models_of(plan: Plan) -> Iterator[Model]:
    for number, node in enumerate(plan.nodes):
        backend = _find_backend(node.backend, *node.elsewhere)
        if backend is not None and node.region == 0:
            name = node.name.partition("#")[0]  # a stage of an expression goes by the node that was written
            sampling = SamplingParams.by_name(backend.params.get("sampling"))
            yield Model(name, name, _entry(plan, number), sampling)


def _find_backend(*backends: PlannedBackend) -> PlannedBackend | None:
    for backend in backends:
        found = backend if backend.name == BACKEND else _find_backend(*backend.children)
        if found is not None:
            return found
    return None


def _entry(plan: Plan, node: int) -> str | None:
    """Return where a request must enter to come by `node`; None where the pipeline leaves no choice."""
    roots = plan.regions[0].roots
    if len(roots) == 1 or plan.fanout is not None:
        return None
    return next(plan.nodes[root].name for root in roots if node in _behind(plan, root))


def _behind(plan: Plan, start: int) -> set[int]:
    found, waiting = {start}, [start]
    while waiting:
        new = set(plan.nodes[waiting.pop()].next) - found
        found |= new
        waiting += new
    return found
