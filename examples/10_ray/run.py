"""Deploy a pipeline with Ray Serve and ask it over HTTP and by its handle which way up pages lie.

Run: python examples/10_ray/run.py
It starts Ray on this machine; with RAY_ADDRESS it uses the cluster that is there.
"""

from __future__ import annotations

import json
import os
import sys
import urllib.request
from pathlib import Path

import ray
from ray import serve
from ray.serve.handle import DeploymentHandle

import hami.ray

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pages import drawn_page, turned  # examples/pages.py

HERE = Path(__file__).resolve().parent
NAME = "orientation"


def main() -> None:
    """Deploy, show, and take everything down again."""
    address = os.environ.get("RAY_ADDRESS")
    ray.init(address=address, log_to_driver=False, **({} if address else {"include_dashboard": False}))
    try:
        show(serve.run(hami.ray.app(HERE / "pipeline.toml"), name=NAME, route_prefix=f"/{NAME}"))
    finally:
        serve.delete(NAME)
        if not address:
            serve.shutdown()
        ray.shutdown()


def show(handle: DeploymentHandle, port: int = 8000) -> None:
    """Print what is deployed, and a line for each of four pictures."""
    for name, deployment in sorted(serve.status().applications[NAME].deployments.items()):
        print(f"deployment `{name}`: {deployment.replica_states}")
    page = drawn_page()
    for angle in (0, 90, 180, 270):
        picture = turned(page, angle)
        by_http = post(f"http://127.0.0.1:{port}/{NAME}/v1/pipeline", picture)
        by_handle = handle.infer.remote({"data": picture}).result()["result"]
        print(f"turned by {angle:3}  HTTP: {by_http['angle']:3}  handle: {by_handle['angle']:3}")


def post(url: str, body: bytes) -> dict[str, float]:
    """Send a picture to the proxy of Ray Serve."""
    request = urllib.request.Request(url, body, {"Content-Type": "image/png"})
    with urllib.request.urlopen(request) as response:
        answer: dict[str, float] = json.load(response)
    return answer


if __name__ == "__main__":
    main()
