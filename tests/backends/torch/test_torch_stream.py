"""`StreamPool` bounds the runs of a node, with a GPU or without; streams of an instance are waited for."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from torch_samples import DEVICES, make, needs_gpu, needs_no_gpu, normal, torch

import hami
from hami.backends.torch import StreamPool
from hami.backends.torch import stream as stream_module
from hami.backends.torch.stream import OwnStreams
from hami.errors import BuildError, ConfigError

WAIT_S = 30


class Counter:
    """Counts those inside; nobody leaves before `partners` of them have been inside together."""

    def __init__(self, partners: int) -> None:
        self._partners = partners
        self._have_met = threading.Event()
        self._lock = threading.Lock()
        self._inside = 0
        self.most = 0
        self.streams: set[Any] = set()

    def visit(self) -> None:
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
            if torch.cuda.is_available():
                self.streams.add(torch.cuda.current_stream())
            if self._inside == self._partners:
                self._have_met.set()
        assert self._have_met.wait(WAIT_S)
        with self._lock:
            self._inside -= 1


def options_of(storage: Any, node_name: str = "node") -> dict[str, Any]:
    """Return what the backends of one expression share, as the core makes it."""
    return {"storage": storage, "node_name": node_name}


@pytest.fixture
def storage() -> Any:
    from hami import _core

    return _core.KVStorage()


def start(call: Callable[[], None]) -> Future[None]:
    """Call on a thread of its own, which does not keep the process alive if it never comes back."""
    future: Future[None] = Future()

    def work() -> None:
        try:
            future.set_result(call())
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future


def visit_from_threads(pools: list[Any], visit: Callable[[], None], num_visits: int) -> None:
    """Let each pool run `visit` on a thread of its own, as the instances of a node do."""

    def visits(pool: Any) -> None:
        for _ in range(num_visits):
            pool.forward_with(visit)

    for done in [start(lambda pool=pool: visits(pool)) for pool in pools]:
        done.result(WAIT_S)


@pytest.mark.parametrize("max_stream", [1, 2, 3])
def test_no_more_than_max_stream_instances_run_at_once(storage: Any, max_stream: int) -> None:
    pools = [make(StreamPool, options_of(storage), max_stream=max_stream) for _ in range(6)]
    counter = Counter(max_stream)

    visit_from_threads(pools, counter.visit, num_visits=20)

    assert counter.most == max_stream


def test_the_slot_of_a_run_that_raises_is_free_again(storage: Any) -> None:
    pool = make(StreamPool, options_of(storage), max_stream=1)

    for _ in range(3):
        with pytest.raises(ZeroDivisionError):
            pool.forward_with(lambda: 1 / 0)

    ran = []
    pool.forward_with(lambda: ran.append(1))
    assert ran == [1]


def test_a_run_waits_for_a_slot_and_starts_when_one_is_free(storage: Any) -> None:
    first, second = (make(StreamPool, options_of(storage), max_stream=1) for _ in range(2))
    is_inside, may_leave, order = threading.Event(), threading.Event(), []

    def stay() -> None:
        is_inside.set()
        assert may_leave.wait(WAIT_S)
        order.append("first")

    staying = start(lambda: first.forward_with(stay))
    assert is_inside.wait(WAIT_S)
    waiting = start(lambda: second.forward_with(lambda: order.append("second")))
    may_leave.set()
    waiting.result(WAIT_S)
    staying.result(WAIT_S)

    assert order == ["first", "second"]


def test_nodes_pipelines_and_places_have_slots_of_their_own(storage: Any) -> None:
    from hami import _core

    options = options_of(storage)
    one = make(StreamPool, options)
    other_place = make(StreamPool, options)
    other_node = make(StreamPool, options_of(storage, "other"))
    other_pipeline = make(StreamPool, options_of(_core.KVStorage()))
    other_instance = make(StreamPool, options_of(storage))

    assert other_instance.slots is one.slots
    assert len({id(pool.slots) for pool in (one, other_place, other_node, other_pipeline)}) == 4


def test_nothing_is_left_when_the_pipeline_is_gone() -> None:
    from hami import _core

    gc.collect()
    before = len(stream_module._slots_of_pipelines)
    pool = make(StreamPool, options_of(_core.KVStorage()))
    assert len(stream_module._slots_of_pipelines) == before + 1

    del pool
    gc.collect()

    assert len(stream_module._slots_of_pipelines) == before


def test_alone_it_says_how_it_is_written() -> None:
    with hami.pipe("StreamPool") as pipe, pytest.raises(ConfigError, match=r"With\[StreamPool"):
        pipe({"data": 1})


@needs_no_gpu
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(BuildError, match="cuda:0"):
        hami.pipe("With[StreamPool(device=cuda), Identity]")


@pytest.mark.parametrize("value", ["0", "-1", "many"])
def test_a_number_of_streams_that_makes_no_sense_is_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="max_stream"):
        hami.pipe(f"With[StreamPool(max_stream={value}), Identity]")


# --- in a pipeline -----------------------------------------------------------------------------------

counters: dict[str, Counter] = {}


@hami.register
class VisitCounter(hami.Backend):
    """Visit the counter of the test, and double `data`."""

    counter = hami.param("", doc="name of the counter")

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Stay inside until the partners have come."""
        counters[self.counter].visit()
        for item in batch:
            if item["data"] == "bad":
                item["error"] = ValueError("bad data")
            else:
                item["result"] = item["data"] * 2


