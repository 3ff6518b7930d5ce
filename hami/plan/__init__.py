"""What is checked before anything runs: configuration -> Plan.

`plan` is what hami.pipe, `hami check` and `hami show` call. A Plan is immutable plain data; `to_core` hands
it to the compiled core, which trusts it: every name, parameter and edge in it is right, or there is a
ConfigError.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..backend import python_instances
from ..config import Config, Setting, import_modules, imports_of, load
from ..errors import Source, did_you_mean, quoted
from ..parser import Expr, parse_source
from ..parser.expand import resolve_instances
from ..plugins import load as load_plugin
from .backends import NodePlanner, find_operator_target
from .deployment import KEY as DEPLOYMENT
from .deployment import deployment_options
from .entrypoint import DEFAULT_ENTRYPOINT
from .graph import Graph, Vertex, check_graph
from .keys import DEFAULT_QUEUE_CAPACITY, GLOBAL_PARAMS, NODE_PARAMS, convert_setting
from .links import MapEntry
from .planned import Plan, PlannedBackend, PlannedNode, PlannedRegion, PlanTimes

__all__ = [
    "DEFAULT_ENTRYPOINT",
    "GLOBAL_PARAMS",
    "NODE_PARAMS",
    "MapEntry",
    "Plan",
    "PlanTimes",
    "PlannedBackend",
    "PlannedNode",
    "PlannedRegion",
    "plan",
]

GRAPH_ENTRYPOINT = "DagDispatcher"


def plan(source: object) -> Plan:
    """Read and check a file, an expression or a dict; see `hami.config.load` for which is which.

    Raises ConfigError. Imports the modules that the configuration names.
    """
    begin_ns = time.monotonic_ns()
    config = load(source)
    import_modules(config, load_plugin)
    imports = imports_of(config)
    planners = [NodePlanner(node, config.directory, imports) for node in config.nodes]
    for planner in planners:
        planner.expand()
    parsed_ns = time.monotonic_ns()
    _refuse_unknown_shared_keys(config, planners)
    settings = _global_settings(config, planners)
    backends = _build(planners)
    is_or = {planner.node.name: bool(planner.values.get("or", False)) for planner in planners}
    targets = {
        planner.node.name: [
            (segment.expr.name, target)
            for segment, backend in zip(planner.segments, backends[planner.node.name], strict=True)
            if segment.is_operator and (target := find_operator_target(backend)) is not None
        ]
        for planner in planners
    }
    fanout = settings.pop("fanout")
    restarts = {planner.node.name for planner in planners if planner.is_restart}
    graph = check_graph(config, is_or, targets, restarts, fanout)
    restart = _graph_restart(config)
    if restart is not None:
        output = graph.vertices[graph.regions[0].output].name
        planner = next(planner for planner in planners if planner.node.name == output)
        backends[output].append(planner.append_restart(restart))
    checked = _assemble(config, graph, {p.node.name: p for p in planners}, backends, fanout, settings)
    return replace(checked, times=PlanTimes(begin_ns, parsed_ns, time.monotonic_ns()))


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


def _graph_restart(config: Config) -> Expr | None:
    """Return the Restart of `entrypoint = "Restart[DagDispatcher]"`, which follows the node that answers."""
    setting = config.settings.get("entrypoint")
    if setting is None:
        return None
    text = convert_setting(GLOBAL_PARAMS["entrypoint"], setting)
    expr = parse_source(setting.source or Source(text, setting.where))
    inner = expr.children[0] if expr.name == "Restart" and len(expr.children) == 1 else expr
    if inner.name != GRAPH_ENTRYPOINT or not inner.is_bare:
        message = f"`entrypoint` of a graph cannot be `{text}`"
        help = f"write `Restart[{GRAPH_ENTRYPOINT}]`; how a node is built is its `node_entrypoint`"
        raise setting.error("plan-bad-entrypoint", message, help)
    return None if expr is inner else replace(expr, phases=())


def _global_settings(config: Config, planners: list[NodePlanner]) -> dict[str, Any]:
    values = {
        key: convert_setting(param, config.settings[key]) if key in config.settings else param.default
        for key, param in GLOBAL_PARAMS.items()
        if key != DEPLOYMENT
    }
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


def _build(planners: list[NodePlanner]) -> dict[str, list[PlannedBackend]]:
    """Decide what names mean, now that all instances are known, and build every segment's backends."""
    instances: dict[str, Any] = python_instances()
    for planner in planners:
        instances.update(dict.fromkeys(planner.registered()))
    backends: dict[str, list[PlannedBackend]] = {}
    for planner in planners:
        built = backends[planner.node.name] = []
        for segment in planner.segments:
            segment.expr = resolve_instances(segment.expr, instances, planner.node.where)
            built.append(planner.build(segment.expr, instances))
        planner.refuse_unused_macro_arguments()
    return backends


def _assemble(
    config: Config,
    graph: Graph,
    planners: Mapping[str, NodePlanner],
    backends: Mapping[str, list[PlannedBackend]],
    fanout: str | None,
    settings: Mapping[str, Any],
) -> Plan:
    """Number the segments of all nodes, region by region, and turn names into these numbers."""
    order = [index for region in graph.regions for index in region.order]
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    num_nodes = 0
    for index in order:
        first[index] = num_nodes
        num_nodes += len(planners[graph.vertices[index].name].segments)
        last[index] = num_nodes - 1
    nodes: list[PlannedNode] = []
    for index in order:
        vertex = graph.vertices[index]
        planner = planners[vertex.name]
        targets = iter(vertex.targets)
        for position, segment in enumerate(planner.segments):
            backend = backends[vertex.name][position]
            enters = segment.is_operator and find_operator_target(backend) is not None
            again = None if vertex.restart_at is None else first[vertex.restart_at]
            is_first, is_last = position == 0, position == len(planner.segments) - 1
            nodes.append(
                PlannedNode(
                    name=planner.segment_name(position),
                    backend=backend,
                    expr=segment.expr,
                    params=planner.values,
                    region=vertex.region,
                    next=tuple(first[i] for i in vertex.next) if is_last else (len(nodes) + 1,),
                    map=_number_map(vertex, last) if is_first else None,
                    is_or=segment.is_or or (is_first and vertex.is_or),
                    target=first[next(targets)] if enters else None,
                    again=again if segment.again is None else first[index] + segment.again,
                    is_operator=segment.is_operator,
                    where=planner.node.where,
                    deployment=planner.deployment,
                )
            )
    regions = tuple(
        PlannedRegion(tuple(first[index] for index in region.roots), last[region.output])
        for region in graph.regions
    )
    deployment = deployment_options(config.settings.get(DEPLOYMENT))
    return Plan(tuple(nodes), regions, fanout, settings, config.name, deployment)


def _number_map(vertex: Vertex, last: Mapping[int, int]) -> tuple[MapEntry, ...] | None:
    """Return the entries of `map`; what a node made is at its last segment."""
    if vertex.map is None:
        return None
    return tuple(MapEntry(last.get(e.source, e.source), e.source_key, e.key) for e in vertex.map)
