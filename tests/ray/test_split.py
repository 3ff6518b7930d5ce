"""A configuration in parts: each node that is deployed alone, and the rest, which hands on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest
from ray.exceptions import ActorDiedError, RayTaskError
from ray.serve.exceptions import BackPressureError

import hami
from hami.config import load
from hami.plan import plan
from hami.ray.split import SplitPipeline, parts_of, rest_of
from hami.ray.transport import writable

GRAPH = {
    "batching_timeout": 1,
    "square": {"backend": "Pow", "next": "twice,join", "max": 8, "ray": {"num_replicas": 2}},
    "twice": {"backend": "Pow", "next": "join", "ray": {}},
    "join": {"backend": "Identity", "map": "twice[result:data],square[result:small],input[data:original]"},
}


class Responses:
    """What a handle returns for a stream."""

    def __init__(self, parts: list[Any]) -> None:
        self.parts = parts
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    async def __aiter__(self) -> Any:
        for part in self.parts:
            await asyncio.sleep(0)
            yield part


class Handle:
    """The handle of a deployment that is a pipeline of this process, or a function."""

    def __init__(self, work: Callable[[dict[str, Any]], Any]) -> None:
        self.work = work
        self.asked: list[dict[str, Any]] = []
        self.responses: list[Responses] = []

    @property
    def infer(self) -> Handle:
        return self

    @property
    def stream_all(self) -> Handle:
        return self

    def options(self, *, stream: bool) -> Streaming:
        assert stream
        return Streaming(self)

    def remote(self, parcel: Any) -> Any:
        opened = _opened(parcel)
        self.asked.append(opened)

        async def answer() -> Any:
            result = self.work(opened)
            return await result if asyncio.iscoroutine(result) else result

        return answer()


class Streaming:
    """The same for streams: the work returns a list of what `stream_all` yields."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    @property
    def stream_all(self) -> Streaming:
        return self

    def remote(self, parcel: Any) -> Responses:
        self._handle.asked.append(_opened(parcel))
        self._handle.responses.append(Responses(self._handle.work(self._handle.asked[-1])))
        return self._handle.responses[-1]


def _opened(parcel: Any) -> Any:
    make, arguments = parcel.__reduce_ex__(5)
    return writable(make(*(getattr(each, "raw", lambda each=each: each)() for each in arguments)))


@pytest.fixture
def split() -> Iterator[Callable[..., SplitPipeline]]:
    """Return a function that builds the rest of a configuration: `split(source, square=handle)`."""
    made: list[SplitPipeline] = []

    def build(source: Any, **handles: Handle) -> SplitPipeline:
        config = load(source)
        checked = plan(config)
        parts = parts_of(config, checked)
        made.append(SplitPipeline(plan(rest_of(config, parts, handles)), checked, {}))
        return made[-1]

    yield build
    for pipe in made:
        pipe.close(timeout=0)


def one(work: Callable[[dict[str, Any]], Any]) -> tuple[dict[str, Any], Handle]:
    return {"far": {"backend": "Identity", "ray": {}}}, Handle(work)


# --- the parts -----------------------------------------------------------------------------------------


def test_a_part_is_its_node_without_the_graph() -> None:
    square, twice = parts_of(load(GRAPH), plan(GRAPH))

    assert (square.name, square.options) == ("square", {"num_replicas": 2})
    (node,) = square.plan.nodes
    assert (node.next, node.map, node.deployment) == ((), None, None)
    assert node.params["max"] == 8
    assert node.params["batching_timeout"] == 1
    assert twice.options == {}


def test_the_rest_answers_as_the_whole(split: Callable[..., SplitPipeline]) -> None:
    config = load(GRAPH)
    pipes = {part.name: hami.Pipeline(part.plan) for part in parts_of(config, plan(config))}

    def work(name: str) -> Callable[[dict[str, Any]], Any]:
        return lambda request: {"result": pipes[name](dict(request))["result"]}

    pipe = split(GRAPH, square=Handle(work("square")), twice=Handle(work("twice")))
    with hami.pipe(GRAPH) as whole:
        for data in (2, 3):
            assert pipe({"data": data}) == whole({"data": data})
    for each in pipes.values():
        each.close()


def test_the_rest_keeps_the_bounds_of_its_queues() -> None:
    source = {"queue_capacity": 5, **GRAPH, "square": {**GRAPH["square"], "queue_capacity": 7}}  # type: ignore[dict-item]

    config = load(source)
    rest = plan(rest_of(config, parts_of(config, plan(config))))

    assert {node.name: node.backend.params.get("queue_capacity") for node in rest.nodes}["square"] == 7
    assert rest.settings["queue_capacity"] == 5


def test_the_plan_of_the_rest_tells_what_runs_elsewhere(split: Callable[..., SplitPipeline]) -> None:
    source, handle = one(lambda request: request)

    (node,) = split(source, far=handle).plan.nodes

    assert [backend.name for backend in node.elsewhere] == ["List"]


def test_a_node_that_enters_others_stays() -> None:
    source = {
        "each": {"backend": "ForEach(target=square)", "ray": {}},
        "square": {"backend": "Pow"},
    }

    with pytest.raises(hami.ConfigError) as caught:
        parts_of(load(source), plan(source))

    assert caught.value.code == "ray-node"
    assert "enters node `square`" in caught.value.message


