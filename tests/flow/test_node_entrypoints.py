"""Laws of hand-written node entrypoints: each of the family's texts behaves exactly like the default node."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000

ENTRYPOINTS = {
    "default": None,
    "written_default": (
        "List[InstancesRegister[BackgroundThread[BackendProxy]],Register[DI[Batching,InstanceDispatcher]]]"
    ),
    "ioc_di": (
        "IoCV0[InstancesRegister[BackgroundThread[BackendProxy]],"
        " Register[DI_v0[Batching, InstanceDispatcher]]; Forward[node.{node_name}]]"
    ),
    "list_aspect": (
        "List[InstancesRegister[BackgroundThread[BackendProxy]],"
        " Register[Aspect[Batching, InstanceDispatcher]]]"
    ),
    "ioc_block": (
        "IoCV0[InstancesRegister[BackgroundThread[Reflect[backend]]],"
        " Register[Block[Batching, InstanceDispatcher]]; Forward[node.{node_name}]]"
    ),
    "shared_state": (
        "List[InstancesRegister[BackgroundThread[Reflect[backend]]],"
        "Register[IoCV0[SharedInstancesState,InstanceDispatcher,Batching;DI_v0[Batching,InstanceDispatcher]]]]"
    ),
}


@pytest.fixture(params=list(ENTRYPOINTS))
def entrypoint(request: pytest.FixtureRequest) -> dict[str, str]:
    """The setting of one entrypoint; none for the default."""
    text = ENTRYPOINTS[request.param]
    return {} if text is None else {"node_entrypoint": text}


def test_a_single_node_answers(open_pipe: Any, entrypoint: Any) -> None:
    pipeline = open_pipe({"backend": "Pow", **entrypoint})
    assert pipeline({"data": 3}) == {"data": 3, "result": 9}
    assert pipeline.submit({"data": 4}).result(10)["result"] == 16
    assert [request["result"] for request in pipeline([{"data": i} for i in range(5)])] == [0, 1, 4, 9, 16]


def test_inline_backends_run_in_place(open_pipe: Any, entrypoint: Any) -> None:
    pipeline = open_pipe({"backend": "Identity", **entrypoint})
    pipeline({"data": 1})
    assert pipeline.stats()[0]["releases"] == {"in_place": 1}


def test_batches_form_within_max(open_pipe: Any, probe: Any, entrypoint: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "max": 4, "batching_timeout": FOR_EVER_MS, **entrypoint})
    pipeline([{"data": i} for i in range(10)])
    assert seen.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    (row,) = pipeline.stats()
    assert (row["node"], row["waiting"], row["items"], row["errors"]) == ("node", 0, 10, 0)
    assert row["batch_rows"] == {2: 1, 4: 2}
    assert row["releases"] == {"everyone_here": 1, "full": 2}


def test_every_instance_works(open_pipe: Any, entrypoint: Any) -> None:
    both = threading.Barrier(3)
    made: list[Any] = []

    class Meeting(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            made.append(self)

        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            both.wait(10)  # ends only when three instances are inside
            return [made.index(self) for _ in batch]

    hami.register("Meeting", Meeting)
    pipeline = open_pipe({"backend": "Meeting", "instance_num": 3, **entrypoint})
    futures = [pipeline.submit({"data": 0}) for _ in range(3)]
    assert sorted(future.result(10)["result"] for future in futures) == [0, 1, 2]


def test_one_bad_item_fails_alone(open_pipe: Any, probe: Any, entrypoint: Any) -> None:
    probe(work=lambda item: 1 // item["data"])
    pipeline = open_pipe({"backend": "Probe", "max": 4, "batching_timeout": FOR_EVER_MS, **entrypoint})
    requests = [{"data": value} for value in (1, 0, 1, 1)]
    with pytest.raises(ZeroDivisionError) as caught:
        pipeline(requests)
    assert [request.get("result") for request in requests] == [1, None, 1, 1]
    notes = caught.value.__notes__
    assert len(notes) == 1 and "node `node`" in notes[0] and "instance 0" in notes[0]


def test_settings_of_the_node_arrive(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any, entrypoint: Any
) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", "queue_capacity": 3, "scheduler": "priority", **entrypoint})
    plug = seen.plug(pipeline)
    futures = [pipeline.submit({"data": i, "priority": i * 1000}) for i in range(3)]
    assert eventually(lambda: waiting(pipeline) == 3)
    with pytest.raises(hami.QueueFull):
        pipeline({"data": 4})
    seen.open()
    for future in [plug, *futures]:
        future.result(10)
    assert seen.items == ["plug", 2, 1, 0]


def test_deadlines_are_answered_on_time(open_pipe: Any, probe: Any, entrypoint: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", **entrypoint})
    seen.plug(pipeline)
    with pytest.raises(hami.DeadlineExceeded):
        pipeline({"data": 1, "deadline_ms": 10})
    seen.open()


def test_an_oversized_request_is_refused(open_pipe: Any, entrypoint: Any) -> None:
    pipeline = open_pipe({"backend": "Identities", "max": 4, **entrypoint})
    with pytest.raises(hami.RequestError, match="`max`"):
        pipeline({"data": 1, "request_size": 5})


def test_nodes_of_a_graph_may_have_it(open_pipe: Any, entrypoint: Any) -> None:
    hami.register("Sum", lambda batch: [item["a"] + item["b"] for item in batch])
    pipeline = open_pipe(
        {
            **entrypoint,
            "root": {"backend": "Identity", "next": "square,each"},
            "square": {"backend": "Pow", "next": "sum"},
            "each": {"backend": "Identities", "max": 4, "next": "sum"},
            "sum": {"backend": "Sum", "map": "square[result:a],each[result:b]"},
        }
    )
    assert [request["result"] for request in pipeline([{"data": i} for i in range(6)])] == [
        i * i + i for i in range(6)
    ]


def test_the_target_of_for_each_may_have_it(open_pipe: Any, entrypoint: Any) -> None:
    pipeline = open_pipe(
        {
            "each": {"backend": "ForEach(target=work)"},
            "work": {"backend": "Pow", "instance_num": 2, **entrypoint},
        }
    )
    assert pipeline({"data": [1, 2, 3]})["result"] == [1, 4, 9]


def test_it_closes_and_drains(open_pipe: Any, probe: Any, entrypoint: Any) -> None:
    seen = probe()
    pipeline = open_pipe({"backend": "Probe", **entrypoint})
    plug = seen.plug(pipeline)
    assert pipeline.close(timeout=0) is False
    assert isinstance(plug.exception(10), hami.Closed)
    seen.open()
    with hami.pipe({"backend": "Probe", **entrypoint}) as other:
        futures = [other.submit({"data": i}) for i in range(10)]
    assert [future.result(0)["result"] for future in futures] == list(range(10))


def test_pipelines_with_it_do_not_share_names(open_pipe: Any, entrypoint: Any) -> None:
    first = open_pipe({"backend": "Pow", **entrypoint})
    second = open_pipe({"backend": "Identity", **entrypoint})
    assert (first({"data": 3})["result"], second({"data": 3})["result"]) == (9, 3)


def test_without_a_backend_proxy_is_refused_and_reflect_is_identity(open_pipe: Any, entrypoint: Any) -> None:
    if "Reflect[backend]" in entrypoint.get("node_entrypoint", ""):
        assert open_pipe({"a": {"instance_num": 1, **entrypoint}})({"data": 1})["result"] == 1
    else:
        with pytest.raises(hami.ConfigError, match="backend"):
            open_pipe({"a": {"instance_num": 1, **entrypoint}})


# --- entrypoints of other forms -------------------------------------------------------------------


def test_a_dispatcher_without_instances_plans_but_does_not_build() -> None:
    text = "IoCV0[InstanceDispatcher,Aspect[Batching,InstanceDispatcher];Aspect]"
    with pytest.raises(hami.BuildError) as caught:
        hami.pipe({"backend": "Identity", "node_entrypoint": text})
    assert caught.value.help


@pytest.mark.parametrize(
    "text",
    ["IoCV0[Identity;Forward[Identity]]", "IoC[Pow,Identity;Identity]", "IoC[Identity;S[Identity,Identity]]"],
)
def test_an_entrypoint_that_only_computes_is_a_node_of_one_instance(open_pipe: Any, text: str) -> None:
    for _ in range(3):
        assert open_pipe({"entrypoint": text})({"data": 1}) == {"data": 1, "result": 1}
    pipeline = open_pipe({"entrypoint": text})
    assert [request["result"] for request in pipeline([{"data": i} for i in range(5)])] == list(range(5))


def test_without_batching_nothing_waits_for_company(open_pipe: Any, probe: Any) -> None:
    seen = probe()
    text = "List[InstancesRegister[BackgroundThread[BackendProxy]], Register[InstanceDispatcher]]"
    pipeline = open_pipe({"backend": "Probe", "max": 4, "node_entrypoint": text})
    pipeline([{"data": i} for i in range(6)])
    assert sorted(seen.items) == list(range(6))


def test_a_name_registered_by_one_node_is_known_to_a_later_one(open_pipe: Any) -> None:
    pipeline = open_pipe(
        {
            "a": {"backend": "Pow", "next": "b"},
            "b": {"backend": "S[Pow, Forward[node.a]]"},
        }
    )
    assert pipeline({"data": 2})["result"] == 256
