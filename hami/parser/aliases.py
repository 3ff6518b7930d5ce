"""The one table of old spellings, and the macros that users define with `hami.alias`.

Both are process-wide, like the classes they name. expand.py applies them; any thread may define or look up
macros.
"""

from __future__ import annotations

import re
import sys
import threading
from dataclasses import dataclass, replace
from typing import Any

from ..errors import ConfigError, Source, Span
from .expr import Argument, Expr, Value
from .parse import parse_source

# spelling of the family -> name here
ALIASES = {
    "IoCV0": "IoC",
    "Sequential": "S",
    "S_v0": "S",
    "SequentialV0": "S",
    "Node": "Register",
    "Instances": "InstancesRegister",
    "ProxyFromParam": "Reflect",
    "DI_v0": "DI",
    "Aspect": "DI",
    "Block": "DI",
    "Proxy": "DI",
    "ModelLoadder": "ModelLoader",
    "DecodeMat": "DecodeImage",
    "ResizeMat": "ResizeImage",
    "Mat2Tensor": "ToTensor",
}

# The family's short forms of whole expressions, parsed when first used.
FAMILY_MACROS = {
    # An engine with all that stands around it; the parameter `post_processor` names what its output passes.
    "TensorrtTensor": (
        "IoC[ModelLoader[(.onnx)Onnx2Tensorrt,(.trt)LoadTensorrtEngine], TensorrtInferTensor;"
        "CatSplit[S[FixTensor,CatTensor],"
        "S[ContiguousTensor,TensorrtInferTensor,Reflect[post_processor]],SplitTensor]]"
    ),
}

# Their children are names, not backends, so they cannot take the children given to a macro.
NAMING_FORMS = frozenset({"Reflect", "BackendProxy", "InstanceFromParam", "Forward"})

_NAME = re.compile(r"[^\W\d]\w*(?:(?:::|\.)\w+)*")


@dataclass(frozen=True)
class Macro:
    """A name that stands for an expression; `given` are keyword arguments for the backends inside it."""

    name: str
    definition: str
    expr: Expr
    given: tuple[Argument, ...]
    module: str


_macros: dict[str, Macro] = {}
_lock = threading.Lock()


def canonical(name: str) -> str:
    """Return today's name for an old spelling, and any other name as it is."""
    return ALIASES.get(name, name)


def find_macro(name: str) -> Macro | None:
    """Return the macro of that name."""
    if name in FAMILY_MACROS and name not in _macros:
        definition = FAMILY_MACROS[name]
        expr = parse_source(Source(definition, name=f"alias {name}"))
        _macros.setdefault(name, Macro(name, definition, expr, (), __name__))
    return _macros.get(name)


def macro_names() -> list[str]:
    """Return the names of all macros, those of the family included."""
    return sorted({*_macros, *FAMILY_MACROS})


def macro_text(name: str) -> str | None:
    """Return the definition of a macro."""
    macro = find_macro(name)
    return None if macro is None else macro.definition


def alias(name: str, definition: str, **params: Any) -> None:
    """Define `name` as a short form of the expression `definition`, process-wide.

    `name[X]` hands X to the last, innermost backend of the definition; `params` become arguments of those of
    its backends that declare them. The module that defined a name may define it anew; anyone else gets a
    ConfigError, as does a definition that leads back to itself.
    """
    _check_arguments(name, definition)
    expr = parse_source(Source(definition, name=f"alias {name}"))
    given = tuple(Argument(key, Value("object", value)) for key, value in params.items())
    module = str(sys._getframe(1).f_globals.get("__name__", ""))
    macro = Macro(name, definition, expr, given, module)
    with _lock:
        old = _macros.get(name)
        if old is not None and old.module != module:
            if (old.expr, old.given) == (expr, given):
                return
            message = f"macro `{name}` is already `{old.definition}` (by `{old.module}`)"
            raise _refuse(name, message, "choose another name")
        _refuse_cycle(macro)
        _macros[name] = macro


