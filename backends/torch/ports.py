"""What a torch program takes and gives, as text and as TensorSpec: `x:float32[-1x3x224x224]`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from hami.engine import TensorSpec
from hami.errors import BuildError, quoted

from .device import ELEMENT_TYPES

NAMES = {kind: name for name, kind in ELEMENT_TYPES.items()}

_PORT = re.compile(r"(?P<name>.+):(?P<kind>\w+)\[(?P<extents>[^\[\]]*)\]")
_EXTENT = re.compile(r"-1|\?|batch|\d+")


def parse_port(text: Any) -> TensorSpec:
    """Return what `name:dtype[extents]` says; extents are numbers, and -1, `?` or `batch` for any extent."""
    found = _PORT.fullmatch(text.strip()) if isinstance(text, str) else None
    kind = found["kind"] if found else ""
    extents = (
        re.split(r"[x,]", found["extents"].replace(" ", "")) if found and found["extents"].strip() else []
    )
    if found is None or not all(map(_EXTENT.fullmatch, extents)) or kind not in ELEMENT_TYPES:
        raise BuildError(
            f"`{text}` in `inputs` does not describe an input",
            code="model-inputs",
            help=f'write "name:dtype[-1x3x224x224]" with a dtype among {quoted(ELEMENT_TYPES, limit=20)}',
        )
    shape = tuple(int(extent) if extent.isdigit() else -1 for extent in extents)
    return TensorSpec(found["name"], kind, shape)


def spec_of(name: str, value: Any) -> TensorSpec:
    """Return what the example value of an exported program says; extents that may vary are -1."""
    if not isinstance(value, torch.Tensor):
        message = f"`{name}` of the model is `{type(value).__name__}`, and no array"
        raise BuildError(message, code="model-type", help="export the model with tensors only")
    shape = tuple(extent if isinstance(extent, int) else -1 for extent in value.shape)
    return TensorSpec(name, name_of(value.dtype, name), shape)


def name_of(kind: torch.dtype, port: str) -> str:
    """Return numpy's name of an element type. Raises BuildError `model-type` where no array has it."""
    if kind not in NAMES:
        message = f"`{port}` of the model has the type `{kind}`, which no array holds"
        raise BuildError(message, code="model-type", help="convert it inside the model")
    return NAMES[kind]


def flat(outputs: Any) -> tuple[list[str] | None, list[torch.Tensor]]:
    """Return the tensors that a model gave in their order, with names where it gave a dict of them.

    Raises BuildError `model-output` for anything but tensors.
    """
    if isinstance(outputs, torch.Tensor):
        return None, [outputs]
    names: list[str] | None = None
    values: Sequence[Any] = ()
    if isinstance(outputs, Mapping):
        names, values = [str(name) for name in outputs], list(outputs.values())
    elif isinstance(outputs, (tuple, list)):
        values = outputs
    if not values or not all(isinstance(value, torch.Tensor) for value in values):
        raise BuildError(
            f"the model gave `{type(outputs).__name__}` of `{[type(value).__name__ for value in values]}`",
            code="model-output",
            help="let it return one tensor, or a tuple, list or dict of tensors",
        )
    return names, list(values)
