"""The model behind Ray Serve: `/` takes float32 bytes, or `{"data": [...]}` as JSON.

python ray_server.py PORT
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import numpy as np
import ray
from mlp import Session
from ray import serve
from servers_settings import MAX_BATCH, MODEL_VARIABLE, TIMEOUT_MS
from starlette.requests import Request
from starlette.responses import Response


@serve.deployment(num_replicas=1, max_ongoing_requests=256, ray_actor_options={"num_cpus": 0.5})
class Mlp:
    """One replica, batches by `serve.batch`."""

    def __init__(self) -> None:
        self.session = Session(os.environ[MODEL_VARIABLE])

    @serve.batch(max_batch_size=MAX_BATCH, batch_wait_timeout_s=TIMEOUT_MS / 1e3)
    async def infer(self, rows: list[Any]) -> list[Any]:
        return list(self.session.run(np.stack(rows)))

    async def __call__(self, request: Request) -> Any:
        if request.headers["content-type"] == "application/json":
            result = await self.infer(np.asarray((await request.json())["data"], np.float32))
            return {"result": result.tolist()}
        result = await self.infer(np.frombuffer(await request.body(), np.float32))
        return Response(result.tobytes(), media_type="application/octet-stream")


if __name__ == "__main__":
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        logging_level="warning",
        _node_ip_address="127.0.0.1",
    )
    serve.start(http_options={"host": "127.0.0.1", "port": int(sys.argv[1])})
    serve.run(Mlp.bind())
    signal.sigwait({signal.SIGTERM})
    serve.shutdown()
    ray.shutdown()
