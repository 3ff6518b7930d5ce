"""Objects of the core that were never made: each of their methods refuses, and none ends the process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import hami
from hami import _core
from hami.errors import Error

CLASSES = [_core.Pipeline, _core.KVStorage]
# Objects that only the core makes.
OWN = [_core.Request, _core.Tensor]
# Of any object, with a meaning that does not depend on its contents.
OF_OBJECT = set(dir(object)) - {"__repr__"}


def members(kind: type) -> list[str]:
    return [name for name in dir(kind) if name not in OF_OBJECT and name not in ("__module__", "__doc__")]


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in CLASSES for name in members(kind)],
    ids=lambda value: str(value),
)
def test_a_member_of_an_object_that_was_never_made_refuses(kind: type, name: str) -> None:
    unmade = kind.__new__(kind)
    for arguments in ((), (1,), (1, "key"), (1, "key", 2), ({"data": 1}, print)):
        with pytest.raises((TypeError, ValueError, BufferError)):
            found = getattr(unmade, name)
            found(*arguments)
            raise ValueError("an argument count that does not fit, or an answer that needs no contents")


@pytest.mark.parametrize("kind", OWN)
def test_a_class_of_the_core_alone_makes_no_object(kind: type) -> None:
    for make in (kind, lambda: kind.__new__(kind), lambda: object.__new__(kind)):
        with pytest.raises(TypeError):
            make()


@pytest.mark.parametrize("use", [repr, memoryview, bytes, len, lambda pipeline: pipeline({"data": 1})])
@pytest.mark.parametrize("kind", CLASSES)
def test_python_itself_may_use_an_object_that_was_never_made(kind: type, use: Any) -> None:
    unmade = kind.__new__(kind)
    try:
        use(unmade)
    except (TypeError, ValueError, BufferError):
        return
    assert use is repr, "only its name can be told of an object without contents"


@pytest.mark.parametrize(
    "use",
    [
        lambda pipeline: pipeline({"data": 1}),
        lambda pipeline: pipeline([{"data": 1}]),
        lambda pipeline: pipeline.submit({"data": 1}),
        lambda pipeline: asyncio.run(pipeline.acall({"data": 1})),
        lambda pipeline: list(pipeline.stream({"data": 1})),
        lambda pipeline: pipeline.stats(),
        lambda pipeline: pipeline.problems(),
        lambda pipeline: pipeline.close(),
    ],
)
def test_a_pipeline_whose_making_raised_refuses_every_call(use: Any) -> None:
    unmade = hami.Pipeline.__new__(hami.Pipeline)
    assert repr(unmade) == "<hami.Pipeline: not built>"
    with pytest.raises((TypeError, AttributeError, Error)):
        use(unmade)
