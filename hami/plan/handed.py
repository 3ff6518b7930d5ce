"""Expressions that a backend gets as plans of their own, to be built elsewhere: `ProcessPool[X]`.

Such a plan is a whole pipeline of one node. It must not need anything that only the surrounding pipeline has.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import ConfigError
from ..parser import Expr

# They direct the node where the expression stands, not the one that it becomes.
_OF_THE_OUTER_NODE = (
    "backend",
    "instance_num",
    "map",
    "next",
    "node_entrypoint",
    "or",
    "queue_capacity",
    "scheduler",
)
_REGISTERS = ("Register", "InstancesRegister")


def plan_alone(expr: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the plan of a pipeline whose only node is `expr`, as plain data for the core.

    It waits for no company: whoever has the plan sends whole batches.
    """
    params = {key: value for key, value in values.items() if key not in _OF_THE_OUTER_NODE}
    node = {
        "name": values["node_name"],
        "expr": dict(expr),
        "params": {**params, "batching_timeout": 0.0},
        "region": 0,
        "next": [],
        "map": None,
        "or": False,
        "foreach_target": None,
        "restart_at": None,
    }
    return {
        "nodes": [node],
        "regions": [{"roots": [0], "output": 0}],
        "fanout": None,
        "settings": {"max_in_flight": None, "deadline_ms": None, "priority": 0},
    }


def refuse_names_from_outside(expr: Expr, where: str) -> None:
    """Refuse in the brackets of `expr` what is made, or registered, around it."""
    for child in expr.children:
        made = {item.name for part in child.walk() if part.name == "IoC" for item in part.phases[0]}
        for part in child.walk():
            if part.kind == "instance" or (part.kind == "bound" and part.name not in made):
                message = f"`{part.name}` is an instance of this pipeline, which `{expr.name}` cannot reach"
                raise _error(part, where, message, f"let `{expr.name}` make its own: write a class")
            if part.kind == "create" and part.name in _REGISTERS:
                message = f"what `{part.name}` registers inside `{expr.name}` is seen by nobody"
                raise _error(part, where, message, f"write it around `{expr.name}`")


def _error(expr: Expr, where: str, message: str, help: str) -> ConfigError:
    if expr.span is not None:
        return expr.span.error("plan-other-process", message, help)
    return ConfigError(message, code="plan-other-process", where=where, help=help)
