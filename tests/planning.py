"""What the tests of planning share: plan a dict, find backends in it, catch the error."""

from __future__ import annotations

from typing import Any

import pytest

from hami.errors import ConfigError
from hami.plan import PlannedBackend, plan


def error_of(source: object) -> ConfigError:
    """Return the error that planning raises; it has a place and a help."""
    with pytest.raises(ConfigError) as caught:
        plan(source)
    assert caught.value.where
    assert caught.value.help
    return caught.value


def backends(source: object, name: str) -> list[PlannedBackend]:
    """Return all backends of that name in the pipeline."""
    found: list[PlannedBackend] = []

    def visit(one: PlannedBackend) -> None:
        if one.name == name:
            found.append(one)
        for child in one.children:
            visit(child)

    for planned in plan(source).nodes:
        visit(planned.backend)
    return found


def params(source: object, name: str) -> dict[str, Any]:
    """Return the parameters of the only backend of that name."""
    [backend] = backends(source, name)
    return dict(backend.params)


def node(next: Any = None, backend: str = "Identity", **more: Any) -> dict[str, Any]:
    """Return the table of a node."""
    found = {"backend": backend, **more}
    if next is not None:
        found["next"] = next
    return found


def for_each(target: str, next: Any = None, **more: Any) -> dict[str, Any]:
    """Return the table of a ForEach node."""
    return node(next, f"ForEach(target={target})", **more)
