"""The syntax tree of a bracket expression.

Immutable and made of plain data; parse.py makes it, expand.py rewrites it, hami.plan turns it into backends.
Positions do not take part in comparisons, so two texts that mean the same are equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from ..errors import Span

ValueKind = Literal["string", "number", "bool", "text", "placeholder", "object"]

# create: make a backend of this class. bound: the one made in phase 1 of an enclosing IoC. instance: a
# registered instance. name: an instance of that name if the pipeline has one, else a class.
ExprKind = Literal["create", "bound", "instance", "name"]


@dataclass(frozen=True, slots=True)
class Value:
    """One argument value.

    `value` is the text, number or bool; of a placeholder the parameter's name; of an object (what a
    placeholder became) any Python value. `raw` is the text as it was written.
    """

    kind: ValueKind
    value: Any
    raw: str = field(default="", compare=False)
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Argument:
    """A positional (`name` is None) or a keyword argument."""

    name: str | None
    value: Value
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Expr:
    """`(prefix)name(args)[phases]`.

    `phases` holds the children: one tuple, or the two phases of IoC. `given` are keyword arguments handed
    down by the macro that this backend came from. `span` covers the name.
    """

    name: str
    args: tuple[Argument, ...] = ()
    phases: tuple[tuple[Expr, ...], ...] = ()
    prefix: tuple[Argument, ...] = ()
    kind: ExprKind = "create"
    given: tuple[Argument, ...] = ()
    span: Span | None = None

    @property
    def children(self) -> tuple[Expr, ...]:
        """All children, those of phase 1 first."""
        return tuple(child for phase in self.phases for child in phase)

    @property
    def is_bare(self) -> bool:
        """Whether it is a name and nothing else."""
        return not (self.args or self.phases or self.prefix)

    def walk(self) -> Iterator[Expr]:
        """Yield this expression and everything inside it, outermost first, in written order."""
        waiting = [self]
        while waiting:
            expr = waiting.pop()
            yield expr
            waiting.extend(reversed(expr.children))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Expr):
            return NotImplemented
        return self._outline() == other._outline()

    def __hash__(self) -> int:
        return hash(tuple(self._outline()))

    def _outline(self) -> list[tuple[object, ...]]:
        """Return what equality is about, flat, so that comparing needs no recursion."""
        return [
            (part.name, part.args, part.prefix, part.kind, tuple(len(phase) for phase in part.phases))
            for part in self.walk()
        ]

    def __deepcopy__(self, memo: object) -> Expr:
        return self  # immutable, and copying a deep tree would need deep recursion

    def __str__(self) -> str:
        from .render import to_text

        return to_text(self)

    def __repr__(self) -> str:
        return f"Expr({str(self)!r})"
