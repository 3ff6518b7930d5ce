"""Write `docs/backends.md` from what the backends declare, so that the page cannot differ from the code.

`make docs` runs it; `tests/test_backend_docs.py` fails when the page is not what this program would write.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hami import backend
from hami.backend import Declaration, Param

PAGE = Path(__file__).resolve().parent.parent / "docs" / "backends.md"

FAMILY_TITLES = {
    "wiring": "Wiring",
    "scheduling": "Scheduling",
    "flow": "Flow",
    "measuring": "Measuring",
    "queues": "Queues",
    "sources": "Sources",
    "tensor": "Tensors",
    "onnxruntime": "ONNX Runtime",
    "llm": "Language models",
    "tensorrt": "TensorRT",
    "torch": "Torch",
    "image": "Images",
    "process": "Processes",
}

HEAD = """\
# Backends

<!-- Written by `make docs` from the declarations in the code: do not edit. -->

Every backend with its parameters. `hami backends NAME` prints the same in a terminal. A parameter can be
written as an argument, `ResizeImage(224, 224)`, in the order of its table, or as a key of the node; the
argument wins. What the forms of the language mean is told in [language.md](language.md).
"""


def default_of(param: Param) -> str:
    if param.required:
        return "required"
    if param.default is None:
        return ""
    text = str(param.default).lower() if isinstance(param.default, bool) else str(param.default)
    return f"`{text}`" if text else '`""`'


def number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else str(value)


def limits_of(param: Param) -> str:
    """Return the allowed values in words: `0 to 4`, `at least 1`, or a list of choices."""
    if param.choices:
        return ", ".join(f"`{choice}`" for choice in param.choices)
    if param.min is not None and param.max is not None:
        return f"{number(param.min)} to {number(param.max)}"
    if param.min is not None:
        return f"at least {number(param.min)}"
    return "" if param.max is None else f"at most {number(param.max)}"


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def section_of(declaration: Declaration) -> str:
    """Return heading, sentence and table of parameters of one backend."""
    lines = [f"### {declaration.name}", "", declaration.doc]
    if declaration.params:
        lines += ["", "| parameter | type | default | allowed | meaning |", "|---|---|---|---|---|"]
    for param in declaration.params:
        kind = f"{param.type}, {param.unit}" if param.unit else param.type
        columns = [f"`{param.name}`", kind, default_of(param), limits_of(param), param.doc]
        lines.append("| " + " | ".join(cell(column) for column in columns) + " |")
    return "\n".join(lines) + "\n"


def page_of(declarations: Iterable[Declaration]) -> str:
    """Return the whole page: families in the order of FAMILY_TITLES, others behind, names in order."""
    visible = [declaration for declaration in declarations if not declaration.is_hidden]
    order = list(FAMILY_TITLES)
    families = sorted(
        {declaration.family for declaration in visible},
        key=lambda family: (order.index(family) if family in order else len(order), family),
    )
    parts = [HEAD]
    for family in families:
        members = sorted((d for d in visible if d.family == family), key=lambda d: d.name)
        parts.append(f"## {FAMILY_TITLES.get(family, family.capitalize() or 'Others')}\n")
        if extra := members[0].extra:
            parts.append(f"Needs `pip install 'hami-core[{extra}]'`.\n")
        parts += [section_of(member) for member in members]
    return "\n".join(parts)


def own_declarations() -> list[Declaration]:
    """Return what hami itself declares, every family loaded; backends of others are left out."""
    for family in backend.FAMILY_MODULES:
        backend.load_family(family)
    return [found for found in backend.declarations().values() if found.family != "python"]


if __name__ == "__main__":
    PAGE.write_text(page_of(own_declarations()), encoding="utf-8")
    print(f"wrote {PAGE}")
