"""Laws of StatefulBatching: a sequence stays on its instance, in order, and batches with its neighbours."""

from __future__ import annotations

import threading
from typing import Any

import pytest

import hami

STATEFUL = (
    "List[InstancesRegister[BackgroundThread[BackendProxy]],"
    " Register[DI[StatefulBatching, InstanceDispatcher]]]"
)
FOR_EVER_MS = 60_000


class Sums:
    """What instances of `Sum` saw: batches of (instance, ids), and the running sums by instance."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[Any]]] = []
        self.num_instances = 0


@pytest.fixture
def sums() -> Sums:
    """Register `Sum`: keeps a running sum for each request id, in the instance."""
    seen = Sums()
    lock = threading.Lock()

    @hami.register
    class Sum(hami.Backend):
        batch_range = (1, 8)

        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            with lock:
                self.index = seen.num_instances
                seen.num_instances += 1
            self.totals: dict[Any, int] = {}

        def forward(self, batch: list[dict[str, Any]]) -> list[int]:
            ids = [item["request_id"] for item in batch]
            with lock:
                seen.batches.append((self.index, ids))
            assert len(ids) == len(set(ids)), "two items of one sequence in a batch"
            results = []
            for item in batch:
                total = self.totals.get(item["request_id"], 0) + item["data"]
                self.totals[item["request_id"]] = total
                if item.get("request_end"):
                    del self.totals[item["request_id"]]
                results.append(total)
            return results

    return seen


def test_the_state_of_a_sequence_stays_on_its_instance(open_pipe: Any, sums: Sums, in_threads: Any) -> None:
    pipeline = open_pipe(
        {"backend": "Sum", "instance_num": 3, "node_entrypoint": STATEFUL, "batching_timeout": 1}
    )

    def sequence(index: int) -> None:
        for turn in range(3):
            for i in range(1, 21):
                request = {"data": i, "request_id": f"{index}", "request_end": i == 20}
                assert pipeline(request)["result"] == i * (i + 1) // 2, turn

    in_threads(9, sequence)
    homes: dict[str, set[int]] = {}
    for instance, ids in sums.batches:
        for request_id in ids:
            homes.setdefault(request_id, set()).add(instance)
    assert len({instance for instance, _ in sums.batches}) == 3


def test_items_of_a_sequence_run_in_order(open_pipe: Any, sums: Sums) -> None:
    pipeline = open_pipe({"backend": "Sum", "instance_num": 2, "node_entrypoint": STATEFUL})
    futures = [pipeline.submit({"data": 1, "request_id": 7}) for _ in range(50)]
    assert [future.result(10)["result"] for future in futures] == list(range(1, 51))


def test_a_batch_waits_for_all_live_sequences_of_the_instance(open_pipe: Any, sums: Sums) -> None:
    pipeline = open_pipe(
        {"backend": "Sum", "node_entrypoint": STATEFUL, "batching_timeout": FOR_EVER_MS, "max": 8}
    )
    for _ in range(5):
        pipeline([{"data": 1, "request_id": name} for name in "abcd"])
    assert [ids for _, ids in sums.batches] == [list("abcd")] * 5
    assert pipeline.stats()[0]["releases"] == {"everyone_here": 5}


def test_three_of_four_run_at_the_timeout(open_pipe: Any, sums: Sums) -> None:
    pipeline = open_pipe({"backend": "Sum", "node_entrypoint": STATEFUL, "batching_timeout": 20})
    pipeline([{"data": 1, "request_id": name} for name in "abcd"])
    pipeline([{"data": 1, "request_id": name} for name in "abc"])
    assert [ids for _, ids in sums.batches] == [list("abcd"), list("abc")]
    assert pipeline.stats()[0]["releases"] == {"everyone_here": 1, "timeout": 1}


def test_nobody_waits_for_a_sequence_that_has_ended(open_pipe: Any, sums: Sums) -> None:
    pipeline = open_pipe({"backend": "Sum", "node_entrypoint": STATEFUL, "batching_timeout": FOR_EVER_MS})
    pipeline([{"data": 1, "request_id": name, "request_end": name == "b"} for name in "ab"])
    assert pipeline({"data": 1, "request_id": "a"})["result"] == 2


def test_nobody_waits_for_a_sequence_whose_state_has_expired(open_pipe: Any, sums: Sums) -> None:
    pipeline = open_pipe(
        {"backend": "Sum", "node_entrypoint": STATEFUL, "batching_timeout": FOR_EVER_MS, "state_ttl_ms": 30}
    )
    pipeline([{"data": 1, "request_id": name} for name in "ab"])
    assert pipeline({"data": 1, "request_id": "a"})["result"] == 2


def test_the_backend_may_end_a_sequence(open_pipe: Any) -> None:
    @hami.register
    class Countdown(hami.Backend):
        batch_range = (1, 8)

        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            self.left: dict[Any, int] = {}

        def forward(self, batch: list[dict[str, Any]]) -> None:
            for item in batch:
                left = self.left.setdefault(item["request_id"], item["data"]) - 1
                self.left[item["request_id"]] = left
                item["result"] = left
                item["request_end"] = left == 0

    pipeline = open_pipe(
        {"backend": "Countdown", "node_entrypoint": STATEFUL, "batching_timeout": FOR_EVER_MS}
    )
    first = pipeline([{"data": 1, "request_id": "short"}, {"data": 3, "request_id": "long"}])
    assert [request["result"] for request in first] == [0, 2]
    assert pipeline({"data": 0, "request_id": "long"})["result"] == 1  # and waits for nobody


def test_the_end_of_a_sequence_empties_its_storage(open_pipe: Any) -> None:
    sizes: list[int] = []

    @hami.register
    class Keeps(hami.Backend):
        batch_range = (1, 8)

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            sizes.append(len(self.storage))
            for item in batch:
                self.storage.set(item["request_id"], "last", item["data"])
            return [self.storage.get(item["request_id"], "last") for item in batch]

    pipeline = open_pipe({"backend": "Keeps", "node_entrypoint": STATEFUL, "batching_timeout": FOR_EVER_MS})
    pipeline([{"data": i, "request_id": i, "request_end": i == 1} for i in range(3)])
    pipeline([{"data": i, "request_id": i, "request_end": True} for i in (0, 2)])
    assert pipeline({"data": 5, "request_id": 7})["result"] == 5
    assert sizes == [0, 2, 0]


def test_shapes_of_one_instance_do_not_mix(open_pipe: Any) -> None:
    np = pytest.importorskip("numpy")
    shapes: list[set[Any]] = []

    @hami.register
    class Shapes(hami.Backend):
        batch_range = (1, 8)

        def forward(self, batch: list[dict[str, Any]]) -> list[Any]:
            shapes.append({item["data"].shape for item in batch})
            return [item["data"].sum() for item in batch]

    pipeline = open_pipe({"backend": "Shapes", "node_entrypoint": STATEFUL, "batching_timeout": FOR_EVER_MS})
    requests = [{"data": np.ones(size), "request_id": size * 10 + i} for size in (2, 3) for i in range(2)]
    assert [request["result"] for request in pipeline(requests)] == [2, 2, 3, 3]
    assert sorted(map(sorted, shapes)) == [[(2,)], [(3,)]]


@pytest.mark.parametrize("request_id", [None, 1.5, (1, 2), "absent"])
def test_a_request_needs_an_id(open_pipe: Any, sums: Sums, request_id: Any) -> None:
    pipeline = open_pipe({"backend": "Sum", "node_entrypoint": STATEFUL})
    request = {"data": 1} if request_id == "absent" else {"data": 1, "request_id": request_id}
    with pytest.raises(hami.RequestError, match="request_id"):
        pipeline(request)
    assert pipeline({"data": 1, "request_id": 1})["result"] == 1


def test_a_failed_item_keeps_its_sequence_alive(open_pipe: Any) -> None:
    @hami.register
    class Divide(hami.Backend):
        batch_range = (1, 8)

        def forward(self, batch: list[dict[str, Any]]) -> list[float]:
            return [12 / item["data"] for item in batch]

    pipeline = open_pipe({"backend": "Divide", "node_entrypoint": STATEFUL, "batching_timeout": FOR_EVER_MS})
    requests = [{"data": value, "request_id": value} for value in (1, 0, 2)]
    with pytest.raises(ZeroDivisionError):
        pipeline(requests)
    assert [request.get("result") for request in requests] == [12, None, 6]
    with pytest.raises(ZeroDivisionError):
        pipeline([{"data": value, "request_id": value} for value in (1, 0, 2)])
    assert pipeline.stats()[0]["releases"] == {"everyone_here": 2}


def test_cancelled_and_late_items_leave_no_hole(
    open_pipe: Any, probe: Any, waiting: Any, eventually: Any
) -> None:
    seen = probe(batch_range=(1, 8))
    pipeline = open_pipe({"backend": "Probe", "node_entrypoint": STATEFUL, "batching_timeout": FOR_EVER_MS})
    plug = seen.plug(pipeline, request_id="plug", request_end=True)
    gone = pipeline.submit({"data": "gone", "request_id": "a"})
    late = pipeline.submit({"data": "late", "request_id": "b", "deadline_ms": 20})
    kept = pipeline.submit({"data": "kept", "request_id": "c"})
    eventually(lambda: waiting(pipeline) >= 1)
    assert gone.cancel()
    with pytest.raises(hami.DeadlineExceeded):
        late.result(10)
    # Their sequences live on, so `kept` has company to wait for until those come again.
    again = [pipeline.submit({"data": "again", "request_id": name}) for name in "ab"]
    seen.open()
    assert [future.result(10)["result"] for future in [plug, kept, *again]] == [
        "plug",
        "kept",
        "again",
        "again",
    ]
    assert seen.batches == [["plug"], ["kept", "again", "again"]]


def test_closing_ends_what_waits(open_pipe: Any, probe: Any) -> None:
    seen = probe(batch_range=(1, 8))
    pipeline = open_pipe({"backend": "Probe", "node_entrypoint": STATEFUL, "batching_timeout": FOR_EVER_MS})
    pipeline([{"data": i, "request_id": i} for i in range(2)])
    alone = pipeline.submit({"data": 0, "request_id": 0})
    pipeline.close(timeout=0)
    with pytest.raises(hami.Closed):
        alone.result(10)
    assert seen.items == [0, 1]
