"""Laws of several workers: one port, one queue, and a killed one takes nothing with it but what it held."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from probes import wait_until
from serving import read_all, read_answer
from worker_servers import WorkerServer, ask, is_alive, request, state_of

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc, which is missing")

# What a client sees when its connection ends before an answer.
LOST = (ConnectionError, http.client.HTTPException)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerServer]:
    """One server for tests that leave two living workers behind."""
    server = WorkerServer(tmp_path_factory.mktemp("shared"))
    yield server
    server.end()


@pytest.fixture
def server(shared: WorkerServer) -> WorkerServer:
    """The shared server, with both workers there and ready."""
    shared.wait_until_ready()
    return shared


# --- one port -----------------------------------------------------------------------------------------------


def test_the_line_comes_once_when_all_listen(server: WorkerServer) -> None:
    assert server.line == f"hami: serving `who` at http://127.0.0.1:{server.port}\n"
    for pid in server.workers:
        server.connect_to(pid).close()


def test_each_worker_has_a_process_and_a_pipeline_of_its_own(server: WorkerServer) -> None:
    assert len(server.workers) == 2
    assert server.process.pid not in server.workers


def test_a_connection_stays_with_its_worker(server: WorkerServer) -> None:
    for pid in server.workers:
        with server.connect_to(pid) as connection:
            for _ in range(5):
                connection.sendall(request(b"x"))
                assert read_answer(connection).json == pid


def test_lines_of_the_log_name_the_process(server: WorkerServer) -> None:
    for pid in server.workers:
        server.connect_to(pid).close()
        wait_until(lambda pid=pid: f'"pid":{pid}' in server.log)
        assert f"[{pid}] INFO hami.pipeline" in server.log


def test_workers_leave_ctrl_c_to_their_parent(server: WorkerServer) -> None:
    for pid in server.workers:
        os.kill(pid, signal.SIGINT)
        server.connect_to(pid).close()


# --- one is killed ------------------------------------------------------------------------------------------


def test_who_waits_in_the_queue_when_a_worker_is_killed_is_answered(server: WorkerServer) -> None:
    victim, other = server.workers
    waiting = []
    with server.standing_still(victim, other):
        for _ in range(30):
            waiting.append(server.connect())
            waiting[-1].sendall(request(b"x"))
        server.kill_worker(victim)
    for connection in waiting:
        with connection:
            assert read_answer(connection).status == 200
    # and a new one comes in the place of the dead one
    wait_until(lambda: len(server.workers) == 2)
    assert other in server.workers
    server.wait_until_ready()
    for pid in server.workers:
        server.connect_to(pid).close()
    assert "was killed by SIGKILL, a new one starts" in server.log


def test_connections_of_a_dead_one_are_closed_and_those_of_others_go_on(server: WorkerServer) -> None:
    victim, other = server.workers
    with (
        server.request_inside(victim) as busy,
        server.connect_to(victim) as idle,
        server.connect_to(other) as good,
    ):
        server.kill_worker(victim)
        assert read_all(busy) == b""  # what was in its hands: no answer, nor half of one
        assert read_all(idle) == b""
        for _ in range(20):
            good.sendall(request(b"x"))
            assert read_answer(good).json == other


def test_under_load_only_what_the_dead_one_held_is_lost(server: WorkerServer) -> None:
    """Clients ask without a pause, half of them on connections that they keep, half on new ones.

    A client that kept its connection knows whose it was. A new one may have been taken by the dead worker
    only if it was made before that was gone.
    """
    is_dead, is_over = threading.Event(), threading.Event()
    num_answers = 0
    lost: list[tuple[int | None, bool]] = []  # whose connection, and whether it was begun after the death
    lock = threading.Lock()

    def run(keeps: bool) -> None:
        nonlocal num_answers
        client = server.client()
        holder: int | None = None
        while not is_over.is_set():
            begun_after = is_dead.is_set()
            try:
                holder = ask(client)
            except LOST:
                with lock:
                    lost.append((holder, begun_after))
                client.close()
                holder = None
                continue
            with lock:
                num_answers += 1
            if not keeps:
                client.close()
                holder = None
        client.close()

    clients = [threading.Thread(target=run, args=(index % 2 == 0,)) for index in range(8)]
    for client in clients:
        client.start()
    wait_until(lambda: num_answers > 100)
    victim = server.workers[0]
    server.kill_worker(victim)
    is_dead.set()
    before = num_answers
    wait_until(lambda: num_answers > before + 200)
    wait_until(lambda: len(server.workers) == 2)
    is_over.set()
    for client in clients:
        client.join(20)
    assert all(holder in (victim, None) for holder, _ in lost)
    assert not [one for one in lost if one == (None, True)], "a new connection was lost after the death"
    # Each client had one request out.
    assert len(lost) <= len(clients)


def test_clients_that_ask_again_on_a_closed_connection_lose_nothing(server: WorkerServer) -> None:
    requests = pytest.importorskip("requests", reason="needs requests, which is not installed")
    url = f"http://127.0.0.1:{server.port}/v1/pipeline"
    with requests.Session() as session:
        victim = session.post(url, b"x", timeout=20).json()
        server.kill_worker(victim)
        for _ in range(20):
            answer = session.post(url, b"x", timeout=20)
            assert answer.status_code == 200
            assert answer.json() != victim


def test_a_signal_to_one_worker_lets_it_end_its_work_and_replaces_it(server: WorkerServer) -> None:
    retired, _ = server.workers
    with server.request_inside(retired) as busy, server.connect_to(retired) as idle:
        os.kill(retired, signal.SIGTERM)
        assert read_all(idle) == b""
        for _ in range(10):  # it takes no new ones
            assert server.who() != retired
        assert is_alive(retired)
        server.open_gate(retired)
        assert read_answer(busy).json == retired
    wait_until(lambda: not is_alive(retired))
    wait_until(lambda: "ended with exit status 0, a new one starts" in server.log)


# --- the end ------------------------------------------------------------------------------------------------


def test_a_signal_ends_all_with_0_once_those_who_run_are_answered(start_workers: Any) -> None:
    server = start_workers(workers=3)
    workers = server.workers
    first, second, idle = workers
    with server.request_inside(first) as one, server.request_inside(second) as other:
        server.signal()
        wait_until(lambda: server.get("/v2/health/ready").status == 503)
        with server.connect() as late:
            late.sendall(request(b"late"))
            assert read_answer(late).code == "serve-draining"
        wait_until(lambda: not is_alive(idle))
        for connection, pid in ((one, first), (other, second)):
            server.open_gate(pid)
            assert read_answer(connection).json == pid
    assert server.wait() == 0
    assert not [pid for pid in workers if is_alive(pid)]
    assert "Traceback" not in server.log
    with pytest.raises(OSError):
        server.connect()


def test_a_second_signal_ends_all_at_once(start_workers: Any) -> None:
    server = start_workers()
    workers = server.workers
    with server.request_inside(workers[0]) as connection:
        server.signal()
        wait_until(lambda: server.get("/v2/health/ready").status == 503)
        server.signal()
        assert server.wait() == 128 + signal.SIGTERM
        assert read_all(connection) == b""
    wait_until(lambda: not [pid for pid in workers if is_alive(pid)])


def test_workers_end_with_a_killed_parent_once_those_who_run_are_answered(start_workers: Any) -> None:
    server = start_workers()
    workers = server.workers
    with server.request_inside(workers[0]) as connection:
        server.signal(signal.SIGKILL)
        wait_until(lambda: not is_alive(workers[1]))
        server.open_gate(workers[0])
        assert read_answer(connection).json == workers[0]
    wait_until(lambda: not is_alive(workers[0]))
    socket.create_server(("127.0.0.1", server.port)).close()


def test_a_worker_that_hangs_does_not_block_the_end(start_workers: Any) -> None:
    server = start_workers("--drain", "0.1")
    hanging, other = server.workers
    os.kill(hanging, signal.SIGSTOP)
    wait_until(lambda: state_of(hanging) == "T")
    server.signal()
    wait_until(lambda: not is_alive(other))
    assert server.wait() == 1  # it did not end by itself
    assert not is_alive(hanging)
    assert "did not end, and is killed" in server.log
