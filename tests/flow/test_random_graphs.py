"""Random graphs answer what a plain walk over the same tables gives, and fail where they were told to."""

from __future__ import annotations

import random
from typing import Any

import pytest

import hami

Graph = dict[str, list[str]]
"""The predecessors of each node, in an order in which they can run; the last node answers."""


class MarkedError(Exception):
    """What a node raises that the request names."""


def random_graph(chance: random.Random) -> Graph:
    """Return a graph with one entry, in which any later node may join any earlier ones."""
    names = [f"n{i}" for i in range(chance.randrange(2, 10))]
    graph: Graph = {names[0]: []}
    for i, name in enumerate(names[1:], 1):
        graph[name] = sorted(chance.sample(names[:i], min(i, chance.choice([1, 1, 1, 2, 2, 3]))))
    return graph


def tables_of(graph: Graph, chance: random.Random) -> dict[str, Any]:
    """Return the graph as a pipeline whose nodes differ in everything but what they compute."""
    tables: dict[str, Any] = {"output": list(graph)[-1]}
    for name, before in graph.items():
        table: dict[str, Any] = {
            "backend": f"Mark({name})",
            "max": chance.choice([1, 2, 8]),
            "instance_num": chance.choice([1, 1, 2]),
            "batching_timeout": chance.choice([0, 0.5]),
            "queue_capacity": chance.choice([2, 1000]) if before else 1000,
            "scheduler": chance.choice(["fifo", "priority", "edf"]),
            "next": [other for other, sources in graph.items() if name in sources],
        }
        if len(before) > 1:
            sources = [f"{source}[result:{name}_from_{source}]" for source in before]
            table["map"] = ",".join([*sources, "input[data:own,fault:fault]"])
        tables[name] = table
    return tables


def answer(graph: Graph, data: Any) -> Any:
    """Return what the last node gives, computed without a pipeline."""
    results: dict[str, Any] = {}
    for name, before in graph.items():
        if len(before) > 1:
            results[name] = (name, *(results[source] for source in before), data)
        else:
            results[name] = (name, results[before[0]] if before else data)
    return results[name]


@pytest.fixture(autouse=True)
def mark() -> None:
    """Register `Mark(name)`: the name together with everything that came, or the error that was asked for."""

    @hami.register
    class Mark(hami.Backend):
        batch_range = (1, None)
        group_by = "none"
        name = hami.param(type=str, doc="the node")

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            return [self.mark(item) for item in batch]

        def mark(self, item: dict[str, Any]) -> Any:
            if item["fault"] == self.name:
                raise MarkedError(self.name)
            own = f"{self.name}_from_"
            mapped = [value for key, value in sorted(item.items()) if key.startswith(own)]
            return (self.name, *mapped, item["own"]) if mapped else (self.name, item["data"])


@pytest.mark.parametrize("seed", range(40))
def test_a_random_graph_answers_like_a_walk_over_its_tables(
    open_pipe: Any, in_threads: Any, seed: int
) -> None:
    chance = random.Random(seed)
    graph = random_graph(chance)
    pipeline = open_pipe(tables_of(graph, chance))
    faults = [chance.choice([None, None, *graph]) for _ in range(60)]

    def work(thread: int) -> None:
        requests = [{"data": (thread, i), "fault": fault} for i, fault in enumerate(faults)]
        futures = [pipeline.submit(request) for request in requests]
        for request, future in zip(requests, futures, strict=True):
            kept = {"data": request["data"], "fault": request["fault"]}
            error = future.exception(20)
            if request["fault"] is None:
                assert error is None, f"{graph}: {error!r}"
                assert request == {**kept, "result": answer(graph, request["data"])}, graph
            else:
                assert isinstance(error, MarkedError) and error.args == (request["fault"],), (
                    f"{graph}: {error!r}"
                )
                assert request == kept

    in_threads(3, work)
    assert pipeline.close()
    ran = {row["node"]: row for row in pipeline.stats()}
    assert all(row["waiting"] == 0 for row in ran.values())
    assert sum(row["errors"] for row in ran.values()) == 3 * sum(fault is not None for fault in faults)
