"""A model file or module becomes a `Program`: something to call with tensors.

Four kinds: an nn.Module named `package.module:attribute`, TorchScript, a program of `torch.export`, and a
package of AOTInductor, which is machine code. The kind of a file is read from what is in it, not from its
name.
"""

from __future__ import annotations

import copy
import importlib
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from hami.engine import TensorSpec
from hami.errors import BuildError

from .ports import spec_of


@dataclass(frozen=True)
class Program:
    """A loaded model. `inputs` and `outputs` are None where it says nothing about them.

    `module` is what can be converted to another precision; None: the program is compiled already. `most_rows`
    is the largest batch that it was exported for.
    """

    name: str
    call: Callable[..., Any]
    device: torch.device
    module: Any = None
    inputs: tuple[TensorSpec, ...] | None = None
    outputs: tuple[TensorSpec, ...] | None = None
    most_rows: int | None = None


def load_program(model: str | None, module: str, weights: str | None, device: torch.device) -> Program:
    """Load what the parameters name, on `device`. Raises BuildError naming the file or module."""
    if (model is None) == (not module):
        raise BuildError(
            "a model is needed, and only one: `model` names a file, `module` a Python object",
            code="model-missing",
            help='set `model = "net.pt2"`, or `module = "package.module:attribute"`',
        )
    if module:
        return load_module(module, weights, device)
    path = Path(str(model))
    if weights is not None:
        raise BuildError(
            f"`weights` belong to a `module`; the file `{path}` has its own",
            code="model-weights",
            help="leave `weights` out, or name a `module`",
        )
    kind = kind_of(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of deprecation: the file is there, and it works
            return LOADERS[kind](path, device)
    except BuildError:
        raise
    except Exception as error:  # what damaged files raise is not documented
        raise BuildError(
            f"the model file `{path}` does not load as {kind}: {_first_line(error)}",
            code="model-load",
            help=f"check that the file is complete, and that torch {torch.__version__} can read it",
        ) from error


def kind_of(path: Path) -> str:
    """Return `TorchScript`, `torch.export` or `AOTInductor`, by the names of what is inside the archive."""
    if not path.exists():
        raise _bad_file(path, "does not exist")
    if path.is_dir():
        raise _bad_file(path, "is a folder")
    if not zipfile.is_zipfile(path):
        raise _bad_file(path, "is no model of torch" if path.stat().st_size else "is empty")
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if any("aotinductor/" in name for name in names):
        return "AOTInductor"
    if any(name.endswith("serialized_exported_program.json") or "/models/" in f"/{name}" for name in names):
        return "torch.export"
    if any(name.endswith("constants.pkl") for name in names):
        return "TorchScript"
    if any(name.endswith("data.pkl") for name in names):
        message = "holds weights or a pickled module: a pickle may run any code, so it is not loaded"
        help = (
            "name the class with `module` and pass the file as `weights`, or save TorchScript or torch.export"
        )
        raise _bad_file(path, message, help)
    raise _bad_file(path, "is an archive, but no model of torch")


def load_module(name: str, weights: str | None, device: torch.device) -> Program:
    """Load `package.module:attribute`, an nn.Module or something that returns one when called."""
    home, _, attribute = name.partition(":")
    if not attribute:
        raise _bad_module(name, "does not name an attribute", "write `package.module:attribute`")
    try:
        found = importlib.import_module(home)
        for part in attribute.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise _bad_module(
            name, f"cannot be loaded: {error}", "check the name, and that it is installed"
        ) from error
    made: Any = found
    is_shared = isinstance(found, torch.nn.Module)
    if not isinstance(made, torch.nn.Module) and callable(made):
        try:
            made = made()
        except Exception as error:
            raise _bad_module(
                name, f"raised: {_first_line(error)}", "name a function without arguments"
            ) from error
    if not isinstance(made, torch.nn.Module):
        raise _bad_module(
            name, f"is `{type(made).__name__}`", "name an nn.Module, or a function that returns one"
        )
    if is_shared:  # the program that made it may go on with it
        made = copy.deepcopy(made)
    if weights is not None:
        load_weights(made, Path(weights))
    made = made.eval().requires_grad_(False).to(device)
    return Program(name, made, device, made)


def load_weights(module: torch.nn.Module, path: Path) -> None:
    """Put a state dict into a module. Raises BuildError where names or shapes differ."""
    weights = read_weights(path)
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise BuildError(
            f"the weights `{path}` do not fit `{type(module).__name__}`: {_first_line(error)}",
            code="model-weights",
            help="save the weights of the same class",
        ) from error


def read_weights(path: Path) -> dict[str, torch.Tensor]:
    """Return a state dict from a safetensors file, or from a pickle that holds tensors only."""
    if not path.exists():
        raise _bad_file(path, "does not exist", "set `weights` to a file of a state dict")
    try:
        if path.suffix == ".safetensors":
            safetensors = importlib.import_module("safetensors.torch")
            return dict(safetensors.load_file(str(path)))
        return dict(torch.load(path, map_location="cpu", weights_only=True))
    except Exception as error:
        raise BuildError(
            f"the weights `{path}` do not load: {_first_line(error)}",
            code="model-load",
            help="save `module.state_dict()` with safetensors or `torch.save`",
        ) from error


def load_torchscript(path: Path, device: torch.device) -> Program:
    """Load TorchScript; it knows the names of its inputs, but neither types nor shapes."""
    module = torch.jit.load(str(path), map_location=device).eval()
    return Program(str(path), module, device, module)


def load_exported(path: Path, device: torch.device) -> Program:
    """Load a program of torch.export, which describes its inputs and outputs."""
    with path.open("rb") as file:  # by its path torch would look at the suffix
        exported: Any = torch.export.load(file)
    if device.type != "cpu":
        move: Any = importlib.import_module("torch.export.passes").move_to_device_pass
        exported = move(exported, str(device))
    values = {node.name: node.meta.get("val") for node in exported.graph.nodes}
    result = next(node for node in exported.graph.nodes if node.op == "output")
    given = [node.meta.get("val") if hasattr(node, "meta") else None for node in result.args[0]]
    inputs = tuple(spec_of(name, values[name]) for name in exported.graph_signature.user_inputs)
    signature = exported.graph_signature.output_specs
    outputs = [
        spec_of(spec.arg.name, value)
        for spec, value in zip(signature, given, strict=True)
        if spec.kind.name == "USER_OUTPUT" and value is not None
    ]
    module = exported.module().requires_grad_(False)
    # Outputs of a single tensor have a name of the graph, which nobody chose.
    names = ["output"] if len(outputs) == 1 else [spec.name for spec in outputs]
    outputs = [replace(spec, name=name) for spec, name in zip(outputs, names, strict=True)]
    return Program(
        str(path), module, device, module, inputs, tuple(outputs), _most_rows(exported, inputs, values)
    )


def load_package(path: Path, device: torch.device) -> Program:
    """Load a package of AOTInductor; it is compiled for one kind of device and one precision."""
    inductor: Any = importlib.import_module("torch._inductor")
    index = -1 if device.type == "cpu" else (device.index or 0)
    # Without its own locks, because an instance runs on one thread, and they are in the way of CUDA graphs.
    package = inductor.aoti_load_package(str(path), run_single_threaded=True, device_index=index)
    compiled_for = package.get_metadata().get("AOTI_DEVICE_KEY", device.type)
    if compiled_for != device.type:
        raise BuildError(
            f"the package `{path}` is compiled for `{compiled_for}`, and `device` is `{device}`",
            code="model-device",
            help=f'set `device = "{compiled_for}"`, or compile the model for `{device.type}`',
        )
    return Program(str(path), package, device)


def _most_rows(exported: Any, inputs: tuple[TensorSpec, ...], values: dict[str, Any]) -> int | None:
    for spec in inputs:
        if spec.shape and spec.shape[0] == -1:
            symbol = values[spec.name].shape[0].node.expr
            found = exported.range_constraints.get(symbol)
            upper = getattr(found, "upper", None)
            return (
                int(upper)
                if upper is not None and getattr(upper, "is_number", True) and upper < 2**31
                else None
            )
    return None


def _bad_file(path: Path, problem: str, help: str = "") -> BuildError:
    kinds = "set `model` to a file of TorchScript, torch.export or AOTInductor"
    return BuildError(f"the model file `{path}` {problem}", code="model-file", help=help or kinds)


def _bad_module(name: str, problem: str, help: str) -> BuildError:
    return BuildError(f"the module `{name}` {problem}", code="model-module", help=help)


def _first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)


LOADERS: dict[str, Callable[[Path, torch.device], Program]] = {
    "TorchScript": load_torchscript,
    "torch.export": load_exported,
    "AOTInductor": load_package,
}
