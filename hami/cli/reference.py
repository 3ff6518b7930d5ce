"""What `hami backends` prints, all of it from the declarations of the backends."""

from __future__ import annotations

from typing import Any

from ..backend import FAMILY_CLASSES, Declaration, Param, declarations, load_family
from ..errors import ConfigError, did_you_mean
from ..installed import promises
from ..parser import ALIASES, canonical, macro_text
from ..plugins import fetch, find, known_names

# What the language itself replaces, so that no class of that name exists.
FORMS = {
    "Reflect": "The expression in a parameter: `Reflect[parameter, Default]`.",
    "BackendProxy": "The expression in the parameter `backend`.",
    "InstanceFromParam": "The instance that a parameter names: `InstanceFromParam[parameter]`.",
}


def families() -> tuple[dict[str, list[Declaration]], dict[str, str], list[str]]:
    """Return all declarations by family, for each family that cannot be loaded the reason, and the errors of
    packages that promise backends and cannot load them."""
    missing: dict[str, str] = {}
    for family in FAMILY_CLASSES:
        try:
            load_family(family)
        except ConfigError as error:
            missing[family] = error.help
    found: dict[str, list[Declaration]] = {}
    broken = _fetch_all()
    for declaration in sorted(declarations().values(), key=lambda one: one.name):
        found.setdefault(declaration.family or "other", []).append(declaration)
    return dict(sorted(found.items())), missing, broken


def _fetch_all() -> list[str]:
    """Load what installed packages promise, and return the errors."""
    broken: list[str] = []
    for name in sorted(promises().keys() - declarations().keys()):
        try:
            fetch(name)
        except ConfigError as error:
            broken.append(str(error))
    return broken


def list_text(is_all: bool) -> str:
    """Return the list of backends by family, one a line."""
    found, missing, broken = families()
    blocks = []
    for family, members in found.items():
        shown = [member for member in members if is_all or not member.is_hidden]
        if shown:
            blocks.append("\n".join([f"{family}:", *(_row(member.name, member.doc) for member in shown)]))
    blocks.append("\n".join(["forms of the language:", *(_row(name, doc) for name, doc in FORMS.items())]))
    for family, help in missing.items():
        blocks.append(
            "\n".join(
                [f"{family} (not installed: {help}):", *(f"  {name}" for name in FAMILY_CLASSES[family])]
            )
        )
    return "\n\n".join([*blocks, *broken])


def _row(name: str, doc: str) -> str:
    return f"  {name:<22}{doc}".rstrip()


def backend_text(name: str) -> str:
    """Return everything about one backend. Raises ConfigError for an unknown name."""
    macro = macro_text(name)
    if macro is not None:
        return f"{name} = {macro}\n\nA macro."
    real = canonical(name)
    if real in FORMS:
        return f"{real}\n\n{FORMS[real]}"
    declaration = find(real)
    if declaration is None:
        help = did_you_mean(
            name, [*known_names(), *FORMS], cutoff=0.4, otherwise="run `hami backends` for the list"
        )
        raise ConfigError(
            f"there is no backend `{name}`", code="plan-unknown-backend", where="hami backends", help=help
        )
    old = sorted(spelling for spelling, today in ALIASES.items() if today == real)
    lines = [signature(declaration), "", declaration.doc or "No description."]
    lines += [f"Also written {', '.join(old)}."] if old else []
    lines += [f"Needs: pip install hami-core[{declaration.extra}]"] if declaration.extra else []
    if declaration.params:
        lines += ["", "parameters, in the order of positional arguments:"]
        for param in declaration.params:
            lines.append(f"  {param.name}: {kind_text(param)}")
            lines += [f"      {param.doc}"] if param.doc else []
    elif declaration.takes_any_key:
        lines += ["", "It takes any key of its node."]
    return "\n".join(lines)


def signature(declaration: Declaration) -> str:
    """Return `Name(a, b=1)[...]`."""
    parts = [
        param.name if param.required else f"{param.name}={value_text(param.default)}"
        for param in declaration.params
    ]
    args = f"({', '.join(parts)})" if parts else ""
    low, high = declaration.min_children, declaration.max_children
    children = ""
    if high != 0:
        shown = [f"backend {i + 1}" if max(low, high) > 1 else "backend" for i in range(max(low, 1))]
        children = f"[{', '.join(shown + (['...'] if high < 0 or high > len(shown) else []))}]"
    return f"{declaration.name}{args}{children}"


def kind_text(param: Param) -> str:
    """Return type, unit, bounds and default of a parameter in words."""
    parts = [f"{param.type} in {param.unit}" if param.unit else param.type]
    if param.choices:
        parts.append("one of " + ", ".join(map(value_text, param.choices)))
    if param.min is not None:
        parts.append(f"at least {_number_text(param.min)}")
    if param.max is not None:
        parts.append(f"at most {_number_text(param.max)}")
    if param.required:
        parts.append("required")
    elif param.default is not None:
        parts.append(f"default {value_text(param.default)}")
    return ", ".join(parts)


def value_text(value: Any) -> str:
    """Return a default as it would be written in an expression."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    return _number_text(value) if isinstance(value, float) else str(value)


def _number_text(number: float) -> str:
    return str(int(number)) if float(number).is_integer() and abs(number) < 1e15 else f"{number:g}"
