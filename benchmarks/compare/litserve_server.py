"""The model behind LitServe: `/predict` takes `{"data": [...]}`.

python litserve_server.py PORT
"""

from __future__ import annotations

import os
import sys
from typing import Any

import litserve
import numpy as np
from mlp import Session
from servers_settings import MAX_BATCH, MODEL_VARIABLE, TIMEOUT_MS


class Mlp(litserve.LitAPI):
    """JSON in, JSON out; the batch is put together by LitServe."""

    def setup(self, device: str) -> None:
        self.session = Session(os.environ[MODEL_VARIABLE])

    def decode_request(self, request):  # type: ignore[no-untyped-def]  # LitServe goes by its annotations
        return np.asarray(request["data"], np.float32)

    def batch(self, inputs: list[Any]) -> Any:
        return np.stack(inputs)

    def predict(self, x: Any) -> Any:
        return self.session.run(x)

    def unbatch(self, output: Any) -> list[Any]:
        return list(output)

    def encode_response(self, output: Any) -> dict[str, Any]:
        return {"result": output.tolist()}


if __name__ == "__main__":
    api = Mlp(max_batch_size=MAX_BATCH, batch_timeout=TIMEOUT_MS / 1e3)
    server = litserve.LitServer(api, accelerator="cpu", workers_per_device=1)
    server.run(
        host="127.0.0.1",
        port=int(sys.argv[1]),
        num_api_servers=1,
        generate_client_file=False,
        log_level="warning",
    )
