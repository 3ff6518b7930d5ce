"""Expr -> Expr: what the short forms stand for.

Old spellings become today's names, macros their definitions, `{placeholders}` and `Reflect[...]` the node's
parameters, and bare names the instance that an enclosing IoC made. hami.plan calls `expand` per node, and
`resolve_instances` once it knows which instances all nodes register. Nothing here knows which backends exist.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from ..errors import Source, Span, did_you_mean, quoted
from .aliases import NAMING_FORMS, canonical, error_at, expand_macro, find_macro, refuse_phases
from .expr import Argument, Expr, Value
from .parse import MAX_NESTING, parse_source

MAX_BACKENDS = 10_000

_PLACEHOLDER = re.compile(r"\{([^\W\d]\w*)\}")
# `#` occurs in no text: it sets apart the parts of a node (`node.detect#2`).
_NAME = re.compile(r"[^\W\d]\w*(?:(?:::|\.)[\w#-]+)*")


@dataclass
class Scope:
    """What one IoC makes in phase 1: `made` maps the names it is known by to classes, `later` is yet to
    come."""

    made: dict[str, str] = field(default_factory=dict)
    later: set[str] = field(default_factory=set)


@dataclass(frozen=True)
class Place:
    """Where an expression stands.

    `is_nameable`: a bare name here may mean an instance; `is_phase2`: so it does anywhere below; `depth`
    counts the levels above.
    """

    scopes: tuple[Scope, ...] = ()
    is_nameable: bool = False
    is_phase2: bool = False
    depth: int = 0

    def inside(self, *, is_nameable: bool | None = None) -> Place:
        """Return the place of a child."""
        nameable = self.is_phase2 if is_nameable is None else is_nameable
        return replace(self, is_nameable=nameable, depth=self.depth + 1)


@dataclass
class Expansion:
    """Expands the expressions of one node, and notes what they read.

    `values` are the node's parameters, `sources` the texts of those that came from a text, `where` stands in
    front of errors about something without a position. `backend` stands for the parameter of that name
    where it was expanded before. `reads` are the parameters that were looked for,
    `unset` the Reflects whose parameter is not set, `macros` the macros that were used.
    """

    node: str
    values: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, Source] = field(default_factory=dict)
    where: str = ""
    reads: set[str] = field(default_factory=set)
    unset: list[Expr] = field(default_factory=list)
    macros: dict[str, Expr] = field(default_factory=dict)
    num_backends: int = 0
    backend: Expr | None = None
    _reflecting: list[str] = field(default_factory=list)

    def expand(self, expr: Expr) -> Expr:
        """Return the expression with all short forms replaced.

        Kind `name` is left to `resolve_instances`; other kinds are final, except that instances are not
        looked up.
        """
        return self._expand(expr, Place())

    def _fail(self, expr: Expr, code: str, message: str, help: str, span: Span | None = None) -> NoReturn:
        raise error_at(span or expr.span, self.where or self.node, code, message, help)

    def _expand(self, expr: Expr, place: Place) -> Expr:
        self.num_backends += 1
        if place.depth > MAX_NESTING or self.num_backends > MAX_BACKENDS:
            message = f"this expands to more than {MAX_NESTING} levels or {MAX_BACKENDS} backends"
            self._fail(expr, "expand-too-large", message, "define simpler macros")
        expr = replace(
            expr,
            name=self._fill_name(expr),
            args=self._fill(expr, expr.args),
            prefix=self._fill(expr, expr.prefix),
        )
        if place.is_nameable and expr.is_bare:
            bound = self._find_bound(expr, place.scopes)
            if bound is not None:
                return bound
        macro = find_macro(expr.name)
        if macro is not None:
            self.macros.setdefault(expr.name, expr)
            return self._expand(expand_macro(macro, expr), replace(place, depth=place.depth + 1))
        expr = replace(expr, name=canonical(expr.name))
        if expr.name in ("Reflect", "BackendProxy"):
            return self._reflect(expr, place)
        if expr.name == "InstanceFromParam":
            return self._instance_from_param(expr)
        if expr.name == "IoC":
            return self._ioc(expr, place)
        if expr.name == "Forward":
            return self._forward(expr, place)
        refuse_phases(expr)
        if place.is_nameable and expr.is_bare:
            return replace(expr, kind="name")
        inside = place.inside(is_nameable=True if expr.name == "DI" else None)
        children = []
        for child in expr.children:
            children.append(self._expand(child, inside))
        return replace(expr, phases=(tuple(children),) if children else ())

    # --- parameters ------------------------------------------------------------------------------

    def _look_up(self, expr: Expr, name: str, span: Span | None) -> Any:
        self.reads.add(name)
        if name not in self.values:
            help = did_you_mean(name, self.values, otherwise=f"set `{name}` at the node")
            self._fail(
                expr, "expand-unset-parameter", f"node `{self.node}` has no parameter `{name}`", help, span
            )
        return self.values[name]

    def _fill_name(self, expr: Expr) -> str:
        if "{" not in expr.name:
            return expr.name
        name = _PLACEHOLDER.sub(lambda match: str(self._look_up(expr, match[1], expr.span)), expr.name)
        if not _NAME.fullmatch(name):
            help = "a placeholder in a name stands for a part of the name; `Reflect[...]` takes an expression"
            self._fail(expr, "expand-bad-name", f"`{expr.name}` becomes `{name}`, which is no name", help)
        return name

    def _fill(self, expr: Expr, arguments: tuple[Argument, ...]) -> tuple[Argument, ...]:
        return tuple(
            replace(argument, value=self._fill_value(expr, argument.value)) for argument in arguments
        )

    def _fill_value(self, expr: Expr, value: Value) -> Value:
        if value.kind == "placeholder":
            return replace(value, kind="object", value=self._look_up(expr, value.value, value.span))
        if value.kind != "text" or "{" not in value.value:
            return value
        text = _PLACEHOLDER.sub(lambda match: str(self._look_up(expr, match[1], value.span)), value.value)
        return value if text == value.value else replace(value, value=text, raw=text)

    def _parameter_name(self, expr: Expr, max_children: int) -> str:
        """Return p of `Reflect[p, ...]`."""
        children = expr.children
        if (
            expr.args
            or not 1 <= len(children) <= max_children
            or not children[0].is_bare
            or len(expr.phases) > 1
        ):
            form = "Reflect[parameter, Default]" if max_children == 2 else f"{expr.name}[parameter]"
            self._fail(
                expr, "expand-bad-form", f"`{expr.name}` needs the name of a parameter", f"write `{form}`"
            )
        return self._fill_name(children[0])

    def _reflect(self, expr: Expr, place: Place) -> Expr:
        """Replace Reflect by the expression that its parameter holds."""
        if expr.name == "BackendProxy":
            if expr.args or expr.phases:
                self._fail(
                    expr,
                    "expand-bad-form",
                    "`BackendProxy` takes nothing",
                    "write `Reflect[parameter, Default]`",
                )
            name, default = "backend", None
        else:
            name = self._parameter_name(expr, 2)
            default = expr.children[1] if len(expr.children) == 2 else Expr("Identity", span=expr.span)
        self.reads.add(name)
        if name == "backend" and self.backend is not None:
            return replace(self.backend, prefix=expr.prefix or self.backend.prefix)
        below = replace(place, depth=place.depth + 1)
        if name not in self.values:
            if default is None:
                help = f'write for example `{name} = "Identity"`'
                self._fail(expr, "expand-unset-parameter", f"node `{self.node}` has no `{name}`", help)
            if expr.phases:
                self.unset.append(expr.children[0])
            return self._expand(replace(default, prefix=expr.prefix or default.prefix), below)
        text = self.values[name]
        if not isinstance(text, str):
            help = f'write the expression as text: `{name} = "Identity"`'
            message = f"`{name}` of node `{self.node}` must be an expression, got `{text!r}`"
            self._fail(expr, "expand-bad-expression", message, help)
        if name in self._reflecting:
            self._fail(
                expr, "expand-cycle", f"the expression in `{name}` contains itself", "remove the inner use"
            )
        parsed = parse_source(self.sources.get(name) or Source(text, name=f"{self.node}.{name}"))
        self._reflecting.append(name)
        result = self._expand(replace(parsed, prefix=expr.prefix or parsed.prefix), below)
        self._reflecting.pop()
        return result

    def _instance_from_param(self, expr: Expr) -> Expr:
        name = self._parameter_name(expr, 1)
        value = self._look_up(expr, name, expr.children[0].span)
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            message = f"`{name}` of node `{self.node}` must name an instance, got `{value!r}`"
            self._fail(expr, "expand-bad-name", message, "write a name such as `node.detect`")
        return Expr(value, prefix=expr.prefix, kind="instance", span=expr.span)

    # --- names -----------------------------------------------------------------------------------

    def _find_bound(self, expr: Expr, scopes: tuple[Scope, ...]) -> Expr | None:
        """Return the phase-1 instance that the name means, the innermost IoC first."""
        name = canonical(expr.name)
        for scope in reversed(scopes):
            if name in scope.made:
                return replace(expr, name=scope.made[name], kind="bound")
            if name in scope.later:
                message = f"`{expr.name}` is made later in this phase"
                self._fail(
                    expr, "expand-made-later", message, f"write `{expr.name}` before the item that uses it"
                )
        return None

    def _ioc(self, expr: Expr, place: Place) -> Expr:
        if len(expr.phases) != 2:
            message = f"`IoC` needs two phases, got {len(expr.phases)}"
            self._fail(expr, "expand-ioc-phases", message, "write `IoC[A, B; F]`: A and B are made, F runs")
        first, second = expr.phases
        if len(second) != 1:
            message = f"phase 2 of `IoC` is one expression, got {len(second)}"
            self._fail(
                expr,
                "expand-ioc-phases",
                message,
                "put them into a container: `IoC[A; S[B, C]]`",
                second[1].span,
            )
        scope = Scope()
        within = replace(place.inside(is_nameable=False), scopes=(*place.scopes, scope))
        made: list[Expr] = []
        for index, item in enumerate(first):
            scope.later = {canonical(later.name) for later in first[index + 1 :]}
            result = self._expand(item, within)
            if any(result.name == other.name for other in made):
                message = f"two items of phase 1 are `{result.name}`, so its name means neither"
                self._fail(expr, "expand-ioc-duplicate", message, "keep one of them", item.span)
            made.append(result)
            scope.made[canonical(item.name)] = scope.made[result.name] = result.name
        scope.later = set()
        runs = self._expand(second[0], replace(within, is_nameable=True, is_phase2=True))
        return replace(expr, phases=(tuple(made), (runs,)))

    def _forward(self, expr: Expr, place: Place) -> Expr:
        """Resolve the one name inside Forward: made in phase 1, else a registered instance."""
        if len(expr.children) != 1 or len(expr.phases) > 1:
            self._fail(
                expr, "expand-bad-form", "`Forward` needs the name of one instance", "write `Forward[name]`"
            )
        child = expr.children[0]
        child = replace(child, name=self._fill_name(child))
        bound = self._find_bound(child, place.scopes) if child.is_bare else None
        if bound is None and canonical(child.name) in NAMING_FORMS:
            bound = self._expand(child, place.inside(is_nameable=True))
        target = bound or child
        if not target.is_bare:
            self._fail(
                expr,
                "expand-bad-form",
                "`Forward` takes a name, not an expression",
                "write `Forward[name]`",
                child.span,
            )
        kind = target.kind if target.kind == "bound" else "instance"
        return replace(expr, phases=((replace(target, kind=kind),),))


def resolve_instances(expr: Expr, instances: Collection[str], where: str) -> Expr:
    """Decide what the names left by `expand` mean, now that the pipeline's instances are known.

    A `name` becomes that instance or a class; an `instance` that does not exist is a ConfigError.
    """
    if expr.kind == "name":
        return replace(expr, kind="instance" if expr.name in instances else "create")
    if expr.kind == "instance" and expr.name not in instances:
        known = (
            f"the instances are {quoted(sorted(instances))}" if instances else "this pipeline registers none"
        )
        help = did_you_mean(expr.name, instances, otherwise=known)
        raise error_at(
            expr.span, where, "expand-unknown-instance", f"there is no instance `{expr.name}`", help
        )
    phases = []
    for phase in expr.phases:
        phases.append(tuple([resolve_instances(child, instances, where) for child in phase]))
    return replace(expr, phases=tuple(phases))
