"""What the tests of queues share: a pipeline with one entry that sends, one that receives, one that looks."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import hami

WAIT_S = 10.0


def market(queue: str = "jobs", capacity: int = 1024, **nodes: Any) -> dict[str, Any]:
    """Return a pipeline with the entries `put`, `take` and `look`; `nodes` replaces or adds keys of them."""
    tables: dict[str, Any] = {
        "put": {"backend": f"Send({queue})"},
        "take": {"backend": f"Recv({queue})"},
        "look": {"backend": f"S[Queue({queue}, {capacity}), Observer({queue})]"},
    }
    for name, keys in nodes.items():
        tables[name] = {**tables.get(name, {}), **keys}
    entries = [name for name in ("put", "take", "look") if "next" not in tables[name]]
    for name in entries:
        tables[name]["next"] = "end"
    sources = ",".join(f"{name}[result:{name}]" for name in entries)
    tables["end"] = {"backend": "Identity", "or": True, "map": sources}
    return tables


class Market:
    """A pipeline made by `market`, called by the names of its entries."""

    def __init__(self, pipeline: hami.Pipeline) -> None:
        self.pipeline = pipeline

    def put(self, data: Any, **keys: Any) -> Future[dict[str, Any]]:
        return self.pipeline.submit({"node_name": "put", "data": data, **keys})

    def take(self, **keys: Any) -> Future[dict[str, Any]]:
        return self.pipeline.submit({"node_name": "take", **keys})

    def size(self) -> int:
        return int(self.pipeline({"node_name": "look", "data": None})["result"])

    def figures(self, node: str) -> dict[str, Any]:
        return next(row for row in self.pipeline.stats() if row["node"] == node)

    def num_waiting(self, node: str) -> int:
        return int(self.figures(node)["waiting"])


def result_of(future: Future[dict[str, Any]]) -> Any:
    return future.result(WAIT_S)["result"]
