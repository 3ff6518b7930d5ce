"""The keys that every node and every pipeline knows, declared like a backend's parameters."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from ..backend import Declaration, Param
from ..config import NodeConfig, Setting
from .deployment import KEY as DEPLOYMENT
from .values import BadValueError, convert

MAX_QUEUE_CAPACITY = 2**31 - 1
DEFAULT_QUEUE_CAPACITY = 65_536
LONGEST_MS = 86_400_000.0

NODE_PARAMS = {
    param.name: param
    for param in (
        Param("backend", "str", doc="expression: what one instance computes"),
        Param("instance_num", "int", 1, min=1, max=4096, doc="copies of the backend that run side by side"),
        Param("batching_timeout", "float", unit="ms", min=0, max=LONGEST_MS, doc="wait for a fuller batch"),
        Param("max", "int", min=1, doc="most rows of one run"),
        Param("min", "int", min=1, doc="fewest rows of one run"),
        Param("next", doc="successors: names with commas between, or a list"),
        Param(
            "map", "str", doc="which keys of which earlier nodes become this node's: `src[src_key:dst_key]`"
        ),
        Param("or", "bool", False, doc="run only where the predecessor gave no result"),
        Param(
            "queue_capacity",
            "int",
            DEFAULT_QUEUE_CAPACITY,
            min=1,
            max=MAX_QUEUE_CAPACITY,
            doc="most requests that wait at the node",
        ),
        Param("scheduler", "scheduler", "fifo", doc="order in which requests run"),
        Param("isolate_errors", "bool", True, doc="whether a batch that raised runs again in halves"),
        Param("node_entrypoint", "str", doc="expression: how the node is built"),
        Param(DEPLOYMENT, doc="options of Ray Serve, for a deployment of its own"),
    )
}

GLOBAL_PARAMS = {
    param.name: param
    for param in (
        Param("imports", doc="modules and Python files to import before planning"),
        Param("output", "str", doc="the leaf whose result answers a request"),
        Param("fanout", "str", choices=("roots",), doc="`roots`: a request starts at all entry nodes"),
        Param("entrypoint", "str", doc="expression: how the graph is run"),
        Param("priority", "int", 0, doc="priority of requests that bring none"),
        Param("deadline_ms", "float", unit="ms", min=0.001, max=LONGEST_MS, doc="deadline of every request"),
        Param("max_in_flight", "int", min=1, doc="most requests inside the pipeline"),
        Param(DEPLOYMENT, doc="options of Ray Serve, for the deployment of the pipeline"),
    )
}


def convert_setting(param: Param, setting: Setting, directory: str | None = None) -> Any:
    """Return the value of a setting with the declared type, or raise a ConfigError at its place."""
    try:
        return convert(param, setting.value, directory)
    except BadValueError as bad:
        raise setting.error("plan-bad-value", str(bad), bad.help) from None


# Shapes of inputs (`,`) in profiles (`;`), as engines with fixed ranges of shapes take them.
_SHAPES = re.compile(r"\d+(x\d+)*(\s*[,;]\s*\d+(x\d+)*)*")


def rows_in_shapes(settings: Mapping[str, Setting], known: Iterable[Declaration]) -> dict[str, Setting]:
    """Return `max` and `min` as rows where a backend takes them as shapes, and the node is given such a text.

    The rows are axis 0: of the largest shape for `max`, of the smallest for `min`.
    """
    declared = [param for one in known for param in one.params]
    rows = {}
    for name, pick in (("max", max), ("min", min)):
        setting = settings.get(name)
        takes_shapes = any(param.name == name and param.type == "any" for param in declared)
        if setting is None or not takes_shapes or not isinstance(setting.value, str):
            continue
        if _SHAPES.fullmatch(setting.value.strip()):
            extents = [int(shape.split("x")[0]) for shape in re.split("[,;]", setting.value)]
            rows[name] = replace(setting, value=pick(extents))
    return rows


def node_values(node: NodeConfig, rows: Mapping[str, Setting]) -> dict[str, Any]:
    """Return all parameters of a node, those that every node knows checked and typed.

    `rows` are the settings that stand for shapes; see rows_in_shapes. What is about the node's deployment is
    left out: no backend reads it.
    """
    values: dict[str, Any] = {}
    for key, setting in {**node.inherited, **node.settings, **rows}.items():
        if key == DEPLOYMENT:
            continue
        param = NODE_PARAMS.get(key)
        values[key] = setting.value if param is None else convert_setting(param, setting)
    low, high = values.get("min"), values.get("max")
    if isinstance(low, int) and isinstance(high, int) and low > high:
        lowest = node.find("min")
        assert lowest is not None
        message = f"`min` of node `{node.name}` is `{low}`, above its `max` of `{high}`"
        raise lowest.error("plan-bad-value", message, f"write `min = {high}` or less")
    return values
