"""What a program gives: read from its file, or seen in a run on zeros while the pipeline is made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from hami.engine import TensorSpec
from hami.errors import BuildError, Error, RequestError, quoted

from .device import ELEMENT_TYPES
from .ports import flat, name_of
from .programs import Program, telling_line

Outputs = list[torch.Tensor]
Pick = Callable[[list[str] | None, Outputs], Outputs]

# What stands for an extent that may be anything: enough for the usual strides of pictures.
ANY_EXTENT = 32


@dataclass(frozen=True)
class Found:
    """The outputs of a model: `has_names` where it gives a dict, `is_guess` where it could not be run."""

    specs: list[TensorSpec]
    has_names: bool = False
    is_guess: bool = False


def describe_outputs(program: Program, inputs: Sequence[TensorSpec], most: int) -> Found:
    """Return the outputs, with -1 for axis 0 where it follows the rows.

    Raises BuildError where the model does not run on zeros of the shapes that it is described with. Where
    extents besides the rows are unknown that is no error: what its file says is believed, or one output is
    assumed.
    """
    least = max(program.least_rows, program.fewest_probed)
    more = least + 1
    try:
        names, few = _run(program, inputs, least)
        many = _run(program, inputs, more)[1] if more <= most and _are_dynamic(inputs) else few
        if program.checked is not None and most > more:
            _run(program, inputs, most)
        if len(many) != len(few):
            raise _refused(program, f"gives {len(few)} outputs for {least} rows, and {len(many)} for {more}")
    except Error:
        raise
    except Exception as error:
        if any(-1 in spec.shape[1:] for spec in inputs):
            known = program.outputs
            return Found(list(known or [TensorSpec("output", "float32", (-1,))]), is_guess=known is None)
        raise BuildError(
            f"the model `{program.name}` does not run on zeros of its inputs {_texts(inputs)}: "
            f"{telling_line(error)}",
            code="model-run",
            help="describe the inputs in `inputs` as the model takes them",
        ) from error
    given = names or ["output" if len(few) == 1 else f"output_{index}" for index in range(len(few))]
    if program.outputs is not None and len(program.outputs) == len(few):
        given = [spec.name for spec in program.outputs]
    specs = [_spec(name, one, other) for name, one, other in zip(given, few, many, strict=True)]
    if many is few and _are_dynamic(
        inputs
    ):  # one run tells as much: what is as long as the batch has its rows
        specs = [_with_rows(spec, least) for spec in specs]
    return Found(specs, has_names=names is not None)


def _run(program: Program, inputs: Sequence[TensorSpec], rows: int) -> tuple[list[str] | None, Outputs]:
    zeros = [
        torch.zeros(_extents(spec, rows), dtype=ELEMENT_TYPES[spec.dtype], device=program.device)
        for spec in inputs
    ]
    return flat((program.checked or program.call)(*zeros))


def _extents(spec: TensorSpec, rows: int) -> list[int]:
    extents = [ANY_EXTENT if extent == -1 else extent for extent in spec.shape]
    if spec.shape and spec.shape[0] == -1:
        extents[0] = rows
    return extents


def _are_dynamic(inputs: Sequence[TensorSpec]) -> bool:
    return any(spec.shape and spec.shape[0] == -1 for spec in inputs)


def _spec(name: str, few: torch.Tensor, many: torch.Tensor) -> TensorSpec:
    """Describe an output from two runs; where more than axis 0 follows the rows, rows see each other."""
    kind = name_of(few.dtype, name)
    if few.dim() != many.dim():
        return TensorSpec(name, kind, tuple(few.shape), has_rows=False)
    shape = tuple(a if a == b else -1 for a, b in zip(few.shape, many.shape, strict=True))
    return TensorSpec(name, kind, shape, has_rows=-1 not in shape[1:])


def _with_rows(spec: TensorSpec, rows: int) -> TensorSpec:
    if not spec.shape or spec.shape[0] != rows:
        return spec
    return TensorSpec(spec.name, spec.dtype, (-1, *spec.shape[1:]), spec.has_rows)


def _texts(inputs: Sequence[TensorSpec]) -> str:
    return quoted(f"{spec.name}:{spec.dtype}[{'x'.join(map(str, spec.shape))}]" for spec in inputs)


def _refused(program: Program, problem: str) -> BuildError:
    help = "let it return the same tensors in every run"
    return BuildError(f"the model `{program.name}` {problem}", code="model-output", help=help)


def select(found: Found, names: Sequence[object] | None, model: str) -> tuple[Pick, list[TensorSpec]]:
    """Return what picks the wanted outputs of a run, and their descriptions.

    Names that the model has choose among its outputs; other names are given to all of them, in order. Raises
    BuildError `model-output` for names that do neither, or come twice.
    """
    known = [spec.name for spec in found.specs]
    if names is None:
        wanted, specs = known, found.specs
    else:
        asked = [str(name) for name in names]
        _check_names(asked, model)
        if all(name in known for name in asked):
            wanted, specs = asked, [found.specs[known.index(name)] for name in asked]
        elif found.is_guess:
            wanted = known = asked
            specs = [TensorSpec(name, "float32", (-1,)) for name in asked]
        elif len(asked) == len(known) and not set(asked) & set(known):
            wanted = known
            specs = [
                TensorSpec(name, spec.dtype, spec.shape, spec.has_rows)
                for name, spec in zip(asked, found.specs, strict=True)
            ]
        else:
            unknown = next(name for name in asked if name not in known)
            raise BuildError(
                f"the model `{model}` has no output `{unknown}`",
                code="model-output",
                help=f"its outputs are {quoted(known)}; name some of these, or give each a new name",
            )
    return _picker(known, wanted, found.has_names), specs


def _check_names(asked: list[str], model: str) -> None:
    twice = next((name for name in asked if asked.count(name) > 1), None)
    if not asked or twice is not None:
        problem = "is empty" if twice is None else f"names `{twice}` twice"
        help = "name each output once, or leave it out for all of them"
        raise BuildError(f"`outputs` of the model `{model}` {problem}", code="model-output", help=help)


def _picker(known: list[str], wanted: list[str], has_names: bool) -> Pick:
    """Return a function that takes the outputs of one run, and refuses others than those described."""

    def pick(names: list[str] | None, outputs: Outputs) -> Outputs:
        if has_names and names is not None and set(wanted) <= set(names):
            return [outputs[names.index(name)] for name in wanted]
        if has_names or len(outputs) != len(known):
            given = quoted(names) if names is not None else f"{len(outputs)} outputs"
            raise RequestError(
                f"the model gave {given} in this run, and is described with {quoted(known)}",
                code="engine-run",
                help="let it return the same tensors in every run, or name them in `outputs`",
            )
        return [outputs[known.index(name)] for name in wanted]

    return pick
