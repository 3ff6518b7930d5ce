"""Random graphs with edges back and loops answer what a plain walk gives, round by round, and fail alike."""

from __future__ import annotations

import random
import zlib
from dataclasses import dataclass, field
from typing import Any

import pytest

import hami


class MarkedError(Exception):
    """What a node raises that the request names, when its value is even."""


TOO_MANY = "request-too-many-rounds"


def mix(*parts: Any) -> int:
    """Return a number that depends on everything given, the same in every run."""
    return zlib.crc32(repr(parts).encode())


@dataclass
class Graph:
    """Sections in a row, each with one entry and one exit, most of them with a Restart behind the exit."""

    before: dict[str, list[str]] = field(default_factory=dict)
    """The predecessors of each node, in an order in which they can run; the last node answers."""
    restarts: dict[str, list[str]] = field(default_factory=dict)
    """The nodes to which each Restart may lead."""
    homes: dict[str, str] = field(default_factory=dict)
    """The one of them to which an edge leads back, through which every way to the Restart passes."""
    loops: set[str] = field(default_factory=set)
    max_rounds: dict[str, int] = field(default_factory=dict)

    def next_of(self, name: str) -> list[str]:
        """Return the successors of a node, without the edge back."""
        return [other for other, sources in self.before.items() if name in sources]

    def repeated(self, target: str, restart: str) -> set[str] | None:
        """Return what runs again from the target on; None if a way from there leads past the Restart."""
        found = {target}
        open_ends = [target]
        while open_ends:
            following = self.next_of(open_ends.pop())
            if not following:
                return None
            open_ends += [name for name in following if name not in found and name != restart]
            found.update(following)
        return found

    def is_passed_by_all(self, node: str, restart: str) -> bool:
        """Return whether no way from an entry to the Restart goes round the node."""
        reached: set[str] = set()
        for name, sources in self.before.items():
            if name != node and (not sources or reached.intersection(sources)):
                reached.add(name)
        return restart not in reached

    def wish(self, restart: str, value: int) -> Any:
        """Return what the exit before a Restart asks for when it has this value."""
        kind, targets = mix("wish", restart, value) % 9, self.restarts[restart]
        return {
            0: True if restart in self.homes else targets[-1],
            1: targets[0],
            2: targets[value % len(targets)],
            3: False,
            4: None,
        }.get(kind, "")


def random_graph(chance: random.Random) -> Graph:
    """Return a graph of up to four sections; later joins may also take from earlier ones."""
    graph = Graph()
    end: list[str] = []  # of the sections before
    for section in range(chance.randrange(1, 5)):
        names = [f"s{section}n{i}" for i in range(chance.randrange(1, 6))]
        earlier = list(graph.before)
        for i, name in enumerate(names):
            sources = chance.sample(names[:i], min(i, chance.choice([1, 1, 2]))) if i else end
            graph.before[name] = sorted(sources)
        leaves = [name for name in names if not graph.next_of(name)]
        passing = [name for name in earlier if name not in graph.restarts and name not in end]
        if passing and len(leaves) + len(end) > 0 and chance.random() < 0.3:
            leaves.append(chance.choice(passing))
        graph.before[f"exit{section}"] = sorted(leaves)
        graph.before[f"again{section}"] = [f"exit{section}"]
        end = [f"again{section}"]
        graph.restarts[end[0]] = []
    graph.before["end"] = end
    for restart in graph.restarts:
        graph.max_rounds[restart] = chance.randrange(1, 4)
        names = [name for name, before in graph.before.items() if len(before) < 2 and name != restart]
        targets = [name for name in names if name not in graph.restarts and graph.repeated(name, restart)]
        graph.restarts[restart] = chance.sample(targets, len(targets))
        homes = [name for name in targets if graph.is_passed_by_all(name, restart)]
        if homes:
            graph.homes[restart] = chance.choice(homes)
    for name, before in graph.before.items():
        if name.startswith("s") and len(before) < 2 and chance.random() < 0.2:
            graph.loops.add(name)
            graph.max_rounds[name] = chance.randrange(1, 6)
    return graph


def tables_of(graph: Graph, chance: random.Random) -> dict[str, Any]:
    """Return the graph as a pipeline whose nodes differ in everything but what they compute."""
    tables: dict[str, Any] = {"output": "end"}
    for name, before in graph.before.items():
        following = graph.next_of(name)
        if name in graph.restarts:
            back = [graph.homes[name]] if name in graph.homes else []
            backend = f"Restart(max_rounds={graph.max_rounds[name]})"
            tables[name] = {"backend": backend, "next": [*back, *following]}
            continue
        loop = f"Loop(max_rounds={graph.max_rounds.get(name)})[Mark({name}), Again({name})]"
        tables[name] = {
            "backend": loop if name in graph.loops else f"Mark({name})",
            "max": chance.choice([1, 2, 8]),
            "instance_num": chance.choice([1, 1, 2]),
            "batching_timeout": chance.choice([0, 0.5]),
            "queue_capacity": chance.choice([20, 1000]) if before else 1000,
            "scheduler": chance.choice(["fifo", "priority", "edf"]),
            "next": following,
        }
        if len(before) > 1:
            sources = [f"{source}[result:{name}_from_{source}]" for source in before]
            tables[name]["map"] = ",".join([*sources, "input[data:own,fault:fault]"])
    return tables


