"""The servers that `servers.py` compares, and the process that starts one of them and puts load on it.

    python servers_cases.py SYSTEM PYTHON CONNECTIONS SECONDS MODEL      prints one line of JSON

PYTHON is the interpreter of the environment that the server is installed in, CONNECTIONS a list such as
`16,64`. The bare loop, the engine at a full batch with nothing around it, runs in this process just before
and just after each case, so that a machine that changes its speed changes both.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from batching_cases import bare_rate
from mlp import INPUT, SIZES, Session
from other_load import OtherLoad, all_processes, descendants, descendants_ticks
from rounds import numbers, report
from servers_settings import MAX_BATCH, MODEL_VARIABLE, TIMEOUT_MS

HERE = Path(__file__).resolve().parent
START_S = 120
NUM_CHECKED = 32

PIPELINES = {
    "identity": '[identity]\nbackend = "Identity"\n',
    "mlp": f"""
[mlp]
backend = "OnnxInfer"
model = "{{model}}"
max = {MAX_BATCH}
batching_timeout = {TIMEOUT_MS}
""",
}


@dataclass(frozen=True)
class Post:
    """One request: what wrk sends."""

    path: str
    body: bytes
    headers: dict[str, str]


# --- forms of a request: a row becomes a Post, and an answer a row -----------------------------


def protocol_header(**more: Any) -> dict[str, Any]:
    """Return the input of the Open Inference Protocol that holds one row."""
    return {"name": INPUT, "shape": [1, SIZES[0]], "datatype": "FP32", **more}


def as_numbers(row: Any) -> list[float]:
    """Return what a client writes as JSON: six digits."""
    return [float(f"{value:.6g}") for value in row]


def protocol_raw(path: str, row: Any) -> Post:
    tensor = protocol_header(parameters={"binary_data_size": row.nbytes})
    text = json.dumps({"inputs": [tensor], "parameters": {"binary_data_output": True}}).encode()
    headers = {"Content-Type": "application/octet-stream", "Inference-Header-Content-Length": str(len(text))}
    return Post(path, text + row.tobytes(), headers)


def protocol_json(path: str, row: Any) -> Post:
    body = json.dumps({"inputs": [protocol_header(data=as_numbers(row))]}).encode()
    return Post(path, body, {"Content-Type": "application/json"})


def plain_raw(path: str, row: Any) -> Post:
    return Post(path, row.tobytes(), {"Content-Type": "application/octet-stream"})


def plain_json(path: str, row: Any) -> Post:
    body = json.dumps({"data": as_numbers(row)}).encode()
    return Post(path, body, {"Content-Type": "application/json"})


FORMS = {
    ("protocol", "raw"): protocol_raw,
    ("protocol", "json"): protocol_json,
    ("plain", "raw"): plain_raw,
    ("plain", "json"): plain_json,
    ("plain", "identity"): plain_raw,
}


def row_of(case: str, answer: bytes, headers: Any) -> Any:
    """Return the row in an answer of any of the servers."""
    import numpy as np

    if case == "json":
        found = json.loads(answer)
        return np.array(found["outputs"][0]["data"] if "outputs" in found else found["result"], np.float32)
    return np.frombuffer(answer[int(headers.get("Inference-Header-Content-Length", 0)) :], np.float32)


# --- the servers -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Server:
    """One process: its arguments behind the interpreter, with {port} and the like, and its cases by path."""

    arguments: tuple[str, ...]
    form: str
    paths: dict[str, str]


def hami(pipeline: str, paths: dict[str, str], form: str) -> Server:
    arguments = (
        "-m",
        "hami",
        "serve",
        f"{{folder}}/{pipeline}.toml",
        "-p",
        "{port}",
        "--log-level",
        "warning",
    )
    return Server(arguments, form, paths)


MOSEC = ("{compare}/mosec_server.py", "--address", "127.0.0.1", "--port", "{port}", "--timeout", "30000")
INFER = "/v2/models/mlp/infer"
SYSTEMS = {
    "hami": [
        hami("mlp", {"raw": INFER, "json": INFER}, "protocol"),
        hami("identity", {"identity": "/v1/pipeline"}, "plain"),
    ],
    "mosec": [Server(MOSEC, "plain", {"raw": "/raw", "json": "/json", "identity": "/identity"})],
    "litserve": [Server(("{compare}/litserve_server.py", "{port}"), "plain", {"json": "/predict"})],
    "ray": [Server(("{compare}/ray_server.py", "{port}"), "plain", {"raw": "/", "json": "/"})],
    "triton": [
        Server(
            ("{compare}/triton_server.py", "{port}", "{port2}", "{port3}"),
            "protocol",
            {"raw": INFER, "json": INFER},
        )
    ],
}


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on now."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [one.getsockname()[1] for one in sockets]


@contextlib.contextmanager
def running(server: Server, python: str, model: str, folder: Path) -> Iterator[tuple[str, int]]:
    """Start a server, give its address and process, and end it with all that it started."""
    ports = free_ports(3)
    for name, text in PIPELINES.items():
        (folder / f"{name}.toml").write_text(text.format(model=model), encoding="utf-8")
    names = {
        "port": ports[0],
        "port2": ports[1],
        "port3": ports[2],
        "folder": folder,
        "compare": HERE / "compare",
    }
    command = [python, *(argument.format(**names) for argument in server.arguments)]
    environment = {
        **os.environ,
        MODEL_VARIABLE: model,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(HERE),
        "PATH": f"{Path(python).parent}:{os.environ['PATH']}",
    }
    log = folder / "server.log"
    with log.open("wb") as output:
        # In the session of this process: a kernel that shares the cores among sessions treats all alike.
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=output)
    try:
        wait_for_port(ports[0], process, log)
        yield f"http://127.0.0.1:{ports[0]}", process.pid
    finally:
        left = descendants(all_processes(), process.pid)
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(15)
        process.kill()
        process.wait()
        for pid in left & all_processes().keys():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def wait_for_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until somebody listens. Exits with the end of the log when the server ends before."""
    end_s = time.perf_counter() + START_S
    while time.perf_counter() < end_s and process.poll() is None:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.05)
    raise SystemExit(f"the server does not listen:\n{log.read_text(errors='replace')[-2000:]}")


