"""What a replica does, in this process: the class that Ray would run in its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import hami
from hami.config import load
from hami.plan import plan
from hami.ray import deployments
from hami.ray.deployments import NodeDeployment
from hami.ray.recipe import Recipe


@pytest.fixture
def replica() -> Iterator[Callable[[Any], NodeDeployment]]:
    """Return a function that makes a replica of a pipeline."""
    made: list[NodeDeployment] = []

    def make(source: Any) -> NodeDeployment:
        made.append(NodeDeployment(Recipe.of(load(source), plan(source), "."), "one"))
        return made[-1]

    yield make
    for one in made:
        one.__del__()


@pytest.fixture(autouse=True)
def plain_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave values as they are on their way out."""
    monkeypatch.setattr(deployments, "to_wire", lambda value: value)


def all_of(replica: NodeDeployment, data: Any) -> list[Any]:
    async def collect() -> list[Any]:
        return [each async for each in replica.stream_all({"data": data})]

    return asyncio.run(collect())


@pytest.mark.parametrize("num_parts", [1, 2, 5])
def test_no_part_of_a_stream_is_lost_however_fast_it_ends(
    replica: Callable[[Any], NodeDeployment], num_parts: int
) -> None:
    hami.register("Same", _same_objects)
    one = replica("Same")

    for _ in range(200):
        *parts, (nothing, changes) = all_of(one, num_parts)
        told = [part for part, _ in parts] or [changes["result"]]  # as whoever hands it on does
        assert nothing is None
        assert told == [0] * num_parts


def _same_objects(item: dict[str, Any]) -> Any:
    """Yield parts that are one and the same object, as the result is."""
    for _ in range(item["data"]):
        yield 0


def test_a_pipeline_without_parts_gives_its_keys_alone(replica: Callable[[Any], NodeDeployment]) -> None:
    assert all_of(replica("Pow"), 3) == [(None, {"result": 9})]


def test_a_failure_ends_the_stream_with_its_error(replica: Callable[[Any], NodeDeployment]) -> None:
    with pytest.raises(hami.RequestError):
        all_of(replica("Pow"), "text")


def test_only_what_the_nodes_wrote_comes_back(replica: Callable[[Any], NodeDeployment]) -> None:
    request = {"data": 3, "other": np.ones(3)}

    assert asyncio.run(replica("Pow").infer(request)) == {"result": 9}
    assert set(request) == {"data", "other"}


def test_one_node_runs_alone(replica: Callable[[Any], NodeDeployment]) -> None:
    one = replica({"a": {"backend": "Pow", "next": "b"}, "b": {"backend": "Identity"}})

    assert asyncio.run(one.infer({"data": 3}, node="b")) == {"result": 3}


def test_health_is_what_the_pipeline_says(
    replica: Callable[[Any], NodeDeployment], monkeypatch: pytest.MonkeyPatch
) -> None:
    one = replica("Pow")
    reported: list[int] = []
    monkeypatch.setattr(one._metrics, "report", lambda: reported.append(1))
    asyncio.run(one.check_health())

    one._service.pipe.close()

    with pytest.raises(hami.Error, match="closed") as caught:
        asyncio.run(one.check_health())
    assert (caught.value.code, caught.value.where) == ("ray-unhealthy", "one")
    assert reported == [1, 1]


def test_the_end_closes_the_pipeline(replica: Callable[[Any], NodeDeployment]) -> None:
    one = replica("Pow")

    one.__del__()

    with pytest.raises(hami.Closed):
        asyncio.run(one.infer({"data": 3}))
