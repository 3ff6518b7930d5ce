"""`deploy`: an application on a Ray cluster that runs already, from the first byte until it is healthy."""

from __future__ import annotations

import os
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any

import ray
from ray import serve
from ray.serve import Application
from ray.serve.config import HTTPOptions
from ray.serve.context import _get_global_client

from ..errors import BuildError, ConfigError
from ..serve import Settings
from .application import make

_KNOCK_S = 10.0
_PAUSE_S = 0.2  # between two looks; Ray tells nobody when an application is ready


@dataclass(frozen=True, kw_only=True)
class Target:
    """Where an application goes: the cluster, and its name and place there.

    `address` None: the cluster that RAY_ADDRESS names, or that runs on this machine. `working_dir`: a folder
    that Ray copies to every machine. `host` and `port`: where Ray listens, if Ray Serve does not yet run.
    """

    address: str | None = None
    name: str = "default"
    route_prefix: str = "/"
    working_dir: str | None = None
    host: str = "127.0.0.1"
    port: int = 8000
    timeout_s: float = 600.0


def deploy(source: Any, target: Target, settings: Settings) -> str:
    """Deploy a pipeline, wait until it is healthy, and return its address.

    An application of the same name is replaced, replica by replica. Raises ConfigError, and BuildError for
    one that does not become healthy.
    """
    if not target.route_prefix.startswith("/"):
        message = f"`{target.route_prefix}` does not begin with `/`"
        help = f"write `--route-prefix /{target.route_prefix}`"
        raise ConfigError(message, code="ray-route-prefix", where="hami deploy", help=help)
    application = make(source, settings, {}, target.working_dir or os.getcwd())
    _connect(target)
    return _run(application, target)


def _connect(target: Target) -> None:
    if ray.is_initialized():
        return
    address = target.address or os.environ.get("RAY_ADDRESS") or "auto"
    environment = {"working_dir": target.working_dir} if target.working_dir else None
    try:
        _knock(address)
        ray.init(address=address, runtime_env=environment, log_to_driver=False)
    except (OSError, RuntimeError, ValueError) as error:
        what = "a cluster" if address == "auto" else f"the cluster at `{address}`"
        message = f"{what} cannot be reached: {error}"
        help = "start one with `ray start --head`, or name one with `--address`"
        raise ConfigError(message, code="ray-address", where="hami deploy", help=help) from error


def _knock(address: str) -> None:
    """Raise OSError if nobody listens at an address: Ray would wait for somebody, for many minutes."""
    host, colon, port = address.rpartition("://")[2].rpartition(":")
    if colon and port.isdigit():
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()


def _run(application: Application, target: Target) -> str:
    serve.start(proxy_location="EveryNode", http_options=HTTPOptions(host=target.host, port=target.port))
    serve.run_many(
        [serve.RunTarget(application, name=target.name, route_prefix=target.route_prefix)],
        wait_for_ingress_deployment_creation=False,
        wait_for_applications_running=False,
    )
    _wait_until_healthy(target)
    client = _get_global_client()  # what Ray itself prints; it has no public way to ask
    assert client is not None
    return str(client.root_url) + (target.route_prefix if target.route_prefix != "/" else "")


def _wait_until_healthy(target: Target) -> None:
    deadline = time.monotonic() + target.timeout_s
    pause = threading.Event()
    while True:
        overview = serve.status().applications.get(target.name)
        status = "unknown" if overview is None else overview.status.value
        if status == "RUNNING":
            return
        is_late = time.monotonic() > deadline
        if status in ("DEPLOY_FAILED", "UNHEALTHY") or is_late:
            when = f" after {target.timeout_s:g} s" if is_late else ""
            message = f"the application is {status}{when}: {_reasons(overview)}"
            help = "`serve status` tells more, and the logs of the replicas tell all"
            raise BuildError(message, code="ray-deploy", where=target.name, help=help)
        pause.wait(_PAUSE_S)


def _reasons(overview: Any) -> str:
    """Return what Ray says of an application and of those deployments that are not healthy."""
    if overview is None:
        return "Ray knows none of this name"
    told = [overview.message] if overview.message else []
    for name, deployment in overview.deployments.items():
        if deployment.message and deployment.status.value != "HEALTHY":
            told.append(f"`{name}`: {deployment.message}")
    return "; ".join(told) or "Ray gives no reason"
