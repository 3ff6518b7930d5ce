"""What is checked before anything runs: configuration -> Plan.

`plan` is what hami.pipe, `hami check` and `hami show` call. A Plan is immutable plain data; `to_core` hands
it to the compiled core, which trusts it: every name, parameter and edge in it is right, or there is a
ConfigError.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..backend import python_instances
from ..config import Config, Setting, import_modules, load
from ..errors import did_you_mean, quoted
from ..parser import Expr
from ..parser.expand import resolve_instances
from .backends import DEFAULT_ENTRYPOINT, NodePlanner, PlannedBackend, find_operator_target
from .graph import Graph, check_graph
from .keys import DEFAULT_QUEUE_CAPACITY, GLOBAL_PARAMS, NODE_PARAMS, convert_setting
from .links import MapEntry

__all__ = [
    "DEFAULT_ENTRYPOINT",
    "GLOBAL_PARAMS",
    "NODE_PARAMS",
    "MapEntry",
    "Plan",
    "PlannedBackend",
    "PlannedNode",
    "PlannedRegion",
    "plan",
]

GRAPH_ENTRYPOINT = "DagDispatcher"


@dataclass(frozen=True)
class PlannedNode:
    """One node; `next`, `target` and the sources of `map` are indices into the plan's nodes."""

    name: str
    backend: PlannedBackend
    expr: Expr
    params: Mapping[str, Any]
    region: int
    next: tuple[int, ...]
    map: tuple[MapEntry, ...] | None
    is_or: bool
    target: int | None
    where: str

    def to_core(self) -> dict[str, Any]:
        """Return plain data."""
        entries = None if self.map is None else [(e.source, e.source_key, e.key) for e in self.map]
        return {
            "name": self.name,
            "expr": self.backend.to_core(),
            "params": dict(self.params),
            "region": self.region,
            "next": list(self.next),
            "map": entries,
            "or": self.is_or,
            "foreach_target": self.target,
        }


@dataclass(frozen=True)
class PlannedRegion:
    """The main graph (the first one) or a subgraph that an operator enters."""

    roots: tuple[int, ...]
    output: int


@dataclass(frozen=True)
class Plan:
    """A checked pipeline: nodes by region and in topological order, and the settings of the whole."""

    nodes: tuple[PlannedNode, ...]
    regions: tuple[PlannedRegion, ...]
    fanout: str | None
    settings: Mapping[str, Any]
    name: str = ""

    def to_core(self) -> dict[str, Any]:
        """Return the plan as plain data for the compiled core."""
        return {
            "nodes": [node.to_core() for node in self.nodes],
            "regions": [{"roots": list(region.roots), "output": region.output} for region in self.regions],
            "fanout": self.fanout,
            "settings": dict(self.settings),
        }


def plan(source: object) -> Plan:
    """Read and check a file, an expression or a dict; see `hami.config.load` for which is which.

    Raises ConfigError. Imports the modules that the configuration names.
    """
    config = load(source)
    import_modules(config)
    planners = [NodePlanner(node, config.directory) for node in config.nodes]
    for planner in planners:
        planner.expand()
    _refuse_unknown_shared_keys(config, planners)
    settings = _global_settings(config, planners)
    backends = _build(planners)
    is_or = {planner.node.name: bool(planner.values.get("or", False)) for planner in planners}
    targets = {}
    for planner in planners:
        target = find_operator_target(backends[planner.node.name])
        if target is not None and planner.is_operator:
            targets[planner.node.name] = (planner.expr.name, target)
    fanout = settings.pop("fanout")
    graph = check_graph(config, is_or, targets, fanout)
    return _assemble(config, graph, {p.node.name: p for p in planners}, backends, fanout, settings)


def _refuse_unknown_shared_keys(config: Config, planners: Iterable[NodePlanner]) -> None:
    """Refuse a key at the top level that no node knows."""
    if any(planner.takes_any_key for planner in planners):
        return
    known = {*GLOBAL_PARAMS, *(key for planner in planners for key in planner.known)}
    for key, setting in config.shared.items():
        if key not in known:
            help = did_you_mean(
                key, known, cutoff=0.4, otherwise=f"it may have {quoted(sorted(known), limit=20)}"
            )
            message = f"no node has a parameter `{key}`"
            raise setting.error("config-unknown-key", message, help, at_value=False)


def _global_settings(config: Config, planners: list[NodePlanner]) -> dict[str, Any]:
    values = {
        key: convert_setting(param, config.settings[key]) if key in config.settings else param.default
        for key, param in GLOBAL_PARAMS.items()
    }
    if values["entrypoint"] not in (None, GRAPH_ENTRYPOINT):
        message = f"`entrypoint` of a graph can only be `{GRAPH_ENTRYPOINT}`, got `{values['entrypoint']}`"
        help = "write it as `node_entrypoint` of the nodes, or give the pipeline one node"
        raise config.settings["entrypoint"].error("plan-bad-entrypoint", message, help)
    capacity: Setting | None = config.shared.get("queue_capacity")
    if capacity is None and len(planners) == 1:
        capacity = planners[0].node.find("queue_capacity")
    return {
        "queue_capacity": (
            DEFAULT_QUEUE_CAPACITY
            if capacity is None
            else convert_setting(NODE_PARAMS["queue_capacity"], capacity)
        ),
        "max_in_flight": values["max_in_flight"],
        "deadline_ms": values["deadline_ms"],
        "priority": values["priority"],
        "fanout": values["fanout"],
    }


def _build(planners: list[NodePlanner]) -> dict[str, PlannedBackend]:
    """Decide what names mean, now that all instances are known, and build every node's backends."""
    instances: dict[str, Any] = python_instances()
    for planner in planners:
        instances.update(dict.fromkeys(planner.registered()))
    backends = {}
    for planner in planners:
        planner.expr = resolve_instances(planner.expr, instances, planner.node.where)
        backends[planner.node.name] = planner.build(planner.expr, instances)
        planner.refuse_unused_macro_arguments()
    return backends


def _assemble(
    config: Config,
    graph: Graph,
    planners: Mapping[str, NodePlanner],
    backends: Mapping[str, PlannedBackend],
    fanout: str | None,
    settings: Mapping[str, Any],
) -> Plan:
    """Number the nodes region by region and turn names into these numbers."""
    order = [index for region in graph.regions for index in region.order]
    number = {index: position for position, index in enumerate(order)}
    nodes = []
    for index in order:
        vertex = graph.vertices[index]
        planner = planners[vertex.name]
        entries = None
        if vertex.map is not None:
            entries = tuple(MapEntry(number.get(e.source, e.source), e.source_key, e.key) for e in vertex.map)
        nodes.append(
            PlannedNode(
                name=vertex.name,
                backend=backends[vertex.name],
                expr=planner.expr,
                params=planner.values,
                region=vertex.region,
                next=tuple(number[following] for following in vertex.next),
                map=entries,
                is_or=vertex.is_or,
                target=None if vertex.target is None else number[vertex.target],
                where=planner.node.where,
            )
        )
    regions = tuple(
        PlannedRegion(tuple(number[index] for index in region.roots), number[region.output])
        for region in graph.regions
    )
    return Plan(tuple(nodes), regions, fanout, settings, config.name)
