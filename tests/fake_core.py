"""A stand-in for the compiled core: only its table of classes, so that planning is tested without a build."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def row(
    name: str, *params: Row, children: tuple[int, int] = (0, 0), family: str = "flow", **more: Any
) -> Row:
    """Return one row of the table as `hami._core.declarations()` gives it."""
    return {
        "name": name,
        "doc": f"Be {name}.",
        "family": family,
        "extra": "",
        "params": list(params),
        "min_children": children[0],
        "max_children": children[1],
        "is_operator": False,
        "is_hidden": False,
        "is_condition": False,
        **more,
    }


def param(name: str, type: str = "any", **more: Any) -> Row:
    return {"name": name, "type": type, "required": False, "unit": "", "doc": f"the {name}", **more}


TABLE = [
    row("Identity"),
    row("Pow"),
    row("Identities", param("max", "int", min=1)),
    row("Add", param("value", "float", required=True), param("times", "int", default=1, min=1, max=10)),
    row("HasKey", param("key", "str", required=True), children=(0, 2), is_condition=True),
    row("NotHasKey", param("key", "str", required=True), children=(0, 2), is_condition=True),
    row("S", children=(1, -1), family="wiring"),
    row("List", children=(1, -1), family="wiring"),
    row("IoC", children=(1, -1), family="wiring"),
    row("DI", children=(1, -1), family="wiring"),
    row("With", children=(2, 2), family="wiring"),
    row("CatSplit", children=(3, 3), family="wiring"),
    row("Forward", children=(1, 1), family="wiring"),
    row("Register", param("name", "str", required=True), children=(1, 1), family="wiring"),
    row(
        "InstancesRegister",
        param("name", "str", required=True),
        param("instance_num", "int", default=1, min=1, max=4096),
        children=(1, 1),
        family="wiring",
    ),
    row("BackgroundThread", param("max", "int", min=1), param("min", "int", min=1), children=(1, 1)),
    row("Batching", param("batching_timeout", "float", unit="ms", min=0, max=86400000), children=(0, 1)),
    row("InstanceDispatcher", family="scheduling"),
    row("SharedInstancesState", family="scheduling"),
    row("FixTensor", family="tensor"),
    row("CatTensor", family="tensor"),
    row("SplitTensor", family="tensor"),
    row("ContiguousTensor", family="tensor"),
    row("AddInt", is_hidden=True),
    row(
        "OnnxInfer",
        param("model", "path", required=True),
        param("max", "int", min=1),
        param("provider", "str", default="cpu", choices=["cpu", "cuda"]),
        param("intra_op_threads", "int", default=1, min=1),
        family="onnxruntime",
        extra="onnx",
    ),
    row(
        "ForEach",
        param("target", "str", required=True),
        param("key", "str", default="data"),
        param("on_error", "str", default="fail", choices=["fail", "keep", "drop"]),
        param("pass", "list"),
        is_operator=True,
    ),
    row(
        "Recv",
        param("queue", "str", required=True),
        param("target", "str"),
        family="queues",
        is_operator=True,
    ),
]


def declarations() -> list[Row]:
    return TABLE
