"""The model behind mosec: `/raw` takes float32 bytes, `/json` takes `{"data": [...]}`, `/identity` anything.

python mosec_server.py --address 127.0.0.1 --port PORT --timeout 30000      (mosec reads these itself)
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from mlp import Session
from mosec import Runtime, Server, Worker
from servers_settings import MAX_BATCH, MODEL_VARIABLE, TIMEOUT_MS


class Raw(Worker):
    """Bytes in, bytes out."""

    resp_mime_type = "application/octet-stream"

    def __init__(self) -> None:
        self.session = Session(os.environ[MODEL_VARIABLE])

    def deserialize(self, data: bytes) -> Any:
        return np.frombuffer(data, np.float32)

    def forward(self, data: list[Any]) -> list[Any]:
        return list(self.session.run(np.stack(data)))

    def serialize(self, data: Any) -> bytes:
        return bytes(data.tobytes())


class Json(Raw):
    """JSON in, JSON out, with the worker's own reader and writer."""

    resp_mime_type = "application/json"

    def deserialize(self, data: bytes) -> Any:
        return np.asarray(Worker.deserialize(self, data)["data"], np.float32)

    def serialize(self, data: Any) -> bytes:
        return Worker.serialize(self, {"result": data.tolist()})


class Identity(Worker):
    """No model."""

    resp_mime_type = "application/octet-stream"

    def deserialize(self, data: bytes) -> bytes:
        return data

    def forward(self, data: list[bytes]) -> list[bytes]:
        return data

    def serialize(self, data: bytes) -> bytes:
        return data


if __name__ == "__main__":
    server = Server()
    workers = {"/raw": Raw, "/json": Json, "/identity": Identity}
    server.register_runtime(
        {
            path: [Runtime(worker, max_batch_size=MAX_BATCH, max_wait_time=TIMEOUT_MS)]
            for path, worker in workers.items()
        }
    )
    server.run()