def test_the_instances_of_a_node_share_the_streams() -> None:
    counters["shared"] = Counter(2)

    with hami.pipe(
        {"backend": "With[StreamPool(max_stream=2), VisitCounter(shared)]", "instance_num": 4, "max": 1}
    ) as pipe:
        answers = pipe([{"data": number} for number in range(40)])

    assert [answer["result"] for answer in answers] == [2 * number for number in range(40)]
    assert counters["shared"].most == 2


def test_pipelines_do_not_take_streams_from_each_other() -> None:
    counters["both"] = Counter(2)
    config = {"backend": "With[StreamPool(max_stream=1), VisitCounter(both)]", "max": 1}

    # each run stays until one of the other pipeline is inside too
    with hami.pipe(config) as one, hami.pipe(config) as other:
        futures = [pipe.submit({"data": number}) for number in range(8) for pipe in (one, other)]
        assert [future.result(WAIT_S)["result"] for future in futures] == [2 * (n // 2) for n in range(16)]

    assert counters["both"].most == 2


def test_an_error_inside_reaches_its_caller_and_the_stream_serves_on() -> None:
    counters["errors"] = Counter(1)

    with hami.pipe({"backend": "With[StreamPool(max_stream=1), VisitCounter(errors)]", "max": 4}) as pipe:
        for _ in range(3):
            with pytest.raises(ValueError, match="bad data"):
                pipe({"data": "bad"})
            assert pipe({"data": 3})["result"] == 6


def test_chains_and_built_in_backends_run_inside_too() -> None:
    with hami.pipe(
        {"backend": "With[StreamPool, S[Identity, SoftmaxTensor, ArgMaxTensor]]", "max": 4}
    ) as pipe:
        answers = pipe([{"data": torch.eye(5)[number]} for number in range(5)])

    assert [int(answer["result"]) for answer in answers] == list(range(5))


# --- streams of an instance --------------------------------------------------------------------------


def test_the_cpu_has_no_streams() -> None:
    with OwnStreams().complete_on([torch.device("cpu")]):
        assert torch.ones(2).sum() == 2


@pytest.mark.parametrize("device", DEVICES)
def test_what_the_body_raises_passes_through(device: str) -> None:
    with pytest.raises(KeyError), OwnStreams().complete_on([torch.device(device)]):
        raise KeyError("x")


@needs_gpu
def test_an_instance_works_in_a_stream_of_its_own_and_keeps_it() -> None:
    device, streams = torch.device("cuda", 0), OwnStreams()
    seen = []
    for _ in range(2):
        with streams.complete_on([device, device, torch.device("cpu")]):
            seen.append(torch.cuda.current_stream())

    assert seen[0] == seen[1] != torch.cuda.default_stream()
    assert torch.cuda.current_stream() == torch.cuda.default_stream()


@needs_gpu
def test_work_is_complete_at_the_end_even_when_the_body_raises() -> None:
    device, over = torch.device("cuda", 0), torch.cuda.Event()
    matrix = torch.eye(2048, device=device)
    torch.cuda.synchronize()

    with pytest.raises(KeyError), OwnStreams().complete_on([device]):
        for _ in range(50):
            matrix = matrix @ matrix
        over.record()
        raise KeyError("x")

    assert over.query()


@needs_gpu
def test_inside_a_pool_an_instance_works_in_the_stream_of_the_pool(storage: Any) -> None:
    pool = make(StreamPool, options_of(storage), max_stream=1)
    inner = []

    def run() -> None:
        with OwnStreams().complete_on([torch.device("cuda", 0)]):
            inner.append(torch.cuda.current_stream())

    pool.forward_with(run)
    pool.forward_with(lambda: inner.append(torch.cuda.current_stream()))

    assert inner[0] == inner[1] != torch.cuda.default_stream()


@needs_gpu
def test_a_pool_has_no_more_streams_than_it_may(storage: Any) -> None:
    pools = [make(StreamPool, options_of(storage), max_stream=2) for _ in range(5)]
    counter = Counter(2)

    visit_from_threads(pools, counter.visit, num_visits=20)

    assert len(counter.streams) == 2


@needs_gpu
def test_what_ran_in_a_pool_is_complete_afterwards(storage: Any) -> None:
    pool = make(StreamPool, options_of(storage))
    matrix, over = normal(2048, 2048).cuda(), torch.cuda.Event()
    torch.cuda.synchronize()

    def run() -> None:
        work = matrix
        for _ in range(50):
            work = (work @ matrix).clamp(-1, 1)
        over.record()

    pool.forward_with(run)

    assert over.query()
