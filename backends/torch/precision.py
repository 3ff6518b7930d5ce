"""The precision that a model computes in, while its arrays keep the types that they are described with."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from hami.errors import BuildError

from .programs import Program

PRECISIONS = {"fp32": None, "fp16": torch.float16, "bf16": torch.bfloat16}


def converted(program: Program, precision: str, channels_last: bool) -> Program:
    """Return the program computing in `precision`: floating inputs are converted, outputs turned back.

    Raises BuildError `model-precision` for a compiled program, which has a precision of its own.
    """
    dtype = PRECISIONS[precision]
    if dtype is None and not channels_last:
        return program
    if program.module is None:
        what = f"`precision` is `{precision}`" if dtype is not None else "`channels_last` is set"
        raise BuildError(
            f"{what}, but the program `{program.name}` is compiled",
            code="model-precision",
            help="convert the module before it is compiled, and leave this out here",
        )
    module = copy.deepcopy(program.module) if dtype is not None else program.module
    if channels_last:
        module = module.to(memory_format=torch.channels_last)
    if dtype is None:
        return replace(program, call=_in_channels_last(module), module=module)
    module = module.to(dtype)
    call = _in_channels_last(module) if channels_last else module
    return replace(program, call=_in_precision(call, dtype), module=module)


def _in_channels_last(call: Callable[..., Any]) -> Callable[..., Any]:
    def run(*tensors: torch.Tensor) -> Any:
        return call(*(_as_channels_last(tensor) for tensor in tensors))

    return run


def _as_channels_last(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def _in_precision(call: Callable[..., Any], dtype: torch.dtype) -> Callable[..., Any]:
    """Return `call` with float32 around it."""

    def run(*tensors: torch.Tensor) -> Any:
        converted = [tensor.to(dtype) if tensor.is_floating_point() else tensor for tensor in tensors]
        return _back(call(*converted), dtype)

    return run


def _back(outputs: Any, dtype: torch.dtype) -> Any:
    if isinstance(outputs, torch.Tensor):
        return outputs.float() if outputs.dtype == dtype else outputs
    if isinstance(outputs, dict):
        return {name: _back(value, dtype) for name, value in outputs.items()}
    if isinstance(outputs, Sequence):
        return [_back(value, dtype) for value in outputs]
    return outputs
