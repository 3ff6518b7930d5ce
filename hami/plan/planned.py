"""What a plan consists of: immutable plain data, every name, parameter and edge of which has been checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..parser import Expr
from .links import MapEntry


@dataclass(frozen=True)
class PlannedBackend:
    """One backend of a node, as the core gets it."""

    name: str
    kind: str
    params: Mapping[str, Any] = field(default_factory=dict)
    children: tuple[PlannedBackend, ...] = ()
    num_phase1: int = 0
    prefix: str | None = None
    where: str = ""
    python: Any = None
    condition: PlannedBackend | None = None
    is_condition: bool = False

    def to_core(self) -> dict[str, Any]:
        """Return plain data."""
        return {
            "class": self.name,
            "kind": self.kind,
            "params": dict(self.params),
            "children": [child.to_core() for child in self.children],
            "num_phase1": self.num_phase1,
            "prefix": self.prefix,
            "where": self.where,
            "python": self.python,
            "condition": None if self.condition is None else self.condition.to_core(),
            "is_condition": self.is_condition,
        }


@dataclass(frozen=True)
class PlannedNode:
    """One node of the core; indices count the plan's nodes.

    `target` is the node that an operator enters, `again` the one where a Restart leads that is told no name.
    `deployment`: the options of a deployment of its own, which mean something to hami.ray alone; `elsewhere`:
    the backends that run in it, where this node only hands requests on.
    """

    name: str
    backend: PlannedBackend
    expr: Expr
    params: Mapping[str, Any]
    region: int
    next: tuple[int, ...]
    map: tuple[MapEntry, ...] | None
    is_or: bool
    target: int | None
    again: int | None
    is_operator: bool
    where: str
    deployment: Mapping[str, Any] | None = None
    elsewhere: tuple[PlannedBackend, ...] = ()

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
            "restart_at": self.again,
        }


@dataclass(frozen=True)
class PlannedRegion:
    """The main graph (the first one) or a subgraph that ForEach enters."""

    roots: tuple[int, ...]
    output: int


class PlanTimes(NamedTuple):
    """When the reading of a configuration began, when it had become expressions, and when these were checked.

    Nanoseconds of the monotonic clock.
    """

    begin: int
    parsed: int
    planned: int


@dataclass(frozen=True)
class Plan:
    """A checked pipeline: nodes by region and in topological order, and the settings of the whole.

    `deployment`: the options of its deployment with Ray Serve, if the configuration has any. `times` tell how
    long the making took, where `plan` made it.
    """

    nodes: tuple[PlannedNode, ...]
    regions: tuple[PlannedRegion, ...]
    fanout: str | None
    settings: Mapping[str, Any]
    name: str = ""
    deployment: Mapping[str, Any] | None = None
    times: PlanTimes | None = field(default=None, compare=False)

    def to_core(self) -> dict[str, Any]:
        """Return the plan as plain data for the compiled core."""
        return {
            "nodes": [node.to_core() for node in self.nodes],
            "regions": [{"roots": list(region.roots), "output": region.output} for region in self.regions],
            "fanout": self.fanout,
            "settings": dict(self.settings),
        }