def mark(name: str, fault: str | None, *inputs: Any) -> int:
    """Return the value of a node, or raise the error that was asked for."""
    value = mix(name, *inputs)
    if fault == name and value % 2 == 0:
        raise MarkedError(name)
    return value


def climb(graph: Graph, name: str, fault: str | None, *inputs: Any) -> int | str:
    """Return the value of a node, after all rounds if it is a loop, or its error."""
    rounds_left = graph.max_rounds.get(name, 0)
    try:
        value = mark(name, fault, *inputs)
        while name in graph.loops and mix("again", name, value) % 2:
            if rounds_left == 0:
                return TOO_MANY
            rounds_left -= 1
            value = mark(name, fault, value)
    except MarkedError:
        return name
    return value


def walk(graph: Graph, data: Any, fault: str | None) -> int | set[str]:
    """Return what the last node gives, computed without a pipeline, or the errors that may come first.

    Branches run side by side, so that of those that fail any may be the first.
    """
    values: dict[str, Any] = {}
    errors: dict[str, str] = {}
    num_rounds = dict.fromkeys(graph.restarts, 0)
    order = list(graph.before)
    todo = list(order)
    came_back: dict[str, int] = {}
    while todo:
        name = todo.pop(0)
        before = graph.before[name]
        if name not in graph.restarts:
            if errors and not errors.keys().isdisjoint(before):
                errors[name] = errors[next(source for source in before if source in errors)]
                continue
            if len(before) > 1:
                value = climb(graph, name, fault, *(values[source] for source in before), data)
            elif name in came_back:
                value = climb(graph, name, fault, came_back.pop(name))
            else:
                value = climb(graph, name, fault, values[before[0]] if before else data)
            if isinstance(value, str):
                errors[name] = value
            else:
                values[name] = value
            continue
        if errors:
            return set(errors.values())
        value = values[name] = values[before[0]]
        wish = graph.wish(name, value) if graph.restarts[name] else None
        if wish:
            num_rounds[name] += 1
            if num_rounds[name] > graph.max_rounds[name]:
                return {TOO_MANY}
            target = graph.homes[name] if wish is True else wish
            repeated = graph.repeated(target, name) or set()
            num_rounds.update((other, 0) for other in repeated if other in num_rounds and other != name)
            todo = [other for other in order if other in repeated] + todo
            came_back = {target: value}
    return set(errors.values()) if errors else int(values["end"])


@pytest.fixture
def register_nodes() -> Any:
    """Return a function that registers `Mark(name)` and `Again(name)`, the nodes of a graph."""

    def register(graph: Graph) -> None:
        wishes = {
            before[0]: restart for restart, before in graph.before.items() if graph.restarts.get(restart)
        }

        @hami.register
        class Mark(hami.Backend):
            batch_range = (1, None)
            group_by = "none"
            name = hami.param(type=str, doc="the node")

            def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
                return [self.run(item) for item in batch]

            def run(self, item: dict[str, Any]) -> int:
                own = f"{self.name}_from_"
                mapped = [value for key, value in sorted(item.items()) if key.startswith(own)]
                inputs = [*mapped, item["own"]] if mapped else [item["data"]]
                value = mark(self.name, item["fault"], *inputs)
                if self.name in wishes and (wish := graph.wish(wishes[self.name], value)) != "":
                    item["restart"] = wish
                return value

        @hami.register
        class Again(hami.Backend):
            batch_range = (1, None)
            group_by = "none"
            name = hami.param(type=str, doc="the node")

            def forward(self, batch: list[dict[str, Any]]) -> None:
                for item in batch:
                    if mix("again", self.name, item["data"]) % 2:
                        item["result"] = True

    return register


@pytest.mark.parametrize("seed", range(40))
def test_a_random_graph_with_rounds_answers_like_a_walk(
    open_pipe: Any, in_threads: Any, register_nodes: Any, seed: int
) -> None:
    chance = random.Random(seed)
    graph = random_graph(chance)
    register_nodes(graph)
    pipeline = open_pipe(tables_of(graph, chance))
    faults = [chance.choice([None, None, *graph.before]) for _ in range(60)]

    def work(thread: int) -> None:
        requests: list[dict[str, Any]] = [
            {"data": (thread, i), "fault": fault} for i, fault in enumerate(faults)
        ]
        futures = [pipeline.submit(request) for request in requests]
        for request, future in zip(requests, futures, strict=True):
            kept = {"data": request["data"], "fault": request["fault"]}
            error = future.exception(20)
            expected = walk(graph, request["data"], request["fault"])
            if isinstance(expected, int):
                assert error is None, f"{graph}: {error!r}"
                assert request == {**kept, "result": expected}, graph
            else:
                shown = error.code if isinstance(error, hami.RequestError) else str(error)
                assert shown in expected, f"{graph}: {error!r}"
                assert request == kept

    in_threads(3, work)
    assert pipeline.close()
    assert all(row["waiting"] == 0 for row in pipeline.stats())


def test_the_random_graphs_hold_what_they_are_for() -> None:
    graphs = [random_graph(random.Random(seed)) for seed in range(40)]
    assert sum(len(graph.loops) for graph in graphs) > 20
    assert sum(len(targets) > 1 for graph in graphs for targets in graph.restarts.values()) > 20
    outcomes = [walk(graph, i, "exit0" if i % 4 == 0 else None) for graph in graphs for i in range(20)]
    assert sum(isinstance(outcome, int) for outcome in outcomes) > 100
    assert outcomes.count({TOO_MANY}) > 40
    assert outcomes.count({"exit0"}) > 40
