"""Laws of the bound on connections: nobody is refused, those above it wait, and one that ends makes room."""

from __future__ import annotations

import errno
import logging
import resource
import select
import socket
import threading
from typing import Any

import pytest
from probes import WAIT_S, wait_until
from serving import read_all, read_answer
from worker_servers import request

from hami.serve import Settings, server
from hami.serve.acceptor import Acceptor

SHORT_S = 0.2


def is_silent(connection: socket.socket) -> bool:
    """Tell whether nothing comes for a moment."""
    connection.settimeout(SHORT_S)
    try:
        connection.recv(1, socket.MSG_PEEK)
        return False
    except TimeoutError:
        return True
    finally:
        connection.settimeout(WAIT_S)


def test_up_to_the_bound_all_are_answered(serve: Any) -> None:
    served = serve("Identity", max_connections=3)
    for connection in [served.connect() for _ in range(3)]:
        with connection:
            connection.sendall(request(b"x"))
            assert read_answer(connection).body == b"x"


def test_one_above_the_bound_waits_until_another_has_gone(serve: Any) -> None:
    served = serve("Identity", max_connections=2)
    with served.connect() as one, served.connect() as other, served.connect() as waiting:
        for connection in (one, other):
            connection.sendall(request(b"x"))
            assert read_answer(connection).status == 200
        waiting.sendall(request(b"late"))
        assert is_silent(waiting)
        one.close()
        assert read_answer(waiting).body == b"late"


def test_a_silent_connection_holds_its_place_for_no_longer_than_its_time(serve: Any) -> None:
    served = serve("Identity", max_connections=1, timeout_s=SHORT_S)
    with served.connect() as silent:
        assert served.post("/v1/pipeline", b"x").body == b"x"
        assert read_all(silent) == b""


def test_a_flood_of_connections_is_served_by_and_by(serve: Any) -> None:
    served = serve("Identity", max_connections=4)
    num_most = 0
    num_answers = 0
    lock = threading.Lock()

    def ask_some() -> None:
        nonlocal num_most, num_answers
        for _ in range(10):
            assert served.post("/v1/pipeline", b"x").body == b"x"
            with lock:
                num_answers += 1
                num_most = max(num_most, len(served.server.server_state.connections))

    clients = [threading.Thread(target=ask_some) for _ in range(20)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(WAIT_S * 3)
    assert num_answers == 200
    assert num_most <= 4


def test_a_slow_handshake_counts_as_a_connection(serve: Any, tls_files: Any) -> None:
    certificate, key = tls_files
    served = serve("Identity", certificate=certificate, key=key, max_connections=1, timeout_s=SHORT_S)
    with served.connect() as silent, served.connect() as waiting:
        # The first says nothing, and is closed for it; only then does the second get its turn.
        assert read_all(silent) == b""
        waiting.sendall(b"no TLS")
        read_all(waiting)


def test_without_files_it_waits_and_goes_on(serve: Any, monkeypatch: Any, caplog: Any) -> None:
    served = serve("Identity")
    accept = socket.socket.accept
    failures = iter([errno.EMFILE, errno.ENFILE, errno.ENOMEM])

    def fail_first(listener: socket.socket) -> Any:
        number = next(failures, None)
        if number is not None:
            raise OSError(number, "Too many open files")
        return accept(listener)

    monkeypatch.setattr(socket.socket, "accept", fail_first)
    with caplog.at_level(logging.WARNING, "hami.serve"):
        assert served.post("/v1/pipeline", b"x").body == b"x"
    assert "no further connection can be accepted now" in caplog.text


def test_who_has_gone_before_it_was_accepted_harms_nobody(serve: Any) -> None:
    served = serve("Identity")
    for _ in range(50):
        connection = served.connect()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # a reset
        connection.close()
    assert served.post("/v1/pipeline", b"x").body == b"x"
    wait_until(lambda: len(served.server.server_state.connections) <= 1)


def test_a_closed_acceptor_leaves_the_queue_to_others(serve: Any) -> None:
    served = serve("Identity")
    (acceptor,) = served.server.servers
    assert isinstance(acceptor, Acceptor)
    served.loop.call_soon_threadsafe(acceptor.close)
    done = threading.Event()
    served.loop.call_soon_threadsafe(done.set)
    assert done.wait(WAIT_S)
    with served.connect() as waiting:
        assert select.select([served._listener], [], [], WAIT_S)[0]
        taken, _ = served._listener.accept()
        taken.sendall(b"hello")
        assert waiting.recv(5) == b"hello"
        taken.close()


@pytest.mark.parametrize(
    ("soft", "hard", "expected"), [(100, 10_000, 3024), (100, 2000, 2000), (5000, 9000, None)]
)
def test_the_limit_of_files_is_raised_as_far_as_it_is_needed_and_allowed(
    monkeypatch: Any, soft: int, hard: int, expected: int | None
) -> None:
    raised: list[Any] = []
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (soft, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda kind, limits: raised.append(limits))
    server._allow_files(2000)
    assert raised == ([] if expected is None else [(expected, hard)])


def test_the_default_is_above_what_a_proxy_keeps_open() -> None:
    assert Settings().max_connections == 1000
