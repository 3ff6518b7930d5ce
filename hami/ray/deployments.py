"""The classes of the deployments: what runs in a replica, a process that Ray starts.

Each replica builds its pipeline from a Recipe. Ray calls `check_health` every few seconds and `__del__` at
the end, once the requests inside are answered; everything else is for clients and for other deployments.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from ray import serve
from ray.serve.handle import DeploymentHandle

from ..config import Config
from ..errors import Error
from ..pipeline import Pipeline
from ..plan import Plan, plan
from ..serve import Service, Settings, create_app
from .metrics import RayMetrics
from .recipe import Recipe
from .split import Part, SplitPipeline, parts_of, rest_of
from .transport import to_wire, writable

_CLOSE_S = 10.0
_MISSING: Any = object()


class _Replica:
    """One pipeline as Ray calls it."""

    _service: Service

    def _start(self, pipe: Pipeline, name: str, settings: Settings) -> None:
        self._service = Service(pipe, name, settings)
        self._metrics = RayMetrics(self._service)

    async def infer(self, request: dict[str, Any], node: str | None = None) -> Any:
        """Run one request; return what the nodes wrote, `result` above all.

        `node`: the one node that runs, whichever stand before and behind it. Raises what the pipeline does.
        """
        before = writable(request)
        finished = await self._service.pipe.acall(dict(before), node=node)
        return to_wire(_changes(before, finished))

    async def stream(self, request: dict[str, Any], node: str | None = None) -> AsyncGenerator[Any]:
        """Run one request and yield its partial results, or its one result if it does not stream."""
        async with contextlib.aclosing(self._service.pipe.astream(writable(request), node=node)) as parts:
            async for part in parts:
                yield to_wire(part)

    async def stream_all(self, request: dict[str, Any]) -> AsyncGenerator[Any]:
        """Yield (partial result, None), and at the end (None, what the nodes wrote)."""
        before = writable(request)
        running = dict(before)
        # A first part that is the result may be all that a pipeline without partial results gives, and is
        # among the keys anyway; it waits for the next one, which is there already if there is one.
        held: list[Any] = []
        is_first = True
        async with contextlib.aclosing(self._service.pipe.astream(running)) as parts:
            async for part in parts:
                if is_first and part is running.get("result", _MISSING):
                    held.append(part)
                else:
                    for each in (*held, part):
                        yield to_wire(each), None
                    held.clear()
                is_first = False
        yield None, to_wire(_changes(before, running))

    async def stats(self) -> list[dict[str, Any]]:
        """Return the figures of the nodes in this replica; see `Pipeline.stats`."""
        return self._service.pipe.stats()

    async def ports(self) -> dict[str, Any]:
        """Return what each node takes and gives; see `Pipeline.ports`."""
        return self._service.pipe.ports()

    async def check_health(self) -> None:
        """Report the figures to Ray's metrics; raise if something is wrong: Ray then starts a new replica."""
        self._metrics.report()
        problems = self._service.problems()
        if problems:
            message = "; ".join(problems)
            raise Error(
                message, code="ray-unhealthy", where=self._service.name, help="Ray replaces the replica"
            )

    def __del__(self) -> None:
        if hasattr(self, "_service"):
            self._service.pipe.close(_CLOSE_S)


@serve.ingress()
class PipelineDeployment(_Replica):
    """The pipeline behind HTTP, with the paths of `hami serve`."""

    def __init__(
        self, recipe: Recipe, name: str, settings: Settings, handles: Mapping[str, DeploymentHandle[Any]]
    ) -> None:
        self._made_of = recipe, name, settings, handles

    async def __serve_build_asgi_app__(self) -> FastAPI:
        """Build the pipeline and what answers for it on HTTP; Ray calls it once, behind the constructor."""
        recipe, name, settings, handles = self._made_of
        config = recipe.load()
        checked = plan(config)
        parts = parts_of(config, checked)
        pipe = Pipeline(checked) if not parts else await _split(config, checked, parts, handles)
        self._start(pipe, name, settings)
        return create_app(self._service)


async def _split(
    config: Config, checked: Plan, parts: Sequence[Part], handles: Mapping[str, DeploymentHandle[Any]]
) -> Pipeline:
    """Return the pipeline that calls the deployments of the parts.

    They are asked first what they take: without them the pipeline could not answer anyway.
    """
    ports = {part.name: (await handles[part.name].ports.remote())[part.name] for part in parts}
    return SplitPipeline(plan(rest_of(config, parts, handles)), checked, ports)


class NodeDeployment(_Replica):
    """One node of a pipeline; only the pipeline's own deployment calls it, and whoever has its handle."""

    def __init__(self, recipe: Recipe, name: str) -> None:
        self._start(Pipeline(plan(recipe.load())), name, Settings())


def _changes(before: Mapping[str, Any], finished: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in finished.items() if before.get(key, _MISSING) is not value}
