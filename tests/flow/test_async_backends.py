"""Laws of `async def forward`: one loop per node, a batch in flight per instance, cancelled when unwanted."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from async_meeting import Meeting, loop_threads

import hami

FOR_EVER_MS = 600_000
WAIT_S = 10.0

Batch = list[dict[str, Any]]


@pytest.fixture
def meeting() -> Meeting:
    """Return a Meeting with the backend `Meets`, which waits there and answers with its data."""
    place = Meeting()

    @hami.register("Meets")
    class Meets(hami.Backend):
        async def forward(self, batch: Batch) -> list[Any]:
            await place.wait([item["data"] for item in batch])
            return [item["data"] for item in batch]

    return place


# --- forms ----------------------------------------------------------------------------------------


def test_a_coroutine_function_is_a_backend(open_pipe: Any) -> None:
    @hami.register
    class Square(hami.Backend):
        offset = hami.param(0)

        async def forward(self, batch: Batch) -> None:
            for item in batch:
                await asyncio.sleep(0)
                item["result"] = item["data"] ** 2 + self.offset

    assert open_pipe("Square(1)")({"data": 3})["result"] == 10


def test_plain_async_functions_methods_and_objects_are_backends(open_pipe: Any) -> None:
    async def twice(batch: Batch) -> list[Any]:
        await asyncio.sleep(0)
        return [item["data"] * 2 for item in batch]

    class Shared:
        async def forward(self, batch: Batch) -> list[Any]:
            return await twice(batch)

    hami.register("twice", twice)
    hami.register("method", Shared().forward)
    hami.register("shared", Shared())
    for source in ("twice", "method", "Forward[shared]", "S[twice, Identity]"):
        assert open_pipe(source)({"data": 4})["result"] == 8


def test_async_and_plain_backends_stand_in_one_expression(open_pipe: Any) -> None:
    async def add(batch: Batch) -> list[Any]:
        await asyncio.sleep(0)
        return [item["data"] + 1 for item in batch]

    hami.register("add", add)
    assert open_pipe("S[add, Pow, add]")({"data": 2})["result"] == 10


def test_an_async_generator_is_refused_by_name() -> None:
    class Yields:
        async def forward(self, batch: Batch) -> Any:
            yield batch

    async def yields(batch: Batch) -> Any:
        yield batch

    for target in (Yields, Yields(), yields):
        with pytest.raises(hami.ConfigError, match="async generator"):
            hami.register("Yields", target)


def test_async_init_is_refused_by_name() -> None:
    class Prepares(hami.Backend):
        async def init(self, params: dict[str, Any], options: dict[str, Any]) -> None: ...  # type: ignore[override]

        async def forward(self, batch: Batch) -> None: ...

    with pytest.raises(hami.ConfigError, match="`init` of `Prepares`") as caught:
        hami.register(Prepares)
    assert caught.value.help


def test_an_async_backend_never_runs_on_the_callers_thread(open_pipe: Any) -> None:
    threads: list[threading.Thread] = []

    @hami.register
    class Inline(hami.Backend):
        is_inline = True
        is_reentrant = True

        async def forward(self, batch: Batch) -> list[int]:
            threads.append(threading.current_thread())
            return [0 for _ in batch]

    open_pipe("Inline")({"data": 0})
    assert threads[0] is not threading.current_thread()


# --- one loop per node ----------------------------------------------------------------------------


def test_instances_of_a_node_share_one_loop(open_pipe: Any, meeting: Meeting, eventually: Any) -> None:
    pipeline = open_pipe({"backend": "Meets", "instance_num": 3})
    futures = [pipeline.submit({"data": i}) for i in range(5)]
    assert eventually(lambda: meeting.num_inside == 3)
    assert len(meeting.loops) == 1 and len(meeting.threads) == 1
    meeting.open()
    assert [future.result(WAIT_S)["result"] for future in futures] == list(range(5))


def test_two_nodes_have_two_loops(open_pipe: Any) -> None:
    loops: list[int] = []

    async def note(batch: Batch) -> list[int]:
        loops.append(id(asyncio.get_running_loop()))
        return [0 for _ in batch]

    hami.register("note", note)
    open_pipe({"a": {"backend": "note", "next": "b"}, "b": {"backend": "note"}})({"data": 0})
    assert len(set(loops)) == 2


def test_runs_of_one_node_may_wait_for_each_other(open_pipe: Any) -> None:
    @hami.register
    class Pair(hami.Backend):
        met: asyncio.Event

        async def forward(self, batch: Batch) -> list[str]:
            if batch[0]["data"] == "first":
                Pair.met = asyncio.Event()
                started.set()
                await asyncio.wait_for(Pair.met.wait(), WAIT_S)
            else:
                Pair.met.set()
            return ["met" for _ in batch]

    started = threading.Event()
    pipeline = open_pipe({"backend": "Pair", "instance_num": 2})
    first = pipeline.submit({"data": "first"})
    assert started.wait(WAIT_S)
    assert pipeline({"data": "second"})["result"] == "met"
    assert first.result(WAIT_S)["result"] == "met"


def test_the_loop_ends_with_its_pipeline(open_pipe: Any) -> None:
    hami.register("quick", quick)
    before = loop_threads()
    pipeline = open_pipe({"mine": {"backend": "quick", "instance_num": 2}})
    assert loop_threads() == [*before, "mine loop"]
    pipeline({"data": 1})
    assert pipeline.close() is True
    assert loop_threads() == before


async def quick(batch: Batch) -> list[Any]:
    """Answer with the data."""
    return [item["data"] for item in batch]


def test_a_pipeline_that_cannot_be_built_leaves_no_loop(open_pipe: Any) -> None:
    class Broken(hami.Backend):
        def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
            raise ValueError("broken")

        def forward(self, batch: Batch) -> None: ...

    hami.register("quick", quick)
    hami.register("Broken", Broken)
    before = loop_threads()
    with pytest.raises(ValueError, match="broken"):
        hami.pipe({"a": {"backend": "quick", "next": "b"}, "b": {"backend": "Broken"}})
    assert loop_threads() == before


def test_tasks_that_a_backend_left_behind_end_with_the_loop(open_pipe: Any) -> None:
    ended = threading.Event()

    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    tasks: list[Any] = []

    async def leaves(batch: Batch) -> list[int]:
        tasks.append(asyncio.create_task(for_ever()))
        await asyncio.sleep(0)
        return [0 for _ in batch]

    hami.register("leaves", leaves)
    pipeline = open_pipe("leaves")
    pipeline({"data": 0})
    pipeline.close()
    assert ended.wait(WAIT_S) and tasks[0].cancelled()


# --- results and errors ---------------------------------------------------------------------------


def test_a_bad_item_fails_alone(open_pipe: Any) -> None:
    async def root(batch: Batch) -> list[float]:
        await asyncio.sleep(0)
        if any(item["data"] < 0 for item in batch):
            raise ValueError("negative")
        return [item["data"] ** 0.5 for item in batch]

    hami.register("root", root)
    requests = [{"data": value} for value in (1, 4, -1, 9)]
    with pytest.raises(ValueError, match="negative") as caught:
        open_pipe({"backend": "root", "max": 4, "batching_timeout": FOR_EVER_MS})(requests)
    assert [request.get("result") for request in requests] == [1, 2, None, 3]
    assert caught.value.__notes__ == ["in node `node`, backend `root`, instance 0"]


def test_the_traceback_leads_to_the_coroutine(open_pipe: Any) -> None:
    async def innermost() -> None:
        await asyncio.sleep(0)
        raise LookupError("deep")

    async def fails(batch: Batch) -> None:
        await innermost()

    hami.register("fails", fails)
    with pytest.raises(LookupError) as caught:
        open_pipe("fails")({"data": 0})
    assert caught.traceback[-1].name == "innermost"


@pytest.mark.parametrize(
    "error", [SystemExit(3), KeyboardInterrupt(), asyncio.CancelledError(), StopIteration(1)]
)
def test_no_exception_ends_the_loop(open_pipe: Any, error: BaseException) -> None:
    async def fails(batch: Batch) -> list[Any]:
        if batch[0]["data"]:
            raise error
        return [0 for _ in batch]

    hami.register("fails", fails)
    pipeline = open_pipe("fails")
    with pytest.raises((type(error), RuntimeError)):
        pipeline({"data": True})
    assert pipeline({"data": False})["result"] == 0


def test_a_wrong_number_of_results_is_told(open_pipe: Any) -> None:
    async def few(batch: Batch) -> list[int]:
        return []

    hami.register("few", few)
    with pytest.raises(hami.RequestError, match="got 1 items and returned 0 results"):
        open_pipe("few")({"data": 0})


def test_an_item_fails_by_its_error_key(open_pipe: Any) -> None:
    async def marks(batch: Batch) -> None:
        for item in batch:
            item["error" if item["data"] else "result"] = ValueError("marked") if item["data"] else "well"

    hami.register("marks", marks)
    pipeline = open_pipe({"backend": "marks", "max": 2, "batching_timeout": FOR_EVER_MS})
    requests: Batch = [{"data": 0}, {"data": 1}]
    with pytest.raises(ValueError, match="marked"):
        pipeline(requests)
    assert requests[0]["result"] == "well"
