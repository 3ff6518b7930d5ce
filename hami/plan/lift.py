"""Operators inside an expression become nodes of their own: `S[A, ForEach(...), B]` is a chain of three.

An operator directs the graph and holds no thread, so it cannot run inside an instance. `lift` cuts the
expanded expression of a node at its operators; hami.plan makes one node of the core from each segment. `Loop`
and `Restart` become the nodes that they stand for. Pure: it knows of backends only which are operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ..parser import Argument, Expr

IsOperator = Callable[[Expr], bool]


@dataclass
class Segment:
    """A part of a node's expression that is a node for the core: one operator, or what an instance computes.

    `is_or`: it runs only where its predecessor gave no result. `again` (of a Restart): the segment, by its
    position in the node, where a request goes round again unless it says where.
    """

    expr: Expr
    is_operator: bool = False
    is_or: bool = False
    again: int | None = None


class NestedOperatorError(Exception):
    """An operator stands where it cannot be cut out; `expr` is the operator."""

    def __init__(self, expr: Expr) -> None:
        super().__init__(expr.name)
        self.expr = expr


def lift(expr: Expr, is_operator: IsOperator) -> list[Segment]:
    """Return the segments of an expression, at least one. Raises NestedOperatorError."""
    segments = _Lift(is_operator).segments_of(expr, 0)
    segments[0].is_or = False  # nothing runs before the first one that could leave a result
    return segments


class _Lift:
    def __init__(self, is_operator: IsOperator) -> None:
        self.is_operator = is_operator

    def segments_of(self, expr: Expr, position: int) -> list[Segment]:
        """Return the segments of an expression whose first one is number `position` of the node."""
        operator = next((part for part in expr.walk() if self.is_operator(part)), None)
        if operator is None:
            return [Segment(expr)]
        prefix = _prefix(expr)
        if prefix not in ("", "or") or (prefix and expr.phases):
            raise NestedOperatorError(operator)
        plain = replace(expr, prefix=())
        if expr.name == "Loop":
            return self._loop(plain, position)
        if expr.name == "Restart" and expr.phases:
            return self._rounds(plain, self._chain(expr.children, position), position)
        if expr.name == "S":
            return self._chain(expr.children, position)
        if operator is expr and not expr.phases:
            return [Segment(plain, is_operator=True, is_or=bool(prefix))]
        raise NestedOperatorError(operator)

    def _chain(self, stages: Sequence[Expr], position: int) -> list[Segment]:
        """Return the segments of stages that run one after another; stages that compute stay together."""
        segments: list[Segment] = []
        together: list[Expr] = []
        for stage in self._flat(stages):
            computes = self._computes(stage)
            if computes and (together or _prefix(stage) != "or"):
                together.append(stage)
                continue
            segments += _computing(together)
            together = []
            if computes:
                segments.append(Segment(replace(stage, prefix=()), is_or=True))
            else:
                segments += self.segments_of(stage, position + len(segments))
        return segments + _computing(together)

    def _computes(self, expr: Expr) -> bool:
        return not any(self.is_operator(part) for part in expr.walk())

    def _flat(self, stages: Sequence[Expr]) -> Iterator[Expr]:
        """Yield the stages, those of a sequence that must be cut one by one."""
        for stage in stages:
            if stage.name == "S" and not stage.prefix and not self._computes(stage):
                yield from self._flat(stage.children)
            else:
                yield stage

    def _loop(self, loop: Expr, position: int) -> list[Segment]:
        process, condition = loop.children
        check = Expr("LoopCondition", phases=((condition,),), span=loop.span)
        return self._rounds(loop, self._chain((process, check), position), position)

    def _rounds(self, expr: Expr, body: list[Segment], position: int) -> list[Segment]:
        """Return the body, and the Restart that sends a request back to where it begins."""
        restart = replace(expr, name="Restart", phases=())
        return [*body, Segment(restart, is_operator=True, again=position)]


def _computing(stages: Sequence[Expr]) -> list[Segment]:
    if not stages:
        return []
    only = stages[0] if len(stages) == 1 and not stages[0].prefix else None
    return [Segment(only or Expr("S", phases=(tuple(stages),), span=stages[0].span))]


def _prefix(expr: Expr) -> str:
    """Return `or`, an empty text, or another text for every other prefix."""
    if not expr.prefix:
        return ""
    return "or" if _is_or(expr.prefix) else "other"


def _is_or(prefix: tuple[Argument, ...]) -> bool:
    return len(prefix) == 1 and prefix[0].name is None and prefix[0].value.value == "or"