def _check_arguments(name: object, definition: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _refuse(name, f"`{name}` is no name for a macro", "use letters, digits and `_`")
    if name in ALIASES or name in ALIASES.values() or name in NAMING_FORMS or name in FAMILY_MACROS:
        raise _refuse(name, f"`{name}` is a name of the language", "choose another name")
    if not isinstance(definition, str):
        raise _refuse(
            name, f"a definition is a text, got `{type(definition).__name__}`", "pass an expression"
        )


def _refuse(name: object, message: str, help: str) -> ConfigError:
    return ConfigError(message, code="alias-refused", where=f"alias {name}", help=help)


def _refuse_cycle(macro: Macro) -> None:
    """Refuse a definition from which its own name can be reached."""
    waiting, seen = [macro], set[str]()
    while waiting:
        for part in waiting.pop().expr.walk():
            if part.name == macro.name:
                raise _refuse(
                    macro.name, f"macro `{macro.name}` leads back to itself", "define it by other names"
                )
            following = _macros.get(part.name)
            if following is not None and part.name not in seen:
                seen.add(part.name)
                waiting.append(following)


def expand_macro(macro: Macro, use: Expr) -> Expr:
    """Return the definition in the place of `use`.

    Positional arguments go to the outermost backend of the definition, keywords to all of its backends,
    before those of the definition itself; the children go to the innermost.
    """
    keywords = tuple(argument for argument in use.args if argument.name is not None)
    own = {argument.name for argument in keywords}
    given = keywords + tuple(argument for argument in macro.given if argument.name not in own) + use.given
    positional = tuple(argument for argument in use.args if argument.name is None)
    body = _copy(macro.expr, given, use)
    if positional:
        first = tuple(argument for argument in body.args if argument.name is None)
        body = replace(body, args=first + positional + body.args[len(first) :])
    return replace(body, prefix=use.prefix or body.prefix)


def _copy(expr: Expr, given: tuple[Argument, ...], use: Expr) -> Expr:
    """Copy the last branch of a definition and give it the children of `use`; other branches only get
    `given`."""
    if use.phases and canonical(expr.name) in NAMING_FORMS:
        raise _cannot_take(use, expr)
    if not expr.phases:
        return replace(expr, given=given, phases=use.phases, span=use.span or expr.span)
    alone = replace(use, phases=())
    phases = []
    for number, phase in enumerate(expr.phases, 1):
        is_last = number == len(expr.phases)
        copies = [_copy(child, given, alone) for child in phase[: -1 if is_last else None]]
        phases.append((*copies, _copy(phase[-1], given, use)) if is_last else tuple(copies))
    return replace(expr, given=given, phases=tuple(phases), span=use.span or expr.span)


def _cannot_take(use: Expr, innermost: Expr) -> ConfigError:
    message = f"`{use.name}` takes no children: its innermost backend is `{innermost.name}`"
    help = "write its definition out where you need it"
    return error_at(use.span, use.name, "expand-macro-children", message, help)


def error_at(span: Span | None, where: str, code: str, message: str, help: str) -> ConfigError:
    """Return a ConfigError at `span`, or at `where` for something that came from no text."""
    if span is not None:
        return span.error(code, message, help)
    return ConfigError(message, code=code, where=where, help=help)


def refuse_phases(expr: Expr) -> None:
    """Refuse a `;` inside anything but IoC."""
    if len(expr.phases) > 1:
        message = f"`;` inside `{expr.name}`: only `IoC` has phases"
        help = "separate the items by commas"
        if expr.span is not None:
            raise expr.span.error("parse-phases", message, help, with_column=True)
        raise ConfigError(message, code="parse-phases", where=expr.name, help=help)


def check_phases(expr: Expr) -> None:
    """Refuse `;` where the name alone tells that it is wrong: macros and placeholders are left to
    `expand`."""
    for part in expr.walk():
        if canonical(part.name) != "IoC" and "{" not in part.name and find_macro(part.name) is None:
            refuse_phases(part)
