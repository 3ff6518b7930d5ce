"""Some nodes as deployments of their own: of one configuration one for each of them, and one for the rest.

In the rest such a node is a `RayDeployment`, which hands requests on. The graph, with maps, branches and
joins, stays in the rest; a node that directs the graph has to stay there as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..config import Config, NodeConfig, Setting
from ..errors import ConfigError
from ..pipeline import Pipeline
from ..plan import Plan, PlannedBackend, plan
from .elsewhere import BACKEND, register_backend

_OF_THE_GRAPH = ("next", "map", "or")
_KEPT = (*_OF_THE_GRAPH, "queue_capacity")
_DIRECTORS = ("Restart",)


@dataclass(frozen=True)
class Part:
    """One node that is deployed: its name, the options of its deployment, and it alone as a pipeline."""

    name: str
    options: Mapping[str, Any]
    config: Config
    plan: Plan


def parts_of(config: Config, checked: Plan) -> list[Part]:
    """Return the nodes that have deployments of their own. Raises ConfigError for one that cannot."""
    by_name = _segments_by_name(checked)
    parts = []
    for node in config.nodes:
        segments = by_name[node.name]
        options = segments[0].deployment
        if options is None:
            continue
        _refuse_director(config, node, checked)
        alone = _alone(config, node)
        try:
            parts.append(Part(node.name, options, alone, plan(alone)))
        except ConfigError as error:
            message = f"node `{node.name}` cannot be deployed alone: {error.message}"
            raise _error(node, message, f"remove its `ray`, or: {error.help}") from error
    return parts


def rest_of(config: Config, parts: Sequence[Part], handles: Mapping[str, Any] | None = None) -> Config:
    """Return the configuration in which the parts are `RayDeployment`s, which call `handles`, by name."""
    register_backend()
    deployed = {part.name for part in parts}
    nodes = tuple(
        _handing_on(node, (handles or {}).get(node.name)) if node.name in deployed else node
        for node in config.nodes
    )
    # Whether some node knows each of the shared keys was checked before, when all nodes were there.
    shared = {key: setting for key, setting in config.shared.items() if key == "queue_capacity"}
    return replace(config, nodes=nodes, shared=shared)


class SplitPipeline(Pipeline):
    """A pipeline some nodes of which run elsewhere; `ports` are what those nodes say of themselves."""

    def __init__(self, rest: Plan, whole: Plan, ports: Mapping[str, Any]) -> None:
        by_name = _segments_by_name(whole)
        nodes = tuple(
            replace(node, elsewhere=tuple(segment.backend for segment in by_name[node.name]))
            if node.backend.name == BACKEND
            else node
            for node in rest.nodes
        )
        super().__init__(replace(rest, nodes=nodes))
        self._ports_elsewhere = dict(ports)

    def ports(self) -> dict[str, Any]:
        """Return what each node takes and gives, wherever it runs."""
        return {**super().ports(), **self._ports_elsewhere}


def _segments_by_name(checked: Plan) -> dict[str, list[Any]]:
    """Return the plan's nodes by the name of the node that was written."""
    found: dict[str, list[Any]] = {}
    for node in checked.nodes:
        found.setdefault(node.name.partition("#")[0], []).append(node)
    return found


def _alone(config: Config, node: NodeConfig) -> Config:
    left_out = (*_OF_THE_GRAPH, "ray")
    own = {key: setting for key, setting in node.settings.items() if key not in left_out}
    inherited = {key: setting for key, setting in node.inherited.items() if key not in left_out}
    settings = {key: setting for key, setting in config.settings.items() if key == "imports"}
    return replace(
        config, nodes=(replace(node, settings=own, inherited=inherited),), settings=settings, shared={}
    )


def _handing_on(node: NodeConfig, handle: Any) -> NodeConfig:
    settings = {key: setting for key in _KEPT if (setting := node.find(key)) is not None}
    settings["backend"] = Setting(BACKEND, node.where)
    settings["handle"] = Setting(handle, node.where)
    return replace(node, settings=settings, inherited={})


def _refuse_director(config: Config, node: NodeConfig, checked: Plan) -> None:
    """Refuse a node whose expression leads requests to other nodes."""
    for segment in _segments_by_name(checked)[node.name]:
        if segment.target is not None:
            entered = checked.nodes[segment.target].name
            message = f"node `{node.name}` enters node `{entered}`, so it cannot be a deployment of its own"
            raise _error(node, message, f"remove its `ray`; `{entered}` may have one")
        if any(part.name in _DIRECTORS for part in _walk(segment.backend)):
            message = f"node `{node.name}` sends requests back, so it cannot be a deployment of its own"
            raise _error(node, message, "remove its `ray`, or make `Restart` a node of its own")


def _walk(backend: PlannedBackend) -> list[PlannedBackend]:
    return [backend, *(found for child in backend.children for found in _walk(child))]


def _error(node: NodeConfig, message: str, help: str) -> ConfigError:
    setting = node.settings["ray"]
    return setting.error("ray-node", message, help, at_value=False)
