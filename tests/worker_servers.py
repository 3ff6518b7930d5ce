"""`hami serve --workers` as a process with real workers, for tests that stop, kill and question them."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from probes import WAIT_S, wait_until
from serving import Answer, read_answer

START_S = 40.0
"""How long the start of several interpreters may take on a busy machine."""

# It answers with its process. `gate` waits inside until the test writes to a fifo of that process. Where the
# file `broken` is, no pipeline can be built; `deadly` kills whoever builds one.
BACKEND = """
import os
import hami

@hami.register
class Who(hami.Backend):
    def init(self, params, options):
        if os.path.exists("broken"):
            raise ValueError("the backend is broken")
        if os.path.exists("deadly"):
            os._exit(7)

    def forward(self, batch):
        for item in batch:
            if item["data"] == b"fail":
                raise ValueError("secret")
            if item["data"] == b"gate":
                os.mkfifo(f"gate-{os.getpid()}")
                with open(f"gate-{os.getpid()}") as gate:
                    gate.read(1)
                os.unlink(f"gate-{os.getpid()}")
            item["result"] = os.getpid()
"""


def state_of(pid: int) -> str:
    """Return the state of a process as /proc has it; a dead one is a zombie, `Z`."""
    return _stat(pid)[0]


def is_alive(pid: int) -> bool:
    """Tell whether a process is there."""
    return state_of(pid) != "Z"


def children_of(pid: int) -> list[int]:
    """Return the living processes whose parent is `pid`, the oldest first."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return sorted(one for one in pids if _stat(one)[1] == pid and is_alive(one))


def _stat(pid: int) -> tuple[str, int]:
    """Return state and parent."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:  # it has gone
        return "Z", 0
    return fields[0], int(fields[1])


class WorkerServer:
    """The parent as a process of its own; its log is collected while it runs."""

    def __init__(self, folder: Path, *arguments: str, workers: int = 2, **environment: str) -> None:
        self.folder = folder
        (folder / "who.py").write_text(BACKEND, encoding="utf-8")
        (folder / "who.toml").write_text(
            'imports = ["./who.py"]\n[who]\nbackend = "Who"\ninstance_num = 2\n', encoding="utf-8"
        )
        command = [sys.executable, "-m", "hami", "serve", "who.toml", "-p", "0", "--workers", str(workers)]
        self.process = subprocess.Popen(
            [*command, *arguments],
            cwd=folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        self._collector = threading.Thread(target=self._collect, daemon=True)
        self._collector.start()
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        self.port = int(self.line.rsplit(":", 1)[1]) if self.line else 0

    def _collect(self) -> None:
        assert self.process.stderr is not None
        self.lines += self.process.stderr  # one by one, as they come

    @property
    def log(self) -> str:
        """What came on stderr so far."""
        return "".join(self.lines)

    @property
    def workers(self) -> list[int]:
        """The processes of the workers."""
        return children_of(self.process.pid)

    def connect(self) -> socket.socket:
        """Open a connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=WAIT_S)

    def client(self) -> http.client.HTTPConnection:
        """Return a client that keeps its connection."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)

    def get(self, path: str, **headers: str) -> Answer:
        """Ask on a new connection."""
        client = self.client()
        try:
            client.request("GET", path, headers=headers)
            response = client.getresponse()
            return Answer(response.status, response.headers, response.read())
        finally:
            client.close()

    def who(self) -> int:
        """Return which process answers on a new connection."""
        client = self.client()
        try:
            return ask(client)
        finally:
            client.close()

    def connect_to(self, pid: int) -> socket.socket:
        """Open a connection that a certain worker holds: the others stand still meanwhile."""
        with self.standing_still(*(one for one in self.workers if one != pid)):
            connection = self.connect()
            connection.sendall(request(b"x"))
            holder = read_answer(connection).json
        if holder != pid:
            connection.close()
        assert holder == pid
        return connection

    @contextmanager
    def standing_still(self, *pids: int) -> Iterator[None]:
        """Let workers do nothing meanwhile, as if they hung."""
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in pids:
            wait_until(lambda pid=pid: state_of(pid) == "T")
        try:
            yield
        finally:
            for pid in pids:
                if is_alive(pid):
                    os.kill(pid, signal.SIGCONT)

    def wait_until_ready(self) -> None:
        """Wait until every worker is there and answers."""
        wait_until(lambda: self.get("/health").json["status"] == "ok", START_S)

    def signal(self, number: int = signal.SIGTERM) -> None:
        """Send a signal to the parent."""
        self.process.send_signal(number)

    def kill_worker(self, pid: int) -> None:
        """Kill a worker, and wait until it is gone; a zombie's threads may hold its connections still."""
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not Path(f"/proc/{pid}").exists())

    @contextmanager
    def request_inside(self, pid: int) -> Iterator[socket.socket]:
        """Yield a connection whose request is inside the backend of a worker."""
        with self.connect_to(pid) as connection:
            connection.sendall(request(b"gate"))
            wait_until((self.folder / f"gate-{pid}").exists)
            yield connection

    def open_gate(self, pid: int) -> None:
        """Let the request inside a worker go on."""
        with open(self.folder / f"gate-{pid}", "w", encoding="utf-8") as gate:
            gate.write("x")

    def wait(self) -> int:
        """Wait for the end, and return the exit status."""
        status = self.process.wait(START_S)
        self._collector.join(WAIT_S)
        return status

    def end(self) -> None:
        """Leave nothing behind."""
        pids = self.workers
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for pid in pids:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        self._collector.join(WAIT_S)
        assert self.process.stdout is not None and self.process.stderr is not None
        self.process.stdout.close()
        self.process.stderr.close()


def request(data: bytes, *headers: str) -> bytes:
    """Return a request with these bytes as `data`."""
    lines = "".join(f"{header}\r\n" for header in headers)
    head = f"POST /v1/pipeline HTTP/1.1\r\nHost: x\r\n{lines}Content-Length: {len(data)}\r\n\r\n"
    return head.encode() + data


def ask(client: http.client.HTTPConnection, data: bytes = b"x") -> Any:
    """Return who answered."""
    client.request("POST", "/v1/pipeline", data, {"Content-Type": "application/octet-stream"})
    response = client.getresponse()
    body = response.read()
    assert response.status == 200, body
    return int(body)
