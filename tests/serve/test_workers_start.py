"""Laws of a start with several workers: an error is said once and ends it, and later ones do not loop."""

from __future__ import annotations

import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from probes import WAIT_S, wait_until
from worker_servers import START_S, WorkerServer

from hami.serve.workers import supervisor

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc, which is missing")


def assert_ended(server: WorkerServer, status: int, code: str) -> None:
    """Check that it never served, and said why, once."""
    assert server.line == ""
    assert server.wait() == status
    assert server.log.count(code) == 1, server.log
    assert "Traceback" not in server.log
    assert server.workers == []


def test_a_backend_that_cannot_be_made_ends_the_server_with_its_error(
    start_workers: Any, tmp_path: Path
) -> None:
    (tmp_path / "broken").touch()
    server = start_workers("--log-level", "error")
    assert_ended(server, 1, "ValueError: the backend is broken")


def test_a_worker_that_dies_while_it_starts_ends_the_server(start_workers: Any, tmp_path: Path) -> None:
    (tmp_path / "deadly").touch()
    server = start_workers()
    assert_ended(server, 2, "serve-worker-died")
    assert "worker 0 ended with exit status 7 before it was ready" in server.log


def test_what_is_wrong_in_the_file_is_said_as_by_one_process(tmp_path: Path) -> None:
    file = tmp_path / "wrong.toml"
    file.write_text('[only]\nbackend = "Pwo"\n', encoding="utf-8")
    command = ["-m", "hami", "serve", str(file), "-p", "0"]

    said = [
        subprocess.run([sys.executable, *command, *more], capture_output=True, text=True, timeout=60)
        for more in ([], ["--workers", "3"])
    ]
    assert [one.returncode for one in said] == [2, 2]
    assert said[0].stderr == said[1].stderr
    assert "wrong.toml:2" in said[0].stderr


def test_one_that_does_not_start_again_is_tried_again_while_others_answer(
    start_workers: Any, tmp_path: Path
) -> None:
    server = start_workers()
    victim, other = server.workers
    (tmp_path / "broken").touch()
    server.kill_worker(victim)
    wait_until(lambda: "a new one starts in" in server.log, START_S)
    assert "ValueError: the backend is broken" in server.log
    health = server.get("/health")
    assert (health.status, health.json["status"]) == (200, "degraded")
    assert health.json["problems"][0].startswith("worker 0 ")
    assert server.get("/v2/health/ready").status == 200
    assert server.who() == other
    (tmp_path / "broken").unlink()
    server.wait_until_ready()
    assert len(server.workers) == 2


def test_when_none_is_left_and_none_can_start_the_server_ends_with_the_error(
    start_workers: Any, tmp_path: Path
) -> None:
    server = start_workers()
    (tmp_path / "broken").touch()
    for pid in server.workers:
        server.kill_worker(pid)
    assert server.wait() == 1
    assert server.log.splitlines()[-1] == "ValueError: the backend is broken"
    assert server.workers == []


def test_pauses_between_starts_double_up_to_a_bound() -> None:
    pauses = [0.0]
    for _ in range(20):
        pauses.append(supervisor.next_pause(pauses[-1]))
    assert pauses[1] == 0.5
    assert all(later == min(2 * pause, 30.0) for pause, later in pairwise(pauses[1:]))


def test_tls_and_token_hold_at_every_worker(start_workers: Any, tls_files: tuple[Path, Path]) -> None:
    certificate, key = tls_files
    tls = ["--tls-certificate", str(certificate), "--tls-key", str(key)]
    server = start_workers(*tls, HAMI_TOKEN="s3cret")
    address = server.line.split()[-1]
    assert address.startswith("https://")
    context = ssl.create_default_context(cafile=str(certificate))

    def post(token: str) -> bytes:
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}
        request = urllib.request.Request(f"{address}/v1/pipeline", b"x", headers)
        with urllib.request.urlopen(request, timeout=WAIT_S, context=context) as answer:
            return bytes(answer.read())

    workers = server.workers
    for pid in workers:
        with server.standing_still(*(one for one in workers if one != pid)):
            assert int(post("s3cret")) == pid
            with pytest.raises(urllib.error.HTTPError, match="401"):
                post("wrong")
    for pid in (server.process.pid, *workers):  # nobody on this machine reads it there
        assert b"s3cret" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    assert "s3cret" not in server.log
