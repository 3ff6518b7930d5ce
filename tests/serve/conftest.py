"""What the tests of the server share: backends under control, and servers that end with the test."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from probes import Probe, Work, wait_until
from registries import clean_registry

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from serving import Served
from worker_servers import WorkerServer

from hami import _core
from hami.serve import direct

__all__ = ["clean_registry"]


@pytest.fixture
def serve(probe: Any) -> Iterator[Callable[..., Served]]:
    """Return a function that serves a pipeline: `serve(source, token="secret", ...)`."""
    servers: list[Served] = []

    def start(source: Any, **settings: Any) -> Served:
        servers.append(Served(source, **settings))
        return servers[-1]

    yield start
    probe.open_all()
    for server in servers:
        server.stop()


@pytest.fixture
def start_workers(tmp_path: Path) -> Iterator[Callable[..., WorkerServer]]:
    """Return a function that starts a server in a folder of its own; nothing of it outlives the test."""
    started: list[WorkerServer] = []

    def begin(*arguments: str, **more: Any) -> WorkerServer:
        started.append(WorkerServer(tmp_path, *arguments, **more))
        return started[-1]

    yield begin
    for one in started:
        one.end()


@pytest.fixture(scope="session")
def tls_files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of this machine by its address, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl, which makes certificates, is missing")
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=test"
    )
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    out = ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command.split(), *names, *out], check=True, capture_output=True, timeout=60)
    return certificate, key


@pytest.fixture
def probe() -> Probes:
    """Return a function that registers a Probe: `probe("Name", work, batch_range=(1, 8), ...)`."""
    return Probes()


class Probes:
    """The probes of one test."""

    def __init__(self) -> None:
        self.made: list[Probe] = []

    def __call__(self, name: str = "Probe", work: Work = lambda item: item["data"], **traits: Any) -> Probe:
        self.made.append(Probe(work).register(name, **traits))
        return self.made[-1]

    def open_all(self) -> None:
        """Let all runs go on."""
        for one in self.made:
            one.open()


@pytest.fixture
def eventually() -> Callable[[Callable[[], Any]], Any]:
    """Return the function that waits for a condition."""
    return wait_until


@pytest.fixture
def waiting_at() -> Callable[..., int]:
    """Return a function that says how many requests wait at a node of a server."""

    def count(served: Served, node: int = 0) -> int:
        return int(served.service.pipe.stats()[node]["waiting"])

    return count


@pytest.fixture
def taken(monkeypatch: Any) -> list[str]:
    """The short way that each request took, `direct` or `express`, in order."""
    ways: list[str] = []
    begin = direct.Exchange.begin

    def begin_and_note(exchange: Any, body: bytes) -> bool:
        is_taken = begin(exchange, body)
        if is_taken:
            ways.append("direct")
        return is_taken

    class Connection(_core.ExpressConnection):
        def begin(self, data: bytes) -> int:
            return self._noted(super().begin(data))

        def begin_with(self, form: _core.ExpressForm, data: bytes) -> int:
            return self._noted(super().begin_with(form, data))

        def _noted(self, taken: int) -> int:
            if taken:
                ways.append("express")
            return taken

    monkeypatch.setattr(direct.Exchange, "begin", begin_and_note)
    monkeypatch.setattr(_core, "ExpressConnection", Connection)
    return ways
