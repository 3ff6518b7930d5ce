"""Laws of StatefulBatching beside schedulers and shapes: a sequence keeps its order of arrival."""

from __future__ import annotations

from typing import Any

import pytest

import hami

STATEFUL = (
    "List[InstancesRegister[BackgroundThread[BackendProxy]],"
    " Register[DI[StatefulBatching, InstanceDispatcher]]]"
)
FOR_EVER_MS = 60_000


@pytest.fixture
def run_behind_plug(open_pipe: Any, probe: Any, waiting: Any, eventually: Any) -> Any:
    """Return a function that submits requests to a busy instance and returns the batches that ran then."""

    def run(requests: list[dict[str, Any]], **table: Any) -> list[list[Any]]:
        seen = probe(batch_range=(1, 8))
        pipeline = open_pipe({"backend": "Probe", "node_entrypoint": STATEFUL, **table})
        plug = seen.plug(pipeline, request_id="plug", request_end=True)
        futures = [pipeline.submit(request) for request in requests]
        eventually(lambda: waiting(pipeline) == len(requests))
        seen.open()
        for future in [plug, *futures]:
            future.result(10)
        return list(seen.batches[1:])

    return run


def test_a_sequence_keeps_its_order_under_rising_priorities(run_behind_plug: Any) -> None:
    requests = [{"data": i, "request_id": "a", "priority": i} for i in range(20)]
    batches = run_behind_plug(requests, scheduler="priority", batching_timeout=FOR_EVER_MS)
    assert batches == [[i] for i in range(20)]


def test_a_sequence_keeps_its_order_under_falling_deadlines(run_behind_plug: Any) -> None:
    requests = [{"data": i, "request_id": "a", "deadline_ms": 60_000 - 1000 * i} for i in range(20)]
    batches = run_behind_plug(requests, scheduler="edf", batching_timeout=FOR_EVER_MS)
    assert batches == [[i] for i in range(20)]


def test_a_sequence_keeps_its_order_under_a_scheduler_of_the_users(
    run_behind_plug: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from hami import scheduler

    monkeypatch.setattr(scheduler, "_classes", dict(scheduler._classes))

    @hami.register
    class LatestFirst(hami.Scheduler):
        def order(self, request: dict[str, Any]) -> float:
            return -float(request.get("place", 0))

    requests = [{"data": i, "request_id": "a", "place": i} for i in range(20)]
    batches = run_behind_plug(requests, scheduler="LatestFirst", batching_timeout=FOR_EVER_MS)
    assert batches == [[i] for i in range(20)]


def test_among_sequences_the_higher_priority_runs_first(run_behind_plug: Any) -> None:
    requests = [{"data": name, "request_id": name, "priority": i * 10} for i, name in enumerate("abc")]
    batches = run_behind_plug(requests, scheduler="priority", max=1)
    assert batches == [["c"], ["b"], ["a"]]


def test_a_priority_counts_from_when_its_sequence_has_come_to_it(run_behind_plug: Any) -> None:
    requests = [
        {"data": "a1", "request_id": "a", "priority": 0},
        {"data": "a2", "request_id": "a", "priority": 90},
        {"data": "b1", "request_id": "b", "priority": 50},
        {"data": "c1", "request_id": "c", "priority": -50},
    ]
    batches = run_behind_plug(requests, scheduler="priority", max=1)
    assert batches == [["b1"], ["a1"], ["a2"], ["c1"]]


def test_what_waits_behind_its_own_keeps_nobody_from_the_batch(run_behind_plug: Any) -> None:
    requests = [{"data": f"{name}{i}", "request_id": name} for name in "abc" for i in range(3)]
    batches = run_behind_plug(requests, batching_timeout=FOR_EVER_MS)
    assert batches == [["a0", "b0", "c0"], ["a1", "b1", "c1"], ["a2", "b2", "c2"]]


@pytest.mark.parametrize("scheduler", ["fifo", "priority", "edf"])
def test_a_sequence_keeps_its_order_when_its_shapes_change(
    open_pipe: Any, in_threads: Any, scheduler: str
) -> None:
    np = pytest.importorskip("numpy")
    seen: dict[Any, list[int]] = {}

    @hami.register
    class Shapes(hami.Backend):
        batch_range = (1, 8)

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            assert len({item["data"].shape for item in batch}) == 1, "two shapes in a batch"
            ids = [item["request_id"] for item in batch]
            assert len(ids) == len(set(ids)), "two items of one sequence in a batch"
            for item in batch:
                seen.setdefault(item["request_id"], []).append(item["turn"])
            return [item["data"].sum() for item in batch]

    pipeline = open_pipe(
        {
            "backend": "Shapes",
            "node_entrypoint": STATEFUL,
            "scheduler": scheduler,
            "instance_num": 2,
            "batching_timeout": 0.2,
        }
    )

    def sequence(index: int) -> None:
        sizes = [1 + (turn * (index + 1)) % 3 for turn in range(40)]
        futures = [
            pipeline.submit(
                {
                    "data": np.ones(size),
                    "request_id": index,
                    "turn": turn,
                    "priority": turn % 5,
                    "deadline_ms": 60_000 - 100 * turn,
                }
            )
            for turn, size in enumerate(sizes)
        ]
        assert [future.result(20)["result"] for future in futures] == sizes

    in_threads(4, sequence)
    assert seen == {index: list(range(40)) for index in range(4)}


@pytest.mark.parametrize("instance_num", [1, 2])
@pytest.mark.parametrize("is_reentrant", [False, True])
def test_a_backend_that_may_run_on_the_callers_thread_keeps_its_sequences(
    open_pipe: Any, is_reentrant: bool, instance_num: int
) -> None:
    reentrant = is_reentrant

    @hami.register
    class Count(hami.Backend):
        is_inline = True
        is_reentrant = reentrant

        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            self.counts: dict[Any, int] = {}

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            results = []
            for item in batch:
                name = item["request_id"]
                self.counts[name] = self.counts.get(name, 0) + 1
                kept = self.storage.get(name, "count", 0) + 1
                self.storage.set(name, "count", kept)
                results.append((id(self), self.counts[name], kept))
            return results

    pipeline = open_pipe({"backend": "Count", "node_entrypoint": STATEFUL, "instance_num": instance_num})
    with pytest.raises(hami.RequestError, match="request_id"):
        pipeline({"data": 0})
    homes: dict[str, set[int]] = {"a": set(), "b": set()}
    for turn in range(1, 5):
        for name in "ab":
            home, count, kept = pipeline({"data": 0, "request_id": name, "request_end": turn == 4})["result"]
            assert count == kept == turn
            homes[name].add(home)
    assert [len(home) for home in homes.values()] == [1, 1]
    assert len(homes["a"] | homes["b"]) == instance_num
    # With the sequence went what was kept for it.
    assert pipeline({"data": 0, "request_id": "a"})["result"][2] == 1
