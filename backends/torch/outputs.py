"""What a program gives: read from its file, or seen in a run on zeros while the pipeline is made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from hami.engine import TensorSpec
from hami.errors import BuildError, Error, quoted

from .device import ELEMENT_TYPES
from .ports import NAMES, flat
from .programs import Program

# What stands for an extent that may be anything: enough for the usual strides of pictures.
ANY_EXTENT = 32


def describe_outputs(program: Program, inputs: Sequence[TensorSpec], most: int) -> list[TensorSpec]:
    """Return the outputs, with -1 for axis 0 where it follows the rows.

    Raises BuildError where the model does not run on zeros of the shapes that it is described with; where
    extents besides the rows are unknown, that is no error, and one output is assumed.
    """
    is_guess = any(-1 in spec.shape[1:] for spec in inputs)
    try:
        few = _run(program, inputs, 1)
        many = _run(program, inputs, 2) if most > 1 and _are_dynamic(inputs) else few
    except Error:
        raise
    except Exception as error:
        if program.outputs is not None:
            return list(program.outputs)
        if is_guess:
            return [TensorSpec("output", "float32", (-1,))]
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise BuildError(
            f"the model `{program.name}` does not run on zeros of its inputs {_texts(inputs)}: {lines[-1]}",
            code="model-run",
            help="describe the inputs in `inputs` as the model takes them",
        ) from error
    if program.outputs is not None:
        return list(program.outputs)
    names, first = few
    names = names or (["output"] if len(first) == 1 else [f"output_{index}" for index in range(len(first))])
    return [
        TensorSpec(name, NAMES[one.dtype], _shape(one, other))
        for name, one, other in zip(names, first, many[1], strict=True)
    ]


def _run(
    program: Program, inputs: Sequence[TensorSpec], rows: int
) -> tuple[list[str] | None, list[torch.Tensor]]:
    zeros = [
        torch.zeros(_extents(spec, rows), dtype=ELEMENT_TYPES[spec.dtype], device=program.device)
        for spec in inputs
    ]
    return flat(program.call(*zeros))


def _extents(spec: TensorSpec, rows: int) -> list[int]:
    extents = [ANY_EXTENT if extent == -1 else extent for extent in spec.shape]
    if spec.shape and spec.shape[0] == -1:
        extents[0] = rows
    return extents


def _are_dynamic(inputs: Sequence[TensorSpec]) -> bool:
    return any(spec.shape and spec.shape[0] == -1 for spec in inputs)


def _shape(few: torch.Tensor, many: torch.Tensor) -> tuple[int, ...]:
    if few.dim() != many.dim():
        return tuple(few.shape)
    return tuple(a if a == b else -1 for a, b in zip(few.shape, many.shape, strict=True))


def _texts(inputs: Sequence[TensorSpec]) -> str:
    return quoted(f"{spec.name}:{spec.dtype}[{'x'.join(map(str, spec.shape))}]" for spec in inputs)


def select(
    found: Sequence[TensorSpec], names: Sequence[Any] | None, model: str
) -> tuple[list[int], list[TensorSpec]]:
    """Return the indices and descriptions of the wanted outputs.

    Names that the model has choose among its outputs; other names are given to all of them, in order. Raises
    BuildError `model-output` for names that do neither.
    """
    if names is None:
        return list(range(len(found))), list(found)
    known = [spec.name for spec in found]
    if all(name in known for name in names) and names:
        wanted = [known.index(name) for name in names]
        return wanted, [found[index] for index in wanted]
    if len(names) == len(found) and not any(name in known for name in names):
        return list(range(len(found))), [
            TensorSpec(str(name), spec.dtype, spec.shape) for name, spec in zip(names, found, strict=True)
        ]
    unknown = next((name for name in names if name not in known), "")
    raise BuildError(
        f"the model `{model}` has no output `{unknown}`",
        code="model-output",
        help=f"its outputs are {quoted(known)}; name some of these, or give each a new name",
    )
