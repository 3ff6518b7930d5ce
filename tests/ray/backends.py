"""What the pipelines of the cluster's tests import: in the test, and in each replica."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import hami

sys.path.append(str(Path(__file__).resolve().parents[1]))  # a replica does not know the tests


@hami.register("RayWhere")
def where(batch: list[dict[str, Any]]) -> None:
    """Tell which replica answers; `gate` names a file that must exist before it does."""
    import ray

    for item in batch:
        if item.get("gate"):
            Path(item["gate"]).with_suffix(f".{os.getpid()}").touch()
            while not os.path.exists(item["gate"]):
                threading.Event().wait(0.01)
        item["pid"] = os.getpid()
        item["node"] = ray.get_runtime_context().get_node_id()
        item["num_rows"] = len(batch)
        item["result"] = item["data"]


where.group_by = "none"  # type: ignore[attr-defined]


class CustomError(Exception):
    """An exception of the user's."""


@hami.register("RayPicky")
def double(batch: list[dict[str, Any]]) -> None:
    """Refuse negative numbers, and write into the array that it was given."""
    for item in batch:
        array = item["data"]
        if array.min() < 0:
            raise CustomError("below zero")
        array *= 2
        item["result"] = array
        item["twice"] = True


@hami.register("RayCount")
def count(item: dict[str, Any]) -> Any:
    """Yield partial results."""
    for number in range(item["data"]):
        yield {"number": number}


@hami.register
class RaySick(hami.Backend):
    """Well until it is told to be sick."""

    sign = ""

    def forward(self, batch: list[dict[str, Any]]) -> None:
        for item in batch:
            self.sign = self.sign or item["data"]
            item["result"] = os.getpid()

    def problem(self) -> str:
        return "it was told to be sick" if self.sign else ""
