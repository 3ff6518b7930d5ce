"""Small ONNX models with known answers, one for each trait that an engine must cope with.

The conformance tests of all engines use them, and so do the C++ tests, which run this file as a program:
`python onnx_models.py FOLDER` writes every model to FOLDER and prints the path of ONNX Runtime's library.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

Extent = int | str | None
Port = tuple[str, int, Sequence[Extent]]

FLOAT = TensorProto.FLOAT
INT64 = TensorProto.INT64

# Every element type that an array can have, by numpy's name.
ELEMENT_TYPES = {
    "float32": TensorProto.FLOAT,
    "float64": TensorProto.DOUBLE,
    "float16": TensorProto.FLOAT16,
    "int8": TensorProto.INT8,
    "int16": TensorProto.INT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "uint8": TensorProto.UINT8,
    "uint16": TensorProto.UINT16,
    "uint32": TensorProto.UINT32,
    "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
}


def make_model(
    inputs: Sequence[Port], outputs: Sequence[Port], nodes: Sequence[onnx.NodeProto], **constants: np.ndarray
) -> onnx.ModelProto:
    """Make a model; extents are numbers, symbols, or None where nothing is known."""
    graph = helper.make_graph(
        nodes,
        "model",
        [helper.make_tensor_value_info(name, kind, list(shape)) for name, kind, shape in inputs],
        [helper.make_tensor_value_info(name, kind, list(shape)) for name, kind, shape in outputs],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def weights(*shape: int) -> np.ndarray:
    """Give fixed, small, different numbers."""
    return np.sin(np.arange(np.prod(shape), dtype=np.float32)).reshape(shape)


def mlp(batch: Extent = "batch") -> onnx.ModelProto:
    """Two layers: x [batch, 8] -> y [batch, 4]."""
    return make_model(
        [("x", FLOAT, [batch, 8])],
        [("y", FLOAT, [batch, 4])],
        [
            helper.make_node("MatMul", ["x", "first"], ["hidden"]),
            helper.make_node("Relu", ["hidden"], ["active"]),
            helper.make_node("MatMul", ["active", "second"], ["y"]),
        ],
        first=weights(8, 16),
        second=weights(16, 4),
    )


def double(
    shape: Sequence[Extent] = ("batch", 2), out: Sequence[Extent] | None = None, kind: int = FLOAT
) -> onnx.ModelProto:
    """y = x + x, declared as `out`."""
    return make_model(
        [("x", kind, shape)],
        [("y", kind, shape if out is None else out)],
        [helper.make_node("Add", ["x", "x"], ["y"])],
    )


def image() -> onnx.ModelProto:
    """A picture of any size: x [batch, 3, height, width] -> y [batch, 2, height, width]."""
    return make_model(
        [("x", FLOAT, ["batch", 3, "height", "width"])],
        [("y", FLOAT, ["batch", 2, "height", "width"])],
        [helper.make_node("Conv", ["x", "kernel"], ["y"], pads=[1, 1, 1, 1])],
        kernel=weights(2, 3, 3, 3),
    )


def same(kind: int) -> onnx.ModelProto:
    """y = x for arrays [batch, 2] of one element type."""
    return make_model(
        [("x", kind, ["batch", 2])], [("y", kind, ["batch", 2])], [helper.make_node("Identity", ["x"], ["y"])]
    )


def two_inputs() -> onnx.ModelProto:
    """Two inputs and two outputs, names with a colon: `sum:0` = a + b, `product:0` = a * b."""
    shape = ["batch", 3]
    return make_model(
        [("a:0", FLOAT, shape), ("b:0", FLOAT, shape)],
        [("sum:0", FLOAT, shape), ("product:0", FLOAT, shape)],
        [
            helper.make_node("Add", ["a:0", "b:0"], ["sum:0"]),
            helper.make_node("Mul", ["a:0", "b:0"], ["product:0"]),
        ],
    )


def tokens() -> onnx.ModelProto:
    """Look five rows up by number: ids int64 [batch, length] -> y [batch, length, 3]."""
    return make_model(
        [("ids", INT64, ["batch", "length"])],
        [("y", FLOAT, ["batch", "length", 3])],
        [helper.make_node("Gather", ["table", "ids"], ["y"])],
        table=weights(5, 3),
    )


def scaled(scale_shape: Sequence[Extent] = ()) -> onnx.ModelProto:
    """One input has rows, the other has none: y = x * scale."""
    return make_model(
        [("x", FLOAT, ["batch", 2]), ("scale", FLOAT, scale_shape)],
        [("y", FLOAT, ["batch", 2])],
        [helper.make_node("Mul", ["x", "scale"], ["y"])],
    )


def mean(batch: Extent = "batch", keepdims: int = 0) -> onnx.ModelProto:
    """The mean over all rows: an output that does not belong to one row."""
    out: list[Extent] = [1, 3] if keepdims else [3]
    node = helper.make_node("ReduceMean", ["x"], ["y"], axes=[0], keepdims=keepdims)
    return make_model([("x", FLOAT, [batch, 3])], [("y", FLOAT, out)], [node])


def total() -> onnx.ModelProto:
    """The sum of everything, of rank 0, beside an output with rows."""
    return make_model(
        [("x", FLOAT, ["batch", 2])],
        [("y", FLOAT, ["batch", 2]), ("total", FLOAT, [])],
        [
            helper.make_node("Add", ["x", "x"], ["y"]),
            helper.make_node("ReduceSum", ["x"], ["total"], keepdims=0),
        ],
    )


def positives() -> onnx.ModelProto:
    """The rows whose first number is above zero: as many as the values say."""
    return make_model(
        [("x", FLOAT, ["batch", 2])],
        [("y", FLOAT, ["found", 2])],
        [
            helper.make_node("Gather", ["x", "first"], ["column"], axis=1),
            helper.make_node("Greater", ["column", "zero"], ["is_positive"]),
            helper.make_node("Compress", ["x", "is_positive"], ["y"], axis=0),
        ],
        first=np.array(0, np.int64),
        zero=np.array(0, np.float32),
    )


def flattened() -> onnx.ModelProto:
    """A fixed batch of two rows whose output has none: x [2, 3] -> y [6]."""
    node = helper.make_node("Reshape", ["x", "shape"], ["y"])
    return make_model([("x", FLOAT, [2, 3])], [("y", FLOAT, [6])], [node], shape=np.array([6], np.int64))


def product() -> onnx.ModelProto:
    """No batch at all: a [2, 3] times b [3, 4]."""
    return make_model(
        [("a", FLOAT, [2, 3]), ("b", FLOAT, [3, 4])],
        [("y", FLOAT, [2, 4])],
        [helper.make_node("MatMul", ["a", "b"], ["y"])],
    )


def passed_through() -> onnx.ModelProto:
    """An input that is an output, too."""
    return make_model(
        [("x", FLOAT, ["batch", 2])],
        [("x", FLOAT, ["batch", 2]), ("y", FLOAT, ["batch", 2])],
        [helper.make_node("Add", ["x", "x"], ["y"])],
    )


def text_input() -> onnx.ModelProto:
    """A model that reads text."""
    kind = TensorProto.STRING
    return make_model(
        [("words", kind, ["batch"])],
        [("y", kind, ["batch"])],
        [helper.make_node("Identity", ["words"], ["y"])],
    )


def list_output() -> onnx.ModelProto:
    """An array beside an output that is a list of arrays."""
    graph = helper.make_graph(
        [
            helper.make_node("SplitToSequence", ["x"], ["rows"], axis=0),
            helper.make_node("Relu", ["x"], ["y"]),
        ],
        "model",
        [helper.make_tensor_value_info("x", FLOAT, ["batch", 2])],
        [
            helper.make_tensor_value_info("y", FLOAT, ["batch", 2]),
            helper.make_tensor_sequence_value_info("rows", FLOAT, None),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "mlp": mlp,
    "mlp_fixed4": lambda: mlp(4),
    "double": double,
    "double_fixed1": lambda: double([1, 2]),
    "double_rank1": lambda: double(["batch"]),
    "double_scalar": lambda: double([]),
    "double_unnamed": lambda: double([None, 2], [None, 2]),
    # exporters often keep the 1 of the example that they traced
    "double_misdeclared": lambda: double(["batch", 2], [1, 2]),
    "image": image,
    "two_inputs": two_inputs,
    "tokens": tokens,
    "scaled": scaled,
    "scaled_row": lambda: scaled([1, 2]),
    "mean": mean,
    "mean_keepdims": lambda: mean(keepdims=1),
    "mean_fixed4": lambda: mean(batch=4),
    "total": total,
    "positives": positives,
    "flattened": flattened,
    "product": product,
    "passed_through": passed_through,
    "text_input": text_input,
    "list_output": list_output,
    **{f"same_{name}": (lambda kind=kind: same(kind)) for name, kind in ELEMENT_TYPES.items()},
}


def write(name: str, folder: Path) -> Path:
    """Write one model of MODELS and return its path."""
    path = folder / f"{name}.onnx"
    onnx.save_model(MODELS[name](), str(path))
    return path


def main(folder: Path) -> None:
    for name in MODELS:
        write(name, folder)
    package = importlib.util.find_spec("onnxruntime")
    assert package is not None and package.submodule_search_locations, "the tests need onnxruntime"
    print(next(Path(package.submodule_search_locations[0]).glob("capi/libonnxruntime.so.*")))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
