"""The model behind the Triton server that comes with the package nvidia-pytriton.

python triton_server.py HTTP_PORT GRPC_PORT METRICS_PORT
"""

from __future__ import annotations

import os
import sys
from typing import Any

import numpy as np
from mlp import INPUT, OUTPUT, SIZES, Session
from pytriton.decorators import batch
from pytriton.model_config import DynamicBatcher, ModelConfig, Tensor
from pytriton.triton import Triton, TritonConfig
from servers_settings import MAX_BATCH, MODEL_VARIABLE, TIMEOUT_MS

if __name__ == "__main__":
    session = Session(os.environ[MODEL_VARIABLE])

    @batch
    def infer(**inputs: Any) -> dict[str, Any]:
        return {OUTPUT: session.run(inputs[INPUT])}

    http_port, grpc_port, metrics_port = map(int, sys.argv[1:])
    config = TritonConfig(http_port=http_port, grpc_port=grpc_port, metrics_port=metrics_port, log_verbose=0)
    batcher = DynamicBatcher(max_queue_delay_microseconds=TIMEOUT_MS * 1000)
    with Triton(config=config) as triton:
        triton.bind(
            model_name="mlp",
            infer_func=infer,
            inputs=[Tensor(name=INPUT, dtype=np.float32, shape=(SIZES[0],))],
            outputs=[Tensor(name=OUTPUT, dtype=np.float32, shape=(SIZES[-1],))],
            config=ModelConfig(max_batch_size=MAX_BATCH, batcher=batcher),
        )
        triton.serve()
