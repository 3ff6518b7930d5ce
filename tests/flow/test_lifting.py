"""Laws of operators inside expressions: they are cut out, and the node becomes several."""

from __future__ import annotations

from typing import Any

import pytest

import hami


@pytest.fixture(autouse=True)
def add_one() -> None:
    """Register `AddOne`."""

    @hami.register
    def AddOne(batch: list[dict[str, Any]]) -> list[Any]:  # noqa: N802
        return [item["data"] + 1 for item in batch]


def test_an_operator_may_be_a_stage_of_a_sequence(open_pipe: Any) -> None:
    @hami.register
    def Spread(batch: list[dict[str, Any]]) -> list[Any]:  # noqa: N802
        return [list(range(item["data"])) for item in batch]

    pipeline = open_pipe(
        {
            "all": {"backend": "S[AddOne, Spread, ForEach(target=one), S[Identity, ForEach(target=two)]]"},
            "one": {"backend": "Pow"},
            "two": {"backend": "AddOne"},
        }
    )
    assert pipeline({"data": 3}) == {"data": 3, "result": [1, 2, 5, 10]}
    assert [row["node"] for row in pipeline.stats()] == ["all", "all#3", "one", "two"]


def test_the_parts_of_a_node_share_its_name_in_maps_and_errors(open_pipe: Any) -> None:
    @hami.register
    def Fail(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        raise OSError("broken")

    nodes = {
        "split": {"backend": "S[Identity, ForEach(target=one), Identity]", "next": "end"},
        "one": {"backend": "Pow"},
        "end": {"backend": "Identity", "map": "split[result:data],input[data:given]"},
    }
    assert open_pipe(nodes)({"data": [1, 2]})["result"] == [1, 4]
    nodes["split"]["backend"] = "S[ForEach(target=one), Fail]"
    with pytest.raises(OSError, match="broken") as caught:
        open_pipe(nodes)({"data": [1, 2]})
    assert "in node `split#2`, backend `Fail`, instance 0" in caught.value.__notes__


def test_an_or_stage_behind_an_operator_runs_where_there_is_no_result(open_pipe: Any) -> None:
    @hami.register
    def Maybe(batch: list[dict[str, Any]]) -> None:  # noqa: N802
        for item in batch:
            if item["data"]:
                item["result"] = item["data"]

    nodes = {
        "all": {"backend": "S[ForEach(target=one), Maybe, (or)ForEach(target=two), AddOne]"},
        "one": {"backend": "Pow"},
        "two": {"backend": "Pow"},
    }

    @hami.register
    def Length(batch: list[dict[str, Any]]) -> list[int]:  # noqa: N802
        return [len(item["data"]) for item in batch]

    nodes["all"]["backend"] = "S[ForEach(target=one), Maybe, (or)ForEach(target=two), Length]"
    assert open_pipe(nodes)({"data": [2, 3]})["result"] == 2
    assert open_pipe(nodes)({"data": []})["result"] == 0


def test_parameters_of_a_node_reach_all_of_its_parts(open_pipe: Any, probe: Any) -> None:
    seen = probe(batch_range=(1, 8))
    pipeline = open_pipe(
        {
            "all": {"backend": "S[Probe, ForEach(target=one), Probe]", "max": 2, "batching_timeout": 60_000},
            "one": {"backend": "Identity"},
        }
    )
    pipeline([{"data": [i]} for i in range(4)])
    assert [len(batch) for batch in seen.batches] == [2, 2, 2, 2]


def test_a_node_entrypoint_is_put_around_each_part(open_pipe: Any) -> None:
    entrypoint = (
        "IoCV0[InstancesRegister[BackgroundThread[BackendProxy]],"
        " Register[DI_v0[Batching, InstanceDispatcher]]; Forward[node.{node_name}]]"
    )
    nodes = {
        "all": {
            "backend": "S[Identity, ForEach(target=one), Identity]",
            "node_entrypoint": entrypoint,
            "instance_num": 2,
        },
        "one": {"backend": "Pow"},
    }
    pipeline = open_pipe(nodes)
    assert pipeline({"data": [1, 2, 3]})["result"] == [1, 4, 9]


@pytest.mark.parametrize(
    "backend",
    [
        "CatSplit[Identity, Restart, Identity]",
        "List[ForEach(target=one)]",
        "IoC[Identity; S[Identity, ForEach(target=one)]]",
        "Loop[AddOne, ForEach(target=one)]",
        "S[Identity, (HasKey(k))ForEach(target=one)]",
        "With[Identity, Loop[AddOne, Identity]]",
    ],
)
def test_an_operator_inside_computation_is_refused(backend: str) -> None:
    with pytest.raises(hami.ConfigError) as caught:
        hami.pipe({"all": {"backend": backend}, "one": {"backend": "Identity"}})
    assert caught.value.code == "plan-nested-operator"
    assert "directs the graph" in caught.value.message