def send(address: str, post: Post) -> tuple[bytes, Any]:
    request = urllib.request.Request(address + post.path, post.body, post.headers)
    with urllib.request.urlopen(request, timeout=30) as response:
        return response.read(), response.headers


def wait_for_answer(address: str, post: Post) -> None:
    """Wait until a request is answered: some listen before their model is there."""
    end_s = time.perf_counter() + START_S
    while True:
        try:
            send(address, post)
            return
        except OSError as error:
            is_refused = isinstance(error, urllib.error.HTTPError) and error.code in (400, 422)
            if is_refused or time.perf_counter() > end_s:
                raise
            time.sleep(0.1)


def check(address: str, server: Server, case: str, session: Session) -> None:
    """Compare the answers to different rows, sent at the same time, with those of the bare engine."""
    import numpy as np

    make = FORMS[server.form, case]
    rows = np.random.default_rng(2).standard_normal((NUM_CHECKED, SIZES[0]), dtype=np.float32)
    posts = [make(server.paths[case], row) for row in rows]
    wait_for_answer(address, posts[0])
    expected = rows if case == "identity" else session.run(rows)
    with ThreadPoolExecutor(MAX_BATCH) as pool:
        answers = list(pool.map(lambda post: row_of(case, *send(address, post)), posts))
    for row, answer in zip(expected, answers, strict=True):
        if answer.shape != row.shape or not np.allclose(answer, row, atol=1e-3):
            raise SystemExit(f"{case}: a wrong answer: {answer}, not {row}")


# --- the load ----------------------------------------------------------------------------------


def wrk(address: str, post: Post, connections: int, seconds: float, folder: Path) -> dict[str, float]:
    """Return the figures of wrk with one thread: a closed loop on each connection."""
    body = folder / "body"
    body.write_bytes(post.body)
    headers = "".join(f"{name}: {value}\n" for name, value in post.headers.items())
    command = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "--timeout", "30s"]
    done = subprocess.run(
        [*command, "-s", str(HERE / "compare" / "post.lua"), address + post.path],
        env={**os.environ, "POST_BODY": str(body), "POST_HEADERS": headers},
        capture_output=True,
        text=True,
        check=True,
        timeout=seconds + 60,
    )
    return figures_of(done.stdout)


def figures_of(output: str) -> dict[str, float]:
    """Return requests a second that were answered well, latencies and errors, from the output of wrk."""
    (line,) = [line for line in output.splitlines() if line.startswith('{"requests"')]
    found = json.loads(line)
    return {
        "requests_per_s": (found["requests"] - found["refused"]) / (found["duration_us"] / 1e6),
        "p50_ms": found["p50_us"] / 1e3,
        "p99_ms": found["p99_us"] / 1e3,
        "errors": found["lost"] + found["refused"],
    }


def server_seconds(pid: int) -> float:
    """Return the processor time that a server has used until now, with all that it started."""
    processes = all_processes()
    ticks = processes[pid][1] + descendants_ticks(processes, pid)
    return ticks / os.sysconf("SC_CLK_TCK")


def cores_of_others(seconds: float) -> float:
    """Return what others use while this process and its server do nothing."""
    load = OtherLoad(has_workers=True)
    time.sleep(seconds)
    return load.cores()


def measure(
    running_at: tuple[str, int],
    server: Server,
    connections: list[int],
    seconds: float,
    session: Session,
    folder: Path,
) -> Iterator[dict[str, Any]]:
    """Give a row for each case and number of connections; the server runs at an address, as a process."""
    import numpy as np

    address, pid = running_at
    row = np.random.default_rng(1).standard_normal(SIZES[0], dtype=np.float32)
    for case, path in server.paths.items():
        check(address, server, case, session)
        post = FORMS[server.form, case](path, row)
        wrk(address, post, connections[0], 1, folder)
        for number in connections:
            others_before_cores = cores_of_others(0.2)
            load = OtherLoad(has_workers=True)
            bare_before_per_s = bare_rate(session, 0.25)
            used_before_s = server_seconds(pid)
            figures = wrk(address, post, number, seconds, folder)
            used_s = server_seconds(pid) - used_before_s
            bare_after_per_s = bare_rate(session, 0.25)
            bare_per_s = (bare_before_per_s + bare_after_per_s) / 2
            yield {
                "case": case,
                "connections": number,
                **figures,
                "server_us": used_s * 1e6 / max(1.0, figures["requests_per_s"] * max(1, round(seconds))),
                "bare_per_s": bare_per_s,
                "of_bare": figures["requests_per_s"] / bare_per_s,
                "others_before_cores": others_before_cores,
                "others_during_cores": load.cores(),
            }


def main(system: str, python: str, connections: str, seconds: float, model: str) -> None:
    session = Session(model)
    rows: list[dict[str, Any]] = []
    for server in SYSTEMS[system]:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
            folder = Path(name)
            with running(server, python, model, folder) as where:
                rows += measure(where, server, numbers(connections), seconds, session, folder)
    most = {key: max(row[key] for row in rows) for key in ("others_before_cores", "others_during_cores")}
    report(system, most["others_before_cores"], most["others_during_cores"], cases=rows)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]), sys.argv[5])
