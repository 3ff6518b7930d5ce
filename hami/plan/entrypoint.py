"""How a node is built unless it says so itself: a batcher in front of instances, under the node's name."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from ..errors import Source
from ..parser import Argument, Expr, Value, parse_source

DEFAULT_ENTRYPOINT = (
    "List[InstancesRegister[BackgroundThread[BackendProxy]], Register[DI[Batching, InstanceDispatcher]]]"
)

# Their `name` says what they register, so it never comes from the node's parameters.
REGISTERS = ("Register", "InstancesRegister")


@lru_cache(maxsize=1)
def default_entrypoint() -> Expr:
    """Return the expression of a node without `node_entrypoint`; it stands in no text of the user's."""

    def without_span(expr: Expr) -> Expr:
        return replace(
            expr, phases=tuple(tuple(map(without_span, phase)) for phase in expr.phases), span=None
        )

    return without_span(parse_source(Source(DEFAULT_ENTRYPOINT)))


def with_own_names(expr: Expr, node: str) -> Expr:
    """Tell what registers instances under which name, where it says none itself."""
    phases = tuple(tuple(with_own_names(child, node) for child in phase) for phase in expr.phases)
    given = expr.given
    if expr.kind == "create" and expr.name in REGISTERS:
        name = f"node.{node}" if expr.name == "Register" else node
        given = (*given, Argument("name", Value("object", name)))
    return replace(expr, phases=phases, given=given)
