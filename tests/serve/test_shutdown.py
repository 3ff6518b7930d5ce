"""Laws of the end: readiness goes first, those who run are answered, and the process ends with 0."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from probes import WAIT_S
from serving import read_answer

REQUEST = b"POST /v1/pipeline HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx"

# It tells through one file that a request is inside, and waits for the other.
BACKEND = """
import os
import hami

@hami.register
class Gate(hami.Backend):
    def forward(self, batch):
        with open("inside", "w"):
            pass
        descriptor = os.open("gate", os.O_RDONLY)
        os.read(descriptor, 1)
        for item in batch:
            item["result"] = item["data"]
"""


# --- in this process ----------------------------------------------------------------------------------------


def test_while_it_ends_it_is_not_ready_and_refuses_what_comes(
    serve: Any, probe: Any, eventually: Any
) -> None:
    seen = probe("Seen", lambda item: "done")
    served = serve("Seen")
    seen.shut()
    with served.connect() as connection:
        connection.sendall(REQUEST)
        seen.wait_for_runs(1)
        served.begin_to_stop()
        eventually(lambda: served.service.is_draining)
        assert served.get("/v2/health/ready").status == 503
        assert served.get("/v2/health/live").status == 200
        refused = served.post("/v1/pipeline", b"late")
        assert (refused.status, refused.code) == (503, "serve-draining")
        assert refused.headers["Retry-After"]
        seen.open()
        assert read_answer(connection).json == "done"
    served.stop()
    assert seen.items == [b"x"]


def test_whoever_waits_longer_than_the_limit_is_told_that_it_is_closed(
    serve: Any, probe: Any, eventually: Any
) -> None:
    seen = probe("Seen")
    served = serve("Seen", drain_s=0.1)
    plug = seen.plug(served.service.pipe)
    with served.connect() as connection:
        connection.sendall(REQUEST)
        eventually(lambda: served.service.num_running == 1)
        served.begin_to_stop()
        answer = read_answer(connection)
        assert (answer.status, answer.code) == (503, "closed")
    seen.open()
    served.stop()
    assert plug.done()


def test_an_idle_server_ends_at_once(serve: Any) -> None:
    served = serve("Identity")
    with served.connect() as idle:
        served.stop()
        assert idle.recv(1) == b""


def test_afterwards_nobody_listens(serve: Any) -> None:
    served = serve("Identity")
    served.stop()
    with pytest.raises(OSError):
        served.connect()


# --- a process ----------------------------------------------------------------------------------------------


class Process:
    """`hami serve` with a gate inside."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        self.folder = folder
        os.mkfifo(folder / "gate")
        (folder / "gate.py").write_text(BACKEND, encoding="utf-8")
        (folder / "gate.toml").write_text(
            'imports = ["./gate.py"]\n[gate]\nbackend = "Gate"\n', encoding="utf-8"
        )
        self.process = subprocess.Popen(
            [sys.executable, "-m", "hami", "serve", "gate.toml", "-p", "0", *arguments],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        self.port = int(self.line.rsplit(":", 1)[1]) if self.line else 0

    def ask(self) -> socket.socket:
        """Send a request, and return its connection once the backend has it."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)
        connection.sendall(REQUEST)
        return connection

    def open_gate(self) -> None:
        """Let one request go on; waits until one is inside."""
        with open(self.folder / "gate", "w", encoding="utf-8") as gate:
            gate.write("x")

    def end(self) -> tuple[int, str]:
        """Wait for the end, and return exit status and log."""
        _, log = self.process.communicate(timeout=WAIT_S)
        return self.process.returncode, log


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Return a function that starts the process; what still runs after the test is killed."""
    started: list[Process] = []

    def begin(*arguments: str, **environment: str) -> Process:
        started.append(Process(tmp_path, *arguments, **environment))
        return started[-1]

    yield begin
    for one in started:
        if one.process.poll() is None:
            one.process.kill()
            one.process.communicate()


def test_it_prints_one_line_with_the_address(start: Any) -> None:
    one = start()
    assert one.line.startswith("hami: serving `gate` at http://127.0.0.1:")
    one.process.send_signal(signal.SIGTERM)
    stdout, _ = one.process.communicate(timeout=WAIT_S)
    assert stdout == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_with_0_once_those_who_run_are_answered(
    start: Any, number: signal.Signals, eventually: Any
) -> None:
    one = start()
    with one.ask() as connection:
        eventually((one.folder / "inside").exists)
        one.process.send_signal(number)
        eventually(lambda: _ready_status(one.port) == 503)
        one.open_gate()
        assert read_answer(connection).body == b"x"
    status, log = one.end()
    assert status == 0
    assert "Traceback" not in log


def test_a_second_signal_ends_it_at_once(start: Any, eventually: Any) -> None:
    one = start()
    with one.ask() as connection:
        eventually((one.folder / "inside").exists)
        one.process.send_signal(signal.SIGTERM)
        eventually(lambda: _ready_status(one.port) == 503)
        one.process.send_signal(signal.SIGTERM)
        status, _ = one.end()
        assert status == 128 + signal.SIGTERM
        assert b"200" not in connection.recv(65536)


def test_when_the_limit_is_over_it_ends_with_0_all_the_same(start: Any, eventually: Any) -> None:
    one = start("--drain", "0.1")
    with one.ask() as connection:
        eventually((one.folder / "inside").exists)
        one.process.send_signal(signal.SIGTERM)
        assert read_answer(connection).code == "closed"
        # The instance is inside the backend's code still; the process does not wait for it.
        opener = threading.Thread(target=one.open_gate, daemon=True)
        status, _ = one.end()
        assert status == 0
        assert not opener.is_alive()


def test_requests_are_lines_on_stderr(start: Any) -> None:
    one = start()
    with one.ask() as connection:
        one.open_gate()
        read_answer(connection)
    one.process.send_signal(signal.SIGTERM)
    status, log = one.end()
    assert status == 0
    assert '"path":"/v1/pipeline","status":200' in log


def test_the_token_comes_from_the_environment(start: Any) -> None:
    one = start(HAMI_TOKEN="secret")
    with one.ask() as connection:
        assert read_answer(connection).status == 401
    one.process.send_signal(signal.SIGTERM)
    status, log = one.end()
    assert status == 0
    assert "secret" not in log


def _ready_status(port: int) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
        connection.sendall(b"GET /v2/health/ready HTTP/1.1\r\nHost: x\r\n\r\n")
        return read_answer(connection).status
