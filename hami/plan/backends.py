"""Expanded Expr -> PlannedBackend: every name is a known class, every parameter has its value.

One NodePlanner per node. `expand` comes first for all nodes, because names may mean instances that another
node registers; `build` then makes the tree that the core gets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..backend import (
    FAMILIES,
    Declaration,
    Param,
    WithPlans,
    declarations,
)
from ..config import NodeConfig
from ..errors import ConfigError, Source, did_you_mean, nearest, quoted
from ..parser import Argument, Expr, Value, parse_source
from ..parser.expand import Expansion
from ..parser.render import prefix_text
from ..plugins import find, known_names, loaded_files
from .deployment import KEY as DEPLOYMENT
from .deployment import deployment_options
from .entrypoint import REGISTERS, default_entrypoint, with_own_names
from .handed import plan_alone, refuse_names_from_outside
from .keys import GLOBAL_PARAMS, NODE_PARAMS, convert_setting, node_values, rows_in_shapes
from .lift import NestedOperatorError, Segment, lift
from .planned import PlannedBackend
from .prefixes import known_condition, refuse_misplaced
from .values import BadValueError, convert


class NodePlanner:
    """Plans the expressions of one node."""

    def __init__(self, node: NodeConfig, directory: str | None, imports: tuple[str, ...] = ()) -> None:
        self.node = node
        self.directory = directory
        self.imports = imports
        self.settings = {**node.inherited, **node.settings}
        self.segments: list[Segment] = []
        self.known: set[str] = set()
        self.takes_any_key = False
        self.values: dict[str, Any] = {}
        self.deployment: dict[str, Any] | None = None
        self._declarations: dict[str, Declaration] = {}
        self._handed_down: dict[int, tuple[Argument, Expr]] = {}
        self._taken: set[int] = set()

    def segment_name(self, index: int) -> str:
        """Return the name of the core's node for a segment; the first one has the node's own."""
        return self.node.name if index == 0 else f"{self.node.name}#{index + 1}"

    def append_restart(self, restart: Expr) -> PlannedBackend:
        """Add a Restart behind everything else."""
        self._look_up_all(restart)
        self.segments.append(Segment(restart, is_operator=True))
        return self.build(restart, {})

    @property
    def is_restart(self) -> bool:
        """Whether the node ends with a Restart, so that its `next` may lead back."""
        return self.segments[-1].is_operator and self.segments[-1].expr.name == "Restart"

    # --- expansion -------------------------------------------------------------------------------

    def expand(self) -> None:
        """Expand the node's expression, look up its classes, and find out which keys the node knows."""
        entrypoint = self._entrypoint()
        expansion = self._expansion(self.node.name)
        whole = expansion.expand(entrypoint)
        if "backend" in expansion.reads and "backend" in self.settings:
            backend = self._expansion(self.node.name).expand(Expr("BackendProxy"))
            self._look_up_all(backend)
            self.segments = self._lift(backend)
            self._enclose(entrypoint, expansion)
        else:
            self._look_up_all(whole)
            self.segments = self._lift(whole)
        for index, segment in enumerate(self.segments):
            segment.expr = with_own_names(segment.expr, self.segment_name(index))
        self._refuse_hidden_macros(expansion)
        self._refuse_nested_operators()
        for segment in self.segments:
            refuse_misplaced(segment.expr)
        reads = expansion.reads - {"node_name"}
        self.known = {*NODE_PARAMS, *reads}
        for declaration in self._declarations.values():
            self.known.update(p.name for p in declaration.params if not _is_own_name(declaration, p))
            self.takes_any_key |= declaration.takes_any_key
        self._refuse_unknown_keys()
        self._refuse_misspelt_reflects(expansion)
        self.rows = rows_in_shapes(self.settings, self._declarations.values())
        self.values = node_values(self.node, self.rows)
        self.deployment = deployment_options(self.node.settings.get(DEPLOYMENT))

    def _entrypoint(self) -> Expr:
        """Return the expression of how the node is built, its own or the default."""
        if "backend" in self.settings:
            convert_setting(NODE_PARAMS["backend"], self.settings["backend"])
        setting = self.node.find("node_entrypoint")
        if setting is not None:
            text = convert_setting(NODE_PARAMS["node_entrypoint"], setting)
            return parse_source(setting.source or Source(text, setting.where))
        if "backend" not in self.settings:
            message = f"node `{self.node.name}` has no `backend`"
            raise self.node.error("plan-missing-backend", message, 'write for example `backend = "Identity"`')
        return default_entrypoint()

    def _is_operator(self, expr: Expr) -> bool:
        found = self._declarations.get(expr.name) if expr.kind in ("create", "name") else None
        return found is not None and found.is_operator

    def _lift(self, backend: Expr) -> list[Segment]:
        for part in backend.walk():
            if self._is_operator(part):
                self._check_children(part, self._declarations[part.name])
        try:
            return lift(backend, self._is_operator)
        except NestedOperatorError as nested:
            raise self._nested_operator(nested.expr) from None

    def _enclose(self, entrypoint: Expr, expansion: Expansion) -> None:
        """Put the entrypoint around the segments that compute."""
        for index, segment in enumerate(self.segments):
            if not segment.is_operator:
                is_whole = len(self.segments) == 1
                own = self._expansion(self.segment_name(index), None if is_whole else segment.expr)
                segment.expr = own.expand(entrypoint)
                expansion.macros.update(own.macros)
            self._look_up_all(segment.expr)

    def _expansion(self, name: str, backend: Expr | None = None) -> Expansion:
        values = {key: setting.value for key, setting in self.settings.items()}
        sources = {
            key: setting.source for key, setting in self.settings.items() if setting.source is not None
        }
        values["node_name"] = name
        return Expansion(self.node.name, values, sources, self.node.where, backend=backend)

    def _look_up_all(self, expr: Expr) -> None:
        for part in expr.walk():
            condition = known_condition(part)
            if condition is not None:
                self._declarations.setdefault(condition.name, self._look_up(condition))
            if part.name in self._declarations or part.kind not in ("create", "name"):
                continue
            found = self._look_up(part) if part.kind == "create" else find(part.name)
            if found is not None:
                self._declarations[part.name] = found

    def _look_up(self, expr: Expr) -> Declaration:
        name = expr.name
        try:
            found = find(name)
        except ConfigError as error:
            raise self._error(expr, error.code, error.message, error.help) from error
        if found is not None:
            return found
        help = did_you_mean(name, known_names(), cutoff=0.4, otherwise="run `hami backends` for the list")
        raise self._error(expr, "plan-unknown-backend", f"there is no backend `{name}`", help)

    def _error(
        self, expr: Expr, code: str, message: str, help: str, argument: Argument | None = None
    ) -> ConfigError:
        span = (argument.span if argument is not None else None) or expr.span
        if span is not None:
            return span.error(code, message, help)
        return ConfigError(message, code=code, where=self.node.where, help=help)

    def _refuse_hidden_macros(self, expansion: Expansion) -> None:
        taken = {*declarations(), *FAMILIES}
        for name, use in expansion.macros.items():
            if name in taken:
                message = f"`{name}` is both a macro and a backend"
                raise self._error(use, "plan-hidden-backend", message, "give the macro another name")

    def _refuse_nested_operators(self) -> None:
        for segment in self.segments:
            for part in segment.expr.walk():
                if self._is_operator(part) and part is not segment.expr:
                    raise self._nested_operator(part)

    def _nested_operator(self, operator: Expr) -> ConfigError:
        message = f"`{operator.name}` directs the graph, so it cannot run inside another backend"
        help = f"make `{operator.name}` a stage of `S`, `Loop` or `Restart`, or give it a node of its own"
        return self._error(operator, "plan-nested-operator", message, help)

    def _refuse_unknown_keys(self) -> None:
        if self.takes_any_key:
            return
        for key, setting in self.node.settings.items():
            if key not in self.known:
                message = f"node `{self.node.name}` has no parameter `{key}`"
                help = f"`{key}` belongs to the whole pipeline: write it above the first table"
                if key not in GLOBAL_PARAMS:
                    known = f"it has {quoted(sorted(self.known), limit=20)}"
                    help = did_you_mean(key, self.known, cutoff=0.4, otherwise=known)
                if isinstance(setting.value, dict) and "backend" in setting.value:
                    help = "the `backend` beside the tables makes all of it one node: move it into a table"
                raise setting.error("config-unknown-key", message, help, at_value=False)

    def _refuse_misspelt_reflects(self, expansion: Expansion) -> None:
        """Refuse a Reflect whose parameter is not set while one with nearly its name is."""
        unread = {key for key in self.settings if key not in expansion.reads}
        for name in expansion.unset:
            near = nearest(name.name, unread, cutoff=0.75)
            if near:
                message = f"node `{self.node.name}` has no parameter `{name.name}`"
                raise self._error(name, "expand-unset-parameter", message, f"did you mean `{near[0]}`?")

    # --- instances -------------------------------------------------------------------------------

    def registered(self) -> dict[str, Expr]:
        """Return the names of the instances that this node registers."""
        found: dict[str, Expr] = {}
        parts = (part for segment in self.segments for part in segment.expr.walk())
        for part in parts:
            if part.kind != "create" or part.name not in REGISTERS:
                continue
            name = str(self._own_params(part, self._declarations[part.name])["name"])
            num_instances = self.values.get("instance_num", 1)
            names = [name] if part.name == "Register" else [f"{name}.{i}" for i in range(num_instances)]
            for registered in names:
                if registered in found:
                    message = f"two backends of node `{self.node.name}` are registered as `{registered}`"
                    raise self._error(
                        part, "plan-duplicate-instance", message, "name one: `Register(name=other)[X]`"
                    )
                found[registered] = part
        return found

    # --- parameters ------------------------------------------------------------------------------

    def build(self, expr: Expr, instances: Mapping[str, Any]) -> PlannedBackend:
        """Return the tree for an expression whose names are all decided."""
        where = expr.span.where if expr.span is not None else self.node.where
        prefix = prefix_text(expr) if expr.prefix else None
        question = known_condition(expr)
        condition = None if question is None else self.build(question, instances)
        if expr.kind != "create":
            python = instances.get(expr.name) if expr.kind == "instance" else None
            # an object of Python is not in the core's scope: it goes there like a class, as its own instance
            kind = expr.kind if python is None else "create"
            return PlannedBackend(
                expr.name, kind, prefix=prefix, where=where, python=python, condition=condition
            )
        declaration = self._declarations.get(expr.name) or self._look_up(expr)
        self._check_children(expr, declaration)
        params = self._all_values() if declaration.takes_any_key else {}
        params.update(self._own_params(expr, declaration))
        children = [self.build(self._with_model(expr, child), instances) for child in expr.children]
        num_phase1 = len(expr.phases[0]) if expr.name == "IoC" else 0
        python = declaration.python
        if declaration.takes_plans:
            refuse_names_from_outside(expr, where)
            plans = tuple(plan_alone(child.to_core(), self._all_values()) for child in children)
            python, children = WithPlans(python, plans, (*self.imports, *loaded_files())), []
        return PlannedBackend(
            expr.name,
            "create",
            params,
            tuple(children),
            num_phase1,
            prefix,
            where,
            python,
            condition,
            declaration.is_condition,
        )

    def _with_model(self, expr: Expr, child: Expr) -> Expr:
        """Hand the arguments of a ModelLoader on to whoever loads."""
        if expr.name != "ModelLoader" or not expr.args:
            return child
        (argument,) = self._bind_arguments(expr, self._declarations[expr.name]).values()
        return replace(child, given=(*child.given, replace(argument, name="model")))

    def refuse_unused_macro_arguments(self) -> None:
        """Refuse a keyword of a macro that none of its backends declares; call after `build`."""
        for key, (argument, expr) in self._handed_down.items():
            if key not in self._taken:
                message = f"no backend of the macro declares `{argument.name}`"
                raise self._error(
                    expr, "plan-unknown-argument", message, "remove it, or correct its name", argument
                )

    def _all_values(self) -> dict[str, Any]:
        return {**self.values, "node_name": self.node.name}

    def _check_children(self, expr: Expr, declaration: Declaration) -> None:
        num, low, high = len(expr.children), declaration.min_children, declaration.max_children
        if num < low or 0 <= high < num:
            wanted = f"{low}" if low == high else f"at least {low}" if high < 0 else f"{low} to {high}"
            message = (
                f"`{expr.name}` takes {wanted if high else 'no'} backends inside its brackets, got {num}"
            )
            raise self._error(expr, "plan-num-children", message, f"run `hami backends {expr.name}`")

    def _own_params(self, expr: Expr, declaration: Declaration) -> dict[str, Any]:
        """Resolve every declared parameter: own arguments, the macro's, the node's, the default."""
        own = self._bind_arguments(expr, declaration)
        for argument in expr.given:
            self._handed_down.setdefault(id(argument), (argument, expr))
            if declaration.takes_any_key or declaration.find(argument.name or ""):
                self._taken.add(id(argument))
                own.setdefault(argument.name or "", argument)
        params: dict[str, Any] = {}
        for param in declaration.params:
            mine = own.pop(param.name, None)
            is_own_name = _is_own_name(declaration, param)
            setting = None if is_own_name else self.settings.get(param.name)
            if param.type == "int":
                setting = self.rows.get(param.name, setting)
            if mine is not None:
                params[param.name] = self._convert(expr, param, mine)
            elif setting is not None:
                params[param.name] = convert_setting(param, setting, self.directory)
            elif param.required:
                help = f"write `{param.name}` at node `{self.node.name}`, or `{expr.name}({param.name}=...)`"
                message = f"`{expr.name}` needs `{param.name}`" + (f": {param.doc}" if param.doc else "")
                raise self._error(expr, "plan-missing-parameter", message, help)
            else:
                params[param.name] = param.default
        params.update({name: _plain(argument.value, "any") for name, argument in own.items()})
        return params

    def _bind_arguments(self, expr: Expr, declaration: Declaration) -> dict[str, Argument]:
        own: dict[str, Argument] = {}
        for index, argument in enumerate(expr.args):
            name = argument.name
            if name is None:
                if index >= len(declaration.params):
                    takes = f"at most {len(declaration.params)}" if declaration.params else "no"
                    message = f"`{expr.name}` takes {takes} positional arguments"
                    help = f"run `hami backends {expr.name}`"
                    raise self._error(expr, "plan-too-many-arguments", message, help, argument)
                name = declaration.params[index].name
            elif declaration.find(name) is None and not declaration.takes_any_key:
                names = [param.name for param in declaration.params]
                otherwise = f"it has {quoted(names)}" if names else "remove it"
                help = did_you_mean(name, names, cutoff=0.4, otherwise=otherwise)
                message = f"`{expr.name}` has no parameter `{name}`"
                raise self._error(expr, "plan-unknown-argument", message, help, argument)
            if name in own:
                message = f"`{name}` of `{expr.name}` is given by position and by name"
                raise self._error(expr, "plan-duplicate-argument", message, "remove one of them", argument)
            own[name] = argument
        return own

    def _convert(self, expr: Expr, param: Param, argument: Argument) -> Any:
        try:
            return convert(param, _plain(argument.value, param.type), self.directory)
        except BadValueError as bad:
            raise self._error(
                expr, "plan-bad-value", f"{bad} for `{expr.name}`", bad.help, argument
            ) from None


def _is_own_name(declaration: Declaration, param: Param) -> bool:
    return param.name == "name" and declaration.name in REGISTERS and declaration.python is None


def _plain(value: Value, wanted: str) -> Any:
    """Return an argument as a Python value; where text is wanted, a bare number is the text as written."""
    if wanted in ("str", "path", "list") and value.kind in ("number", "bool"):
        return value.raw
    return value.value


def find_operator_target(backend: PlannedBackend) -> str | None:
    """Return the node that an operator at the top of a node enters."""
    target = backend.params.get("target")
    return target if isinstance(target, str) else None
