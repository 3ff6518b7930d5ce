"""A model file or module becomes a `Program`: something to call with tensors.

Four kinds: an nn.Module named `package.module:attribute`, TorchScript, a program of `torch.export`, and a
package of AOTInductor, which is machine code. The kind of a file is read from what is in it, not from its
name.
"""

from __future__ import annotations

import copy
import importlib
import os
import sys
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

CHECK_INPUTS = "AOTI_RUNTIME_CHECK_INPUTS"


@dataclass(frozen=True)
class Program:
    """A loaded model. `inputs` and `outputs` are None where it says nothing about them.

    `module` is what can be converted to another precision; None: the program is compiled already.
    `least_rows` and `most_rows` are the batches that it was exported for. `checked` is the same for runs that
    are to find out whether it is described rightly, with `fewest_probed` rows at least.
    """

    name: str
    call: Callable[..., Any]
    device: torch.device
    module: Any = None
    inputs: tuple[TensorSpec, ...] | None = None
    outputs: tuple[TensorSpec, ...] | None = None
    least_rows: int = 1
    most_rows: int | None = None
    checked: Callable[..., Any] | None = None
    fewest_probed: int = 1


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
            f"the model file `{path}` does not load as {kind}: {telling_line(error)}",
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
    except (ImportError, AttributeError, ValueError, TypeError) as error:  # `:X`, `..x:X`
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
                name, f"raised: {telling_line(error)}", "name a function without arguments"
            ) from error
    if not isinstance(made, torch.nn.Module):
        raise _bad_module(
            name, f"is `{type(made).__name__}`", "name an nn.Module, or a function that returns one"
        )
    # Named or kept by somebody, who may go on with it; two references are this function's own.
    if is_shared or sys.getrefcount(made) > 2:
        try:
            made = copy.deepcopy(made)
        except Exception as error:
            message = f"cannot be copied: {telling_line(error)}"
            raise _bad_module(name, message, "name a function that makes a new one") from error
    if weights is not None:
        load_weights(made, Path(weights))
    made = made.eval().requires_grad_(False).to(device)
    return Program(name, made, device, made)


def load_weights(module: torch.nn.Module, path: Path) -> None:
    """Put a state dict into a module. Raises BuildError where names or shapes differ."""
    weights = read_weights(path)
    try:
        module.load_state_dict(weights)
    except Exception as error:  # of other keys, shapes, or keys that are no text
        reasons = "; ".join(line.strip() for line in str(error).splitlines()[1:4]) or str(error)
        raise BuildError(
            f"the weights `{path}` do not fit `{type(module).__name__}`: {reasons}",
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
        is_missing = isinstance(error, ModuleNotFoundError) and (error.name or "").startswith("safetensors")
        help = "save `module.state_dict()` with safetensors or `torch.save`"
        raise BuildError(
            f"the weights `{path}` do not load: {telling_line(error)}",
            code="model-load",
            help="pip install hami-core[torch]" if is_missing else help,
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
    outputs = [
        spec_of(spec.arg.name, value)
        for spec, value in zip(exported.graph_signature.output_specs, given, strict=True)
        if spec.kind.name == "USER_OUTPUT" and value is not None
    ]
    names = _output_names(exported, len(outputs))
    outputs = [replace(spec, name=name) for spec, name in zip(outputs, names, strict=True)]
    module = exported.module().requires_grad_(False)
    least, most = _rows(exported, inputs, values)
    return Program(str(path), module, device, module, inputs, tuple(outputs), least, most)


def _output_names(exported: Any, count: int) -> list[str]:
    """Return the keys of a dict that the model returns, else numbers: names of the graph say nothing."""
    form = exported.call_spec.out_spec
    if form is not None and form.type is dict and len(form.context) == count:
        return [str(key) for key in form.context]
    return ["output"] if count == 1 else [f"output_{index}" for index in range(count)]


def load_package(path: Path, device: torch.device) -> Program:
    """Load a package of AOTInductor; it is compiled for one kind of device and one precision."""
    inductor: Any = importlib.import_module("torch._inductor")
    index = -1 if device.type == "cpu" else (device.index or 0)

    def load() -> Any:
        # Without its own locks: an instance runs on one thread, and they are in the way of CUDA graphs.
        return inductor.aoti_load_package(str(path), run_single_threaded=True, device_index=index)

    package = load()
    compiled_for = package.get_metadata().get("AOTI_DEVICE_KEY", device.type)
    if compiled_for != device.type:
        raise BuildError(
            f"the package `{path}` is compiled for `{compiled_for}`, and `device` is `{device}`",
            code="model-device",
            help=f'set `device = "{compiled_for}"`, or compile the model for `{device.type}`',
        )
    return Program(str(path), package, device, checked=_checking(load), fewest_probed=2)


def _checking(load: Callable[[], Any]) -> Callable[..., Any]:
    """Return a package that looks at what it gets, which one does if it first runs with this variable set.

    Without it an array of another shape or type is read past its end; with it a lone row is refused, because
    torch takes dynamic extents for at least 2. So it serves for the runs that check a description.
    """
    package = load()

    def run(*tensors: torch.Tensor) -> Any:
        before = os.environ.get(CHECK_INPUTS)
        os.environ[CHECK_INPUTS] = "1"
        try:
            return package(*tensors)
        finally:
            if before is None:
                del os.environ[CHECK_INPUTS]
            else:
                os.environ[CHECK_INPUTS] = before

    return run


def _rows(exported: Any, inputs: tuple[TensorSpec, ...], values: dict[str, Any]) -> tuple[int, int | None]:
    """Return the fewest and the most rows that a program was exported for; None: any number."""
    for spec in inputs:
        if spec.shape and spec.shape[0] == -1:
            symbol = values[spec.name].shape[0].node.expr
            found = exported.range_constraints.get(symbol)
            lower, upper = getattr(found, "lower", 1), getattr(found, "upper", None)
            is_bound = upper is not None and getattr(upper, "is_number", True) and upper < 2**31
            # torch has 2 for "any": it treats 0 and 1 apart.
            least = int(lower) if getattr(lower, "is_number", True) and lower > 2 else 1
            return least, int(upper) if is_bound else None
    return 1, None


def _bad_file(path: Path, problem: str, help: str = "") -> BuildError:
    kinds = "set `model` to a file of TorchScript, torch.export or AOTInductor"
    return BuildError(f"the model file `{path}` {problem}", code="model-file", help=help or kinds)


def _bad_module(name: str, problem: str, help: str) -> BuildError:
    return BuildError(f"the module `{name}` {problem}", code="model-module", help=help)


def telling_line(error: BaseException) -> str:
    """Return the one line of an exception's text that says what is wrong."""
    lines = [line.strip() for line in str(error).splitlines()]
    lines = [line for line in lines if line and not line.startswith("frame #")]
    if not lines:
        return type(error).__name__
    # TorchScript puts the cause behind the code that it ran.
    return lines[-1] if any(line.startswith("Traceback") for line in lines) else lines[0]


LOADERS: dict[str, Callable[[Path, torch.device], Program]] = {
    "TorchScript": load_torchscript,
    "torch.export": load_exported,
    "AOTInductor": load_package,
}
