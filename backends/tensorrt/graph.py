"""The ONNX model as TensorRT is to see it: read, `mean` and `std` folded in, narrow types written in.

Only this module and precision.py use the package `onnx`, and only while an engine is built. A model that
nothing is changed in goes to TensorRT as the file that it is.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import TensorProto, helper, numpy_helper

from hami.errors import BuildError

from . import precision as narrow_types
from .settings import Normalization, refuse_normalization

# A protobuf message has room for 2 GiB; larger models keep their weights in a file of their own.
LARGEST_MESSAGE_BYTES = 1 << 30
_FLOATS = {TensorProto.FLOAT: np.float32, TensorProto.FLOAT16: np.float16}
_NARROW = {"fp16": "float16", "bf16": "bfloat16", "best": "float16"}


def read_model(path: Path, *, with_weights: bool = True) -> onnx.ModelProto:
    """Return the model in a file; `with_weights`: those stored beside it too. Raises BuildError."""
    try:
        model = onnx.load_model(str(path), load_external_data=False)
        if with_weights:
            onnx.load_external_data_for_model(model, str(path.parent))
    except (DecodeError, OSError, ValueError, onnx.checker.ValidationError) as error:
        raise refuse_model(path, str(error)) from error
    if not model.graph.output:
        raise refuse_model(path, "it has no graph")
    return model


def refuse_model(path: Path, reason: str) -> BuildError:
    """Return the error about a file that is no ONNX model."""
    reason = " ".join(reason.split())
    return BuildError(
        f"`{path}` is not a readable ONNX model: {reason}",
        code="tensorrt-model",
        help="export the model again, and copy the files of its weights along",
    )


def external_files(path: Path) -> list[Path]:
    """Return the files beside the model that hold weights of it, in order of their names.

    Those outside its folder are refused: a model from elsewhere must not choose which files are read.
    """
    model = read_model(path, with_weights=False)
    tensors = list(model.graph.initializer)
    tensors += [attribute.t for node in model.graph.node for attribute in node.attribute]
    names = {
        entry.value
        for tensor in tensors
        if tensor.data_location == TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    for name in names:
        if os.path.isabs(name) or os.path.normpath(name).startswith(".."):
            raise refuse_model(path, f"its weights are in `{name}`, outside its folder")
    return [path.parent / name for name in sorted(names)]


def row_names(path: Path) -> dict[str, str]:
    """Return what the model calls axis 0 of its inputs and outputs, where it has a name."""
    graph = read_model(path, with_weights=False).graph
    names = {}
    for port in (*graph.input, *graph.output):
        axes = port.type.tensor_type.shape.dim
        if axes and axes[0].dim_param:
            names[port.name] = axes[0].dim_param
    return names


@contextlib.contextmanager
def prepared(path: Path, precision: str, normalization: Normalization) -> Iterator[Path]:
    """Yield the file that TensorRT is to parse: `path` itself, or for the while a rewritten copy."""
    if precision == "fp32" and not normalization:
        yield path
        return
    model = read_model(path, with_weights=precision != "int8" or bool(normalization))
    if precision == "int8" and not narrow_types.has_quantization(model):
        raise BuildError(
            f"`{path}` holds no QuantizeLinear and DequantizeLinear, so nothing of it is int8",
            code="tensorrt-precision",
            help="quantize the model first, or write `precision = fp16`",
        )
    if precision == "int8" and not normalization:
        yield path
        return
    rewrite(model, precision, normalization, path)
    with tempfile.TemporaryDirectory(prefix="hami-tensorrt-") as folder:
        copy = Path(folder) / path.name
        is_large = model.ByteSize() > LARGEST_MESSAGE_BYTES
        onnx.save_model(model, str(copy), save_as_external_data=is_large, location="weights")
        yield copy


def rewrite(
    model: onnx.ModelProto, precision: str, normalization: Normalization, path: Path | str = "the model"
) -> None:
    """Write the precision and the normalization into a model, in place."""
    kind = _NARROW.get(precision)
    if kind is not None:
        narrow_types.convert(model, kind)
    if normalization:
        fold_normalization(model, normalization, path)


def fold_normalization(
    model: onnx.ModelProto, normalization: Normalization, path: Path | str = "the model"
) -> None:
    """Put (x - mean) / std behind the model's one input, in the input's own type."""
    graph = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    inputs = [port for port in graph.input if port.name not in weights]
    if len(inputs) != 1:
        raise refuse_normalization(
            f"`mean` and `std` are for a model of one input, `{path}` has `{len(inputs)}`"
        )
    (port,) = inputs
    kind = port.type.tensor_type.elem_type
    if kind not in _FLOATS:
        named = TensorProto.DataType.Name(kind).lower()
        raise refuse_normalization(f"`mean` and `std` need an input of floats, `{port.name}` is `{named}`")
    axes = port.type.tensor_type.shape.dim
    name = port.name
    nodes = []
    for values, operator in ((normalization.mean, "Sub"), (normalization.std, "Div")):
        if values:
            constant = f"{port.name}_{operator.lower()}"
            array = _per_channel(values, port.name, axes).astype(_FLOATS[kind])
            graph.initializer.append(numpy_helper.from_array(array, constant))
            nodes.append(helper.make_node(operator, [name, constant], [f"{constant}_result"]))
            name = f"{constant}_result"
    _rename_uses(graph, port.name, name)
    for index, node in enumerate(nodes):
        graph.node.insert(index, node)


def _per_channel(
    values: Sequence[float], name: str, axes: Sequence[onnx.TensorShapeProto.Dimension]
) -> npt.NDArray[np.float64]:
    """Return one number as it is, several as an array along axis 1."""
    array = np.array(values, np.float64)
    if len(values) == 1:
        return array.reshape(())
    channels = axes[1].dim_value if len(axes) > 1 and axes[1].HasField("dim_value") else None
    if len(axes) < 2 or channels not in (None, len(values)):
        has = f"`{channels}` channels" if channels is not None else "no channels"
        raise refuse_normalization(
            f"`mean` or `std` has `{len(values)}` numbers, input `{name}` has {has} on axis 1"
        )
    return array.reshape(1, len(values), *[1] * (len(axes) - 2))


def _rename_uses(graph: onnx.GraphProto, old: str, new: str) -> None:
    """Let every node read `new` where it read `old`, also in the graphs inside it that see `old`."""
    for node in graph.node:
        for index, name in enumerate(node.input):
            if name == old:
                node.input[index] = new
        for attribute in node.attribute:
            inner = [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else list(attribute.graphs)
            for one in inner:
                if old not in {port.name for port in one.input}:
                    _rename_uses(one, old, new)
