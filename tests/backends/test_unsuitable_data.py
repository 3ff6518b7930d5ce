"""What is wrong with a request is its caller's mistake, and never a failure inside, for every backend."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import hami
from hami.backend import FAMILIES, core_table, data_of
from hami.errors import BuildError, ConfigError, Error, RequestError

UNSUITABLE: dict[str, dict[str, Any]] = {
    "no data": {},
    "nothing": {"data": None},
    "text": {"data": "text"},
    "no bytes": {"data": b""},
    "an empty list": {"data": []},
    "an empty dict": {"data": {}},
    "no number": {"data": float("nan")},
    "the largest number": {"data": 2**63 - 1},
    "rows of different lengths": {"data": [[1], [2, 3]]},
}
# Hami's own, without the one that is there to raise one; read before any test loads plugins.
NAMES = sorted({*core_table(), *FAMILIES} - {"RuntimeError"})


def failures_of(pipe: hami.Pipeline) -> Iterator[tuple[str, BaseException]]:
    for what, request in UNSUITABLE.items():
        error = pipe.submit(dict(request)).exception(timeout=20)
        if error is not None and not (isinstance(error, Error) and error.http_status < 500):
            yield what, error


def test_unsuitable_data_is_refused_or_taken_but_no_failure() -> None:
    found: dict[str, list[Any]] = {}
    for name in NAMES:
        try:
            pipe = hami.pipe(name)
        except (ConfigError, BuildError, ImportError):  # it needs parameters, or is not installed
            continue
        with pipe:
            found[name] = list(failures_of(pipe))
    assert {name: failures for name, failures in found.items() if failures} == {}
    assert len(found) > 20


def test_data_of_an_item_without_data_is_refused() -> None:
    with pytest.raises(RequestError) as caught:
        data_of({"result": 1})
    assert caught.value.code == "request-missing-key"
    assert data_of({"data": None}) is None
