"""`hami serve`: what is wrong with its options is said first, and the rest reaches the server."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import assert_refused, run

pytest.importorskip("fastapi", reason="the extra `serve` is not installed")

from hami.serve import Settings, server

PIPELINE = '[only]\nbackend = "Identity"\n'


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave the logging of this process as it is."""
    monkeypatch.setattr(server, "configure_logging", lambda level, **options: None)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `run` of the server was called with."""
    calls: list[Any] = []
    monkeypatch.setattr(server, "run", lambda *arguments: calls.append(arguments))
    monkeypatch.delenv("HAMI_TOKEN", raising=False)
    return calls


def test_without_options_it_has_the_defaults_of_the_settings(started: list[Any], write: Any) -> None:
    assert run("serve", write(PIPELINE)).exit_code == 0
    assert started == [(Path("pipeline.toml"), Settings(), "INFO")]


def test_every_option_reaches_the_server(started: list[Any], write: Any) -> None:
    write("secret\n", "token")
    options = (
        "-p 9 --host ::1 --tls-certificate c.pem --tls-key k.pem --token-file token --max-body-bytes 10 "
        "--max-header-bytes 300 --timeout 1.5 --drain 2 --max-connections 7 --workers 3 --show-errors "
        "--log-level error"
    )
    assert run("serve", write(PIPELINE), *options.split()).exit_code == 0
    ((source, settings, level),) = started
    assert (source, level) == (Path("pipeline.toml"), "ERROR")
    assert settings == Settings(
        host="::1",
        port=9,
        certificate=Path("c.pem"),
        key=Path("k.pem"),
        token="secret",
        max_body_bytes=10,
        max_header_bytes=300,
        timeout_s=1.5,
        drain_s=2.0,
        max_connections=7,
        workers=3,
        show_errors=True,
    )


def test_an_expression_can_be_served(started: list[Any]) -> None:
    assert run("serve", "S[Pow, Identity]").exit_code == 0
    assert started[0][0] == "S[Pow, Identity]"


@pytest.mark.parametrize(
    "options",
    [
        "-p 65536",
        "-p x",
        "--timeout 0",
        "--drain -1",
        "--max-body-bytes 0",
        "--max-connections 0",
        "--workers 0",
        "--log-level loud",
    ],
)
def test_a_value_out_of_range_is_refused(started: list[Any], write: Any, options: str) -> None:
    assert run("serve", write(PIPELINE), *options.split()).exit_code == 2
    assert started == []


def test_a_token_that_cannot_be_read_is_refused(started: list[Any], write: Any) -> None:
    assert_refused(run("serve", write(PIPELINE), "--token-file", "missing"), "serve-bad-token", "missing")
    assert started == []


def test_without_the_packages_it_names_the_extra(write: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "hami.serve.server")
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert_refused(run("serve", write(PIPELINE)), "serve-missing-package", "pip install hami-core[serve]")


def test_a_key_without_a_certificate_is_refused(write: Any, real_core: None) -> None:
    assert_refused(run("serve", write(PIPELINE), "-p", "0", "--tls-key", "k.pem"), "serve-tls")


def test_a_certificate_that_is_none_is_refused(write: Any, real_core: None) -> None:
    certificate = write("no certificate", "c.pem")
    assert_refused(run("serve", write(PIPELINE), "-p", "0", "--tls-certificate", certificate), "serve-tls")
    assert_refused(run("serve", write(PIPELINE), "-p", "0", "--tls-certificate", "lost.pem"), "lost.pem")


def test_an_address_of_another_machine_is_refused(write: Any, real_core: None) -> None:
    host = "192.0.2.1"  # of the documentation, and of no machine
    assert_refused(run("serve", write(PIPELINE), "-p", "0", "--host", host), "serve-address", host)


def test_a_port_that_is_taken_is_refused(write: Any, real_core: None) -> None:
    with server._listen(Settings(port=0)) as taken:
        port = str(taken.getsockname()[1])
        assert_refused(run("serve", write(PIPELINE), "-p", port), "serve-address", port)


def test_what_is_wrong_in_the_file_is_said_as_everywhere(write: Any, real_core: None) -> None:
    assert_refused(run("serve", write('[only]\nbackend = "Pwo"\n'), "-p", "0"), "pipeline.toml:2", "`Pow`")


def test_the_other_commands_load_none_of_it() -> None:
    program = "import sys, hami.cli; print(sorted({'fastapi', 'uvicorn', 'numpy'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "[]\n", done.stderr