def test_what_such_a_node_enters_may_be_elsewhere(split: Callable[..., SplitPipeline]) -> None:
    source = {"each": {"backend": "ForEach(target=far)"}, "far": {"backend": "Pow", "ray": {}}}

    pipe = split(source, far=Handle(lambda request: {"result": request["data"] ** 2}))

    assert pipe({"data": [1, 2, 3]})["result"] == [1, 4, 9]


def test_a_node_that_sends_requests_back_stays() -> None:
    source = {
        "first": {"backend": "Identity", "next": "again"},
        "again": {"backend": "S[Identity, Restart]", "ray": {}},
    }

    with pytest.raises(hami.ConfigError) as caught:
        parts_of(load(source), plan(source))

    assert "sends requests back" in caught.value.message


def test_a_node_that_needs_what_another_registers_stays() -> None:
    source = {
        "makes": {"backend": "Register(name=shared)[Identity]", "next": "uses"},
        "uses": {"backend": "Forward[shared]", "ray": {}},
    }

    with pytest.raises(hami.ConfigError) as caught:
        parts_of(load(source), plan(source))

    assert caught.value.code == "ray-node"
    assert "`uses` cannot be deployed alone" in caught.value.message


# --- handing on ----------------------------------------------------------------------------------------


def test_keys_and_arrays_arrive_whole_and_may_be_written(split: Callable[..., SplitPipeline]) -> None:
    def work(request: dict[str, Any]) -> dict[str, Any]:
        request["data"] += 1
        return {"result": request["data"], "extra": 2}

    source, handle = one(work)
    array = np.zeros(5000)
    array.flags.writeable = False

    answer = split(source, far=handle)({"data": array, "priority": 3, "own": "key"})

    assert (answer["result"] == 1).all()
    assert (array == 0).all()
    assert answer["extra"] == 2
    assert {key: handle.asked[0][key] for key in ("priority", "own")} == {"priority": 3, "own": "key"}


def test_a_key_that_does_not_pickle_is_named(split: Callable[..., SplitPipeline]) -> None:
    source, handle = one(lambda request: request)

    with pytest.raises(hami.RequestError) as caught:
        split(source, far=handle)({"data": 1, "lock": threading.Lock()})

    assert caught.value.code == "ray-pickle"
    assert "under `lock`" in caught.value.message


def failing(error: Exception) -> Callable[[dict[str, Any]], Any]:
    def work(request: dict[str, Any]) -> Any:
        raise error

    return work


def test_an_error_of_the_replica_keeps_its_type_and_notes(split: Callable[..., SplitPipeline]) -> None:
    cause = hami.RequestError("wrong", code="my-code")
    cause.__dict__["__notes__"] = ["in node `far`, backend `X`, instance 0"]
    source, handle = one(failing(RayTaskError("infer", "traceback", cause).as_instanceof_cause()))

    with pytest.raises(hami.RequestError) as caught:
        split(source, far=handle)({"data": 1})

    assert type(caught.value) is hami.RequestError
    assert caught.value.code == "my-code"
    assert "in node `far`, backend `X`, instance 0" in caught.value.__notes__


def test_a_lost_replica_is_an_error_that_names_the_node(split: Callable[..., SplitPipeline]) -> None:
    source, handle = one(failing(ActorDiedError()))

    with pytest.raises(hami.WorkerError) as caught:
        split(source, far=handle)({"data": 1})

    assert caught.value.code == "ray-replica-lost"
    assert "node `far`" in caught.value.message


def test_a_full_deployment_is_a_full_queue(split: Callable[..., SplitPipeline]) -> None:
    source, handle = one(failing(BackPressureError(num_queued_requests=2, max_queued_requests=1)))

    with pytest.raises(hami.QueueFull) as caught:
        split(source, far=handle)({"data": 1})

    assert caught.value.code == "ray-queue-full"


def test_anything_else_of_ray_is_told_as_such(split: Callable[..., SplitPipeline]) -> None:
    source, handle = one(failing(RuntimeError("no route")))

    with pytest.raises(hami.WorkerError) as caught:
        split(source, far=handle)({"data": 1})

    assert caught.value.code == "ray-call"
    assert "RuntimeError: no route" in caught.value.message


def test_partial_results_and_keys_come_through(split: Callable[..., SplitPipeline]) -> None:
    source, handle = one(lambda request: [(1, None), (2, None), (None, {"result": 3, "usage": 4})])
    request = {"data": 0}

    assert list(split(source, far=handle).stream(request)) == [1, 2]
    assert (request["result"], request["usage"]) == (3, 4)


def test_a_stream_that_nobody_reads_is_cancelled_elsewhere(split: Callable[..., SplitPipeline]) -> None:
    source, handle = one(lambda request: [(number, None) for number in range(100_000)])
    pipe = split(source, far=handle)

    stream = pipe.stream({"data": 0})
    assert next(stream) == 0
    stream.close()

    for _ in range(10_000):
        if handle.responses[0].is_cancelled:
            break
        threading.Event().wait(0.001)
    assert handle.responses[0].is_cancelled


def test_closing_fails_what_waits_elsewhere(split: Callable[..., SplitPipeline]) -> None:
    begun = threading.Event()

    async def never(request: dict[str, Any]) -> None:
        begun.set()
        await asyncio.Event().wait()

    source, handle = one(never)
    pipe = split(source, far=handle)
    waiting: Future[Any] = pipe.submit({"data": 1})
    assert begun.wait(10)

    pipe.close(timeout=0)

    with pytest.raises(hami.Closed):
        waiting.result(10)
