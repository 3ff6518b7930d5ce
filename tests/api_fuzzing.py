"""Requests made from the OpenAPI description of a server, valid ones and others, and laws for every answer.

schemathesis makes them: deterministic, `HAMI_FUZZ_REQUESTS` many of each kind for every operation.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

schemathesis = pytest.importorskip("schemathesis", reason="needs schemathesis, which is not installed")

import requests  # noqa: E402
from hypothesis import HealthCheck, Phase, given, settings  # noqa: E402
from schemathesis.checks import CHECKS  # noqa: E402

NUM_REQUESTS = int(os.environ.get("HAMI_FUZZ_REQUESTS", "12"))
"""How many of each kind for every operation."""

EXPECTED_5XX = {503, 504}
"""What a server may say of itself; anything else from 500 on is a fault."""

_CHECKS = ["status_code_conformance", "content_type_conformance", "response_schema_conformance"]
PRIVATE = (b"Traceback", b"/site-packages/", b'File "')
"""What no answer may hold."""


def operations_of(url: str) -> Iterator[Any]:
    """Yield the operations of a server as schemathesis knows them."""
    schema = schemathesis.openapi.from_url(f"{url}/openapi.json")
    for found in schema.get_all_operations():
        yield found.ok()


def assert_lawful(case: Any, response: Any) -> None:
    """Check one answer: documented, of the documented form, and nothing private."""
    assert response.status_code < 500 or response.status_code in EXPECTED_5XX, (
        f"{response.status_code}: {response.content[:500]!r} for {case.as_curl_command()}"
    )
    for private in PRIVATE:
        assert private not in response.content, response.content
    case.validate_response(response, checks=CHECKS.get_by_names(_CHECKS))
    if response.status_code >= 400:
        told = json.loads(response.content)
        assert ("error" in told) or ("ready" in told) or ("problems" in told)


def can_be_wrong(operation: Any) -> bool:
    """Tell whether an operation takes anything but a path, which is right or leads elsewhere."""
    return bool(operation.body or operation.query)


def fuzz(operation: Any, mode: Any, names: dict[str, str], num_requests: int) -> None:
    """Send requests of one kind to one operation, and check the answers.

    `names` are for the parameters of paths, which random ones would never hit.
    """
    wanted = {one.name for one in operation.path_parameters}
    known = {name: value for name, value in names.items() if name in wanted}
    strategy = operation.as_strategy(generation_mode=mode, path_parameters=known or None)
    with requests.Session() as session:

        @settings(
            max_examples=num_requests,
            derandomize=True,
            database=None,
            deadline=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy)
        def send(case: Any) -> None:
            assert_lawful(case, case.call(session=session, timeout=30))

        send()
