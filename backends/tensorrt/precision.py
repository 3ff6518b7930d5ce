"""Bring an ONNX graph to float16 or bfloat16: TensorRT's networks compute in the types that the graph says.

A float32 tensor that a converted node reads or writes gets a second name in the narrow type; a Cast stands
wherever one side needs the other, so inputs, outputs and the graphs inside `If` and `Loop` keep their types.
Which operators take the narrow type is read from ONNX's own schemas.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, defs, helper, numpy_helper

FLOAT16_MAX = 65504.0

# Sums, exponentials and norms, which leave the range of float16 or lose their small parts in it.
KEPT_IN_FLOAT32 = frozenset(
    (
        *("CumSum", "Exp", "GroupNormalization", "InstanceNormalization", "LayerNormalization", "LogSoftmax"),
        *("LpNormalization", "MeanVarianceNormalization", "Pow", "ReduceL1", "ReduceL2", "ReduceLogSum"),
        *("ReduceLogSumExp", "ReduceProd", "ReduceSum", "ReduceSumSquare", "RMSNormalization", "Softmax"),
        *("Softplus",),
    )
)
# The first version in which scales may be narrow and set the type of the result; TensorRT takes them in any.
_NARROW_SCALES = 21
_QUANTIZING = frozenset(("QuantizeLinear", "DequantizeLinear"))


def has_quantization(model: onnx.ModelProto) -> bool:
    """Say whether the graph holds QuantizeLinear or DequantizeLinear nodes."""
    return any(node.op_type in _QUANTIZING for node in model.graph.node)


def convert(model: onnx.ModelProto, kind: str) -> None:
    """Let all nodes that can compute in `kind` (`float16` or `bfloat16`); the model is changed in place.

    Weights are rounded to nearest. A node with a weight that float16 cannot hold stays in float32.
    """
    _Conversion(model, kind).run()


def narrow(values: npt.NDArray[np.float32], kind: str, name: str) -> TensorProto:
    """Return float32 values as a tensor of `kind`, rounded to nearest, ties to even."""
    if kind == "float16":
        return numpy_helper.from_array(values.astype(np.float16), name)
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = np.where(np.isnan(values), np.uint32(0x7FC0), rounded).astype("<u2")
    return TensorProto(name=name, data_type=TensorProto.BFLOAT16, dims=values.shape, raw_data=quiet.tobytes())


class _Conversion:
    """One run over one model; `self.kind` is the narrow type."""

    def __init__(self, model: onnx.ModelProto, kind: str) -> None:
        self.graph = model.graph
        self.kind = kind
        self.type_text = f"tensor({kind})"
        self.element_type = TensorProto.FLOAT16 if kind == "float16" else TensorProto.BFLOAT16
        self.opsets = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
        self.weights = {tensor.name: tensor for tensor in self.graph.initializer}
        self.float32 = self._float32_names(model)
        self.taken = {name for node in self.graph.node for name in (*node.input, *node.output)}
        self.narrowed: dict[str, str] = {}  # a tensor's name -> that of its narrow form
        self.widened: set[str] = set()  # tensors made in narrow form whose float32 form exists too
        self.made_narrow: set[str] = set()
        self.nodes: list[onnx.NodeProto] = []

    def run(self) -> None:
        for node in self.graph.node:
            if self._can_convert(node):
                self._convert_node(node)
            else:
                for name in dict.fromkeys((*node.input, *_captures(node))):
                    self._widen(name)
                self.nodes.append(node)
        for output in self.graph.output:
            self._widen(output.name)
        used = {name for node in self.nodes for name in (*node.input, *_captures(node))}
        used |= {output.name for output in self.graph.output}
        weights = [tensor for tensor in self.graph.initializer if tensor.name in used]
        del self.graph.node[:], self.graph.initializer[:], self.graph.value_info[:]
        self.graph.node.extend(self.nodes)
        self.graph.initializer.extend(weights)

    def _float32_names(self, model: onnx.ModelProto) -> set[str]:
        """Return the tensors of the outer graph that are float32, as far as ONNX can infer it."""
        inferred = onnx.shape_inference.infer_shapes(_without_weights(model)).graph
        infos = (*inferred.input, *inferred.value_info, *inferred.output)
        names = {info.name for info in infos if info.type.tensor_type.elem_type == TensorProto.FLOAT}
        return names | {
            name for name, weight in self.weights.items() if weight.data_type == TensorProto.FLOAT
        }

    def _can_convert(self, node: onnx.NodeProto) -> bool:
        schema = self._schema(node)
        if schema is None or node.op_type in KEPT_IN_FLOAT32 or any(_graphs(node)):
            return False
        touched = self._narrow_ports(node, schema)
        if not touched[0] or not touched[1]:
            return False
        return all(self._fits(node.input[index]) for index in touched[0])

    def _fits(self, name: str) -> bool:
        """Say whether float16 holds the finite values of a weight; any tensor that is no weight passes."""
        if self.kind != "float16" or name not in self.weights:
            return True
        values = np.abs(numpy_helper.to_array(self.weights[name]))
        return not bool(np.any((values > FLOAT16_MAX) & np.isfinite(values)))

    def _schema(self, node: onnx.NodeProto) -> Any:
        domain = node.domain or "ai.onnx"
        version = self.opsets.get(domain)
        if node.op_type in _QUANTIZING:
            version = _NARROW_SCALES
        if version is None:
            return None
        try:
            return defs.get_schema(node.op_type, version, "" if domain == "ai.onnx" else domain)
        except defs.SchemaError:
            return None

    def _narrow_ports(self, node: onnx.NodeProto, schema: Any) -> tuple[list[int], list[int]]:
        """Return which inputs and outputs change: float32 ones whose type is one that may be narrow."""
        allowed = {one.type_param_str for one in self._constraints(node, schema) if self._allows(one)}

        def touched(names: Any, ports: Any, variables: set[str]) -> list[int]:
            return [
                index
                for index, name in enumerate(names)
                if name in self.float32 and ports and ports[min(index, len(ports) - 1)].type_str in variables
            ]

        inputs = touched(node.input, schema.inputs, allowed)
        bound = {schema.inputs[min(index, len(schema.inputs) - 1)].type_str for index in inputs}
        return inputs, touched(node.output, schema.outputs, bound)

    def _constraints(self, node: onnx.NodeProto, schema: Any) -> list[Any]:
        """Return the type constraints, also of the newest version: TensorRT does not ask which one it is."""
        newest = defs.get_schema(node.op_type, domain=schema.domain)
        return [*schema.type_constraints, *newest.type_constraints]

    def _allows(self, constraint: Any) -> bool:
        return self.type_text in constraint.allowed_type_strs

    def _convert_node(self, node: onnx.NodeProto) -> None:
        inputs, outputs = self._narrow_ports(node, self._schema(node))
        for index, name in enumerate(node.input):
            if index not in inputs:
                self._widen(name)
        for index in inputs:
            node.input[index] = self._narrow(node.input[index])
        for index in outputs:
            name = node.output[index]
            self.made_narrow.add(name)
            self.narrowed[name] = node.output[index] = self._new_name(name)
        self.nodes.append(node)

    def _narrow(self, name: str) -> str:
        """Return the narrow form of a tensor, made where there is none yet."""
        if name not in self.narrowed:
            narrowed = self.narrowed[name] = self._new_name(name)
            if name in self.weights:
                values = numpy_helper.to_array(self.weights[name])
                self.graph.initializer.append(narrow(values, self.kind, narrowed))
            else:
                self.nodes.append(helper.make_node("Cast", [name], [narrowed], to=self.element_type))
        return self.narrowed[name]

    def _widen(self, name: str) -> None:
        """Make the float32 form of a tensor that was computed in the narrow type, once."""
        if name in self.made_narrow and name not in self.widened:
            self.widened.add(name)
            self.nodes.append(helper.make_node("Cast", [self.narrowed[name]], [name], to=TensorProto.FLOAT))

    def _new_name(self, name: str) -> str:
        new = f"{name}_{self.kind}"
        while new in self.taken:
            new += "_"
        self.taken.add(new)
        return new


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return a copy in which the weights are inputs, so that type inference need not copy their values."""
    light = onnx.ModelProto()
    light.ir_version = max(model.ir_version, 4)
    light.opset_import.extend(model.opset_import)
    light.functions.extend(model.functions)
    light.graph.name = model.graph.name
    light.graph.node.extend(model.graph.node)
    light.graph.output.extend(model.graph.output)
    light.graph.input.extend(model.graph.input)
    known = {port.name for port in model.graph.input}
    light.graph.input.extend(
        helper.make_tensor_value_info(weight.name, weight.data_type, list(weight.dims))
        for weight in model.graph.initializer
        if weight.name not in known
    )
    return light


def _graphs(node: onnx.NodeProto) -> Iterator[onnx.GraphProto]:
    for attribute in node.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            yield attribute.g
        yield from attribute.graphs


def _captures(node: onnx.NodeProto) -> Iterator[str]:
    """Yield the names that the graphs inside a node may take from outside."""
    for graph in _graphs(node):
        for inner in graph.node:
            yield from inner.input
            yield from _captures(inner)
        for output in graph.output:
            yield output.name
