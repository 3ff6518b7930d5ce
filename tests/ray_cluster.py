"""A Ray cluster of two nodes on this machine, for the tests of hami.ray, and how to look at it."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray import serve
from ray.cluster_utils import Cluster

WAIT_S = 90.0
"""How long a test waits for what must happen; only a failing test takes this long."""


@dataclass
class Answer:
    """Status and body of a response."""

    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class RayCluster:
    """Two nodes, connected; Ray Serve listens at `port`, through one proxy on the head."""

    cluster: Cluster
    second: Any
    port: int
    metrics_ports: tuple[int, int]

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def post(self, path: str, body: Any) -> Answer:
        return self.request("POST", path, body)

    def request(self, method: str, path: str, body: Any = None) -> Answer:
        """Make one request; a body that is no bytes goes as JSON."""
        headers = {} if isinstance(body, bytes) or body is None else {"Content-Type": "application/json"}
        data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        with self.connect() as connection:
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            return Answer(response.status, response.read())

    def connect(self) -> contextlib.closing[http.client.HTTPConnection]:
        """Return a connection to the proxy, for `with`."""
        return contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S))

    def metrics(self) -> str:
        """Return what Ray tells Prometheus of both nodes."""
        return "".join(_metrics_at(port) for port in self.metrics_ports)

    def kill_second(self) -> None:
        """End every process of the second node, as if its machine had lost power."""
        self.cluster.remove_node(self.second, allow_graceful=False)


def _metrics_at(port: int) -> str:
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT_S)) as connection:
        connection.request("GET", "/metrics")
        return connection.getresponse().read().decode()


def eventually(condition: Callable[[], Any], seconds: float = WAIT_S) -> Any:
    """Return the first true value of `condition()`; fail when it stays false."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not (value := condition()):
        assert time.monotonic() < deadline, "the condition never became true"
        pause.wait(0.05)
    return value


def status_of(name: str) -> Any:
    """Return what Ray Serve says of an application, None if it knows none."""
    return serve.status().applications.get(name)


def is_healthy(name: str) -> bool:
    """Say whether an application runs, with all its replicas."""
    found = status_of(name)
    return found is not None and found.status.value == "RUNNING"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextlib.contextmanager
def ray_cluster() -> Iterator[RayCluster]:
    """Start the cluster; at the end no process of it is left, nor a file."""
    folder = tempfile.mkdtemp(prefix="hami-ray-", dir="/tmp")  # short: paths of sockets have few letters
    first_port, second_port = free_port(), free_port()
    common = {"num_cpus": 2, "temp_dir": folder, "include_dashboard": False}
    # A node that is killed is missed after some seconds; a slow one must not be.
    config = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 1000,
        "health_check_timeout_ms": 30_000,
        "health_check_failure_threshold": 3,
        "metrics_report_interval_ms": 500,
    }
    cluster = Cluster(
        initialize_head=True,
        head_node_args={
            **common,
            "num_gpus": 1,
            "metrics_export_port": first_port,
            "_system_config": config,
        },
    )
    pids: set[int] = set()
    try:
        second = cluster.add_node(**common, metrics_export_port=second_port)
        ray.init(address=cluster.address, log_to_driver=False)
        port = free_port()
        serve.start(proxy_location="HeadOnly", http_options={"host": "127.0.0.1", "port": port})
        yield RayCluster(cluster, second, port, (first_port, second_port))
    finally:
        pids = processes_of(folder)
        serve.shutdown()
        ray.shutdown()
        cluster.shutdown()
        shutil.rmtree(folder, ignore_errors=True)
    eventually(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in pids), 30)
    assert processes_of(folder) == set()


def processes_of(folder: str) -> set[int]:
    """Return the processes that were started with `folder` on the command line, and those below them."""
    parents: dict[int, int] = {}
    found = set()
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            pid = int(entry.name)
            parents[pid] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            if folder.encode() in (entry / "cmdline").read_bytes():
                found.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found
