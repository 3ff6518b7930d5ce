"""The model of the batching benchmark: an MLP 1024 -> 4 x 1536 -> 10 in fp32, 35 MB of weights, any batch.

`batching.py` writes it, the processes of `batching_cases.py` run it. The session of the peers and of the bare
loop has the settings that `OnnxInfer` has by default: one thread a run, which sleeps while it has no work.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

SIZES = [1024, 1536, 1536, 1536, 1536, 10]
INPUT, OUTPUT = "x", "y"


def write_model(path: Path) -> None:
    """Write the model with fixed weights. Needs the package `onnx`."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    random = np.random.default_rng(0)
    nodes, weights, previous = [], [], INPUT
    for layer, (rows, columns) in enumerate(itertools.pairwise(SIZES)):
        is_last = layer == len(SIZES) - 2
        matrix = random.standard_normal((rows, columns), dtype=np.float32) * np.float32((2 / rows) ** 0.5)
        weights.append(numpy_helper.from_array(matrix, f"weight{layer}"))
        weights.append(numpy_helper.from_array(np.zeros(columns, np.float32), f"bias{layer}"))
        name = OUTPUT if is_last else f"sum{layer}"
        nodes.append(helper.make_node("Gemm", [previous, f"weight{layer}", f"bias{layer}"], [name]))
        if not is_last:
            previous = f"active{layer}"
            nodes.append(helper.make_node("Relu", [name], [previous]))
    graph = helper.make_graph(
        nodes,
        "mlp",
        [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, ["batch", SIZES[0]])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["batch", SIZES[-1]])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path)


class Session:
    """ONNX Runtime with the model, called from Python; counts its runs and their rows."""

    def __init__(self, path: str) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.num_runs = self.num_rows = 0

    def run(self, rows: Any) -> Any:
        """Return the outputs of rows, an array [batch, 1024]. The counts are right for one thread only."""
        self.num_runs += 1
        self.num_rows += len(rows)
        return self.session.run(None, {INPUT: rows})[0]
