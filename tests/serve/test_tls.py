"""Laws of HTTPS: the same answers, and nothing for those who do not speak it."""

from __future__ import annotations

import json
import shutil
import ssl
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from probes import WAIT_S

pytestmark = pytest.mark.skipif(
    shutil.which("openssl") is None, reason="openssl, which makes certificates, is missing"
)


@pytest.fixture
def served(serve: Any, tls_files: tuple[Path, Path]) -> Any:
    """A server with that certificate."""
    certificate, key = tls_files
    return serve("Identity", certificate=certificate, key=key)


def test_a_client_that_knows_the_certificate_is_answered(served: Any, tls_files: tuple[Path, Path]) -> None:
    context = ssl.create_default_context(cafile=tls_files[0])
    with urllib.request.urlopen(f"{served.url}/v2", timeout=WAIT_S, context=context) as response:
        assert json.load(response)["name"] == "hami"
    assert served.url.startswith("https://")


def test_a_client_that_does_not_know_it_refuses(served: Any) -> None:
    with pytest.raises(urllib.error.URLError, match="certificate"):
        urllib.request.urlopen(f"{served.url}/v2", timeout=WAIT_S, context=ssl.create_default_context())


def test_plain_http_gets_nothing_of_the_server(served: Any, tls_files: tuple[Path, Path]) -> None:
    received = served.exchange(b"GET /v2 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b"hami" not in received
    test_a_client_that_knows_the_certificate_is_answered(served, tls_files)
