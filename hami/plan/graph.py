"""The graph of a pipeline: which node follows which, where keys come from, which subgraphs are entered.

`check_graph` takes the nodes as they were configured and returns indices, or raises a ConfigError that names
the nodes. Pure: it knows neither backends nor threads.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from ..config import Config, NodeConfig
from ..errors import ConfigError, Span, did_you_mean, quoted
from .links import MapEntry, parse_map, parse_next
from .restarts import edges_back


@dataclass
class Vertex:
    """One node with its edges; indices count the nodes in written order.

    `targets` are the nodes that its operators enter; `restart_at` is the one that its `next` leads back to,
    which only a Restart may.
    """

    node: NodeConfig
    is_or: bool = False
    targets: list[int] = field(default_factory=list)
    restart_at: int | None = None
    next: list[int] = field(default_factory=list)
    previous: list[int] = field(default_factory=list)
    map: list[MapEntry] | None = None
    region: int = 0

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.name


@dataclass(frozen=True)
class Region:
    """A graph with its own entries and one output; region 0 is the main graph."""

    roots: tuple[int, ...]
    output: int
    order: tuple[int, ...]


@dataclass
class Graph:
    """The checked graph: vertices in written order, and its regions."""

    vertices: list[Vertex]
    regions: list[Region]


def check_graph(
    config: Config,
    is_or: Mapping[str, bool],
    targets: Mapping[str, Sequence[tuple[str, str]]],
    restarts: Collection[str],
    fanout: str | None,
) -> Graph:
    """Check the whole graph.

    `is_or` and `targets` give, by node, the value of `or`, and its operators with the nodes that they enter;
    `restarts` are the nodes that may lead back.
    """
    graph = _Checker(config, is_or, targets)
    graph.connect()
    graph.take_out_restarts(restarts)
    graph.refuse_cycles()
    graph.find_regions()
    regions = [graph.region(number, fanout) for number in range(graph.num_regions)]
    graph.check_maps()
    return Graph(graph.vertices, regions)


class _Checker:
    def __init__(
        self, config: Config, is_or: Mapping[str, bool], targets: Mapping[str, Sequence[tuple[str, str]]]
    ) -> None:
        self.config = config
        self.vertices = [Vertex(node, is_or.get(node.name, False)) for node in config.nodes]
        self.index = {vertex.name: index for index, vertex in enumerate(self.vertices)}
        self.targets = targets
        self.operators: dict[int, str] = {}  # by target, the operator that enters it
        self.entered_by = [""]  # the same by region
        self.num_regions = 1

    def connect(self) -> None:
        """Fill in the edges; every name must be a node."""
        for index, vertex in enumerate(self.vertices):
            setting = vertex.node.find("next")
            for name, span in parse_next(vertex.node, setting) if setting is not None else ():
                following = self._index_of(vertex, name, span, "next", "plan-unknown-next")
                if following in vertex.next:
                    raise _error(
                        vertex, span, "plan-duplicate-next", f"`{name}` is twice in `next`", "remove one"
                    )
                vertex.next.append(following)
                self.vertices[following].previous.append(index)
            for operator, name in self.targets.get(vertex.name, ()):
                target = self._index_of(vertex, name, None, "target", "plan-unknown-target")
                vertex.targets.append(target)
                self.operators.setdefault(target, operator)

    def take_out_restarts(self, restarts: Collection[str]) -> None:
        """Remove the edges by which a Restart leads back: a request takes them only when it asks for that."""
        sources = {self.index[name] for name in restarts}
        back = edges_back([vertex.next for vertex in self.vertices], sources) if sources else ()
        for source, following in back:
            vertex = self.vertices[source]
            if vertex.restart_at is not None:
                names = quoted([self.vertices[index].name for index in (vertex.restart_at, following)])
                message = f"`next` of node `{vertex.name}` leads back to several nodes: {names}"
                help = "keep one; a request can name any node under `restart`"
                raise _error(vertex, None, "plan-several-restarts", message, help)
            vertex.next.remove(following)
            self.vertices[following].previous.remove(source)
            vertex.restart_at = following

    def _index_of(self, vertex: Vertex, name: str, span: Span | None, key: str, code: str) -> int:
        if name not in self.index:
            message = f"`{key}` of node `{vertex.name}` names `{name}`, which is no node"
            others = [other for other in self.index if other != vertex.name]
            help = did_you_mean(name, others, otherwise=f"the nodes are {quoted(self.index)}")
            raise _error(vertex, span, code, message, help)
        return self.index[name]

    def refuse_cycles(self) -> None:
        """Refuse a cycle along `next`, and a `target` that leads back to its operator."""
        edges = [list(vertex.next) for vertex in self.vertices]
        self._refuse_cycle(edges, "plan-cycle", "remove one of these edges")
        for vertex, following in zip(self.vertices, edges, strict=True):
            following.extend(vertex.targets)
        self._refuse_cycle(edges, "plan-foreach-cycle", "no `target` can be a subgraph that its node is in")

    def _refuse_cycle(self, edges: Sequence[Sequence[int]], code: str, help: str) -> None:
        done: set[int] = set()
        for start in range(len(edges)):
            path: dict[int, None] = {}  # in order
            waiting = [(start, 0)]
            while waiting:
                index, position = waiting.pop()
                if position == 0:
                    if index in done:
                        continue
                    if index in path:
                        cycle = [self.vertices[i].name for i in [*path, index]]
                        cycle = cycle[cycle.index(self.vertices[index].name) :]
                        vertex = self.vertices[index]
                        message = (
                            f"nodes lead back to themselves: {' -> '.join(f'`{name}`' for name in cycle)}"
                        )
                        raise _error(vertex, None, code, message, help)
                    path[index] = None
                if position < len(edges[index]):
                    waiting += [(index, position + 1), (edges[index][position], 0)]
                else:
                    done.add(index)
                    path.popitem()

    def find_regions(self) -> None:
        """Give every node reachable from a target its region; regions are closed and disjoint."""
        by_target: dict[int, int] = {}
        for owner in self.vertices:
            for target in owner.targets:
                if target not in by_target:
                    by_target[target] = self.num_regions
                    self.entered_by.append(self.operators[target])
                    self._fill_region(owner, target, self.num_regions)
                    self.num_regions += 1
        for vertex in self.vertices:
            for following in (self.vertices[index] for index in vertex.next):
                if following.region != vertex.region:
                    operator = self.entered_by[following.region or vertex.region]
                    message = (
                        f"node `{vertex.name}` leads into the subgraph of a {operator} at `{following.name}`"
                    )
                    help = f"remove `{following.name}` from its `next`: the {operator} alone enters it"
                    raise _error(vertex, None, "plan-enters-subgraph", message, help)

    def _fill_region(self, owner: Vertex, target: int, region: int) -> None:
        waiting = [target]
        while waiting:
            vertex = self.vertices[waiting.pop()]
            if vertex.region == region:
                continue
            if vertex.region:
                message = f"node `{vertex.name}` is in two subgraphs, that of `{owner.name}` is the second"
                help = "give each operator a subgraph of its own, or let both enter the same target"
                raise _error(owner, None, "plan-shared-subgraph", message, help)
            vertex.region = region
            waiting.extend(vertex.next)

    def region(self, number: int, fanout: str | None) -> Region:
        """Return one region, checked: its output is clear, and every entry leads there."""
        members = [index for index, vertex in enumerate(self.vertices) if vertex.region == number]
        if number == 0:
            self._refuse_isolated(members)
        roots = [index for index in members if not self.vertices[index].previous]
        leaves = [index for index in members if not self.vertices[index].next]
        output = self._output(leaves, number)
        leading = self._ancestors(output) | {output}
        for index in roots:
            if index not in leading and fanout is None:
                vertex, name = self.vertices[index], self.vertices[output].name
                message = f"node `{vertex.name}` never leads to `{name}`, which answers"
                raise _error(
                    vertex, None, "plan-unreachable-node", message, f"connect it to `{name}`, or remove it"
                )
        return Region(tuple(roots), output, tuple(self._order(members)))

    def _refuse_isolated(self, members: Sequence[int]) -> None:
        for index in members:
            vertex = self.vertices[index]
            if len(members) > 1 and not vertex.previous and not vertex.next:
                message = f"no edge reaches node `{vertex.name}`, and it leads nowhere"
                raise _error(
                    vertex,
                    None,
                    "plan-unreachable-node",
                    message,
                    "name it in some node's `next`, or remove it",
                )

    def _output(self, leaves: Sequence[int], number: int) -> int:
        names = [self.vertices[index].name for index in leaves]
        setting = self.config.settings.get("output") if number == 0 else None
        if setting is not None:
            if setting.value in names:
                return self.index[setting.value]
            what = "has successors" if setting.value in self.index else "is no node"
            if setting.value in self.index and self.vertices[self.index[setting.value]].region:
                region = self.vertices[self.index[setting.value]].region
                what = f"is inside the subgraph of a {self.entered_by[region]}"
            message = f"`output` names `{setting.value}`, which {what}"
            help = did_you_mean(str(setting.value), names, otherwise=f"the last nodes are {quoted(names)}")
            raise setting.error("plan-bad-output", message, help)
        if len(leaves) == 1:
            return leaves[0]
        place = self.vertices[leaves[1]]
        if number == 0:
            message = f"several nodes have no successor: {quoted(names)}"
            help = f'say which one answers: `output = "{names[-1]}"` at the top of the file'
            raise _error(place, None, "plan-several-outputs", message, help)
        message = f"the subgraph of a {self.entered_by[number]} ends at several nodes: {quoted(names)}"
        raise _error(place, None, "plan-several-outputs", message, "let them lead to one last node")

    def _order(self, members: Sequence[int]) -> list[int]:
        """Return the members in topological order; among equals the written order."""
        missing = {index: len(self.vertices[index].previous) for index in members}
        order: list[int] = []
        ready = [index for index in members if not missing[index]]
        while ready:
            index = min(ready)
            ready.remove(index)
            order.append(index)
            for following in self.vertices[index].next:
                missing[following] -= 1
                if not missing[following]:
                    ready.append(following)
        return order

    def _ancestors(self, index: int) -> set[int]:
        found: set[int] = set()
        waiting = list(self.vertices[index].previous)
        while waiting:
            previous = waiting.pop()
            if previous not in found:
                found.add(previous)
                waiting.extend(self.vertices[previous].previous)
        return found

    def check_maps(self) -> None:
        """Read every `map`; a node with several predecessors needs one, its sources come before the node."""
        for index, vertex in enumerate(self.vertices):
            setting = vertex.node.find("map")
            names = [self.vertices[previous].name for previous in vertex.previous]
            if vertex.is_or and not names:
                message = f"node `{vertex.name}` has `or`, but no predecessor"
                raise _error(vertex, None, "plan-or-without-predecessor", message, "remove `or`")
            if setting is None:
                if len(names) > 1:
                    example = ",".join(f"{name}[result:{name}]" for name in names)
                    message = (
                        f"node `{vertex.name}` has {len(names)} predecessors, {quoted(names)}, and no `map`"
                    )
                    raise _error(vertex, None, "plan-join-without-map", message, f'write `map = "{example}"`')
                continue
            before = {self.vertices[previous].name: previous for previous in self._ancestors(index)}
            vertex.map = parse_map(vertex.node, setting, before, self.index)


def _error(vertex: Vertex, span: Span | None, code: str, message: str, help: str) -> ConfigError:
    """Return an error at `span`, else at the key in question, else at the node's header."""
    if span is not None:
        return span.error(code, message, help)
    setting = vertex.node.find("next")
    if setting is not None and code in (
        "plan-cycle",
        "plan-unknown-next",
        "plan-duplicate-next",
        "plan-enters-subgraph",
        "plan-several-restarts",
    ):
        return setting.error(code, message, help)
    setting = vertex.node.find("backend")
    if setting is not None and code in ("plan-unknown-target", "plan-foreach-cycle", "plan-shared-subgraph"):
        return setting.error(code, message, help)
    return vertex.node.error(code, message, help)
