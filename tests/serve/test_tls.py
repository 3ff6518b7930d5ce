"""Laws of HTTPS: the same answers, and nothing for those who do not speak it."""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from probes import WAIT_S

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which makes certificates, is missing"
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate of this machine by its address, and its key."""
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
def served(serve: Any, files: tuple[Path, Path]) -> Any:
    """A server with that certificate."""
    certificate, key = files
    return serve("Identity", certificate=certificate, key=key)


def test_a_client_that_knows_the_certificate_is_answered(served: Any, files: tuple[Path, Path]) -> None:
    context = ssl.create_default_context(cafile=files[0])
    with urllib.request.urlopen(f"{served.url}/v2", timeout=WAIT_S, context=context) as response:
        assert json.load(response)["name"] == "hami"
    assert served.url.startswith("https://")


def test_a_client_that_does_not_know_it_refuses(served: Any) -> None:
    with pytest.raises(urllib.error.URLError, match="certificate"):
        urllib.request.urlopen(f"{served.url}/v2", timeout=WAIT_S, context=ssl.create_default_context())


def test_plain_http_gets_nothing_of_the_server(served: Any, files: tuple[Path, Path]) -> None:
    received = served.exchange(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"hami" not in received
    test_a_client_that_knows_the_certificate_is_answered(served, files)
