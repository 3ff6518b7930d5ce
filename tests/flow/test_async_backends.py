"""Laws of `async def forward`: one loop per node, a batch in flight per instance, cancelled when unwanted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

import hami

FOR_EVER_MS = 600_000
WAIT_S = 10.0

Batch = list[dict[str, Any]]


class Meeting:
    """A place where coroutines wait until the test lets them go; opened from any thread."""

    def __init__(self) -> None:
        self.num_inside = 0
        self.cancelled: list[Any] = []
        self.ended: list[Any] = []
        self.loops: set[int] = set()
        self.threads: set[threading.Thread] = set()
        self._gate: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def wait(self, what: Any) -> None:
        """Wait for `open`."""
        self._loop = asyncio.get_running_loop()
        self.loops.add(id(self._loop))
        self.threads.add(threading.current_thread())
        self._gate = self._gate or asyncio.Event()
        self.num_inside += 1
        try:
            await asyncio.wait_for(self._gate.wait(), WAIT_S)
        except asyncio.CancelledError:
            self.cancelled.append(what)
            raise
        finally:
            self.num_inside -= 1
            self.ended.append(what)

    def open(self) -> None:
        """Let everybody inside go on."""
        assert self._loop is not None and self._gate is not None
        self._loop.call_soon_threadsafe(self._gate.set)


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


def loop_threads() -> list[str]:
    """Return the names of the threads of event loops that live now."""
    return [thread.name for thread in threading.enumerate() if thread.name.endswith(" loop")]


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


# --- cancellation ---------------------------------------------------------------------------------


def test_a_run_that_nobody_wants_is_cancelled(open_pipe: Any, meeting: Meeting, eventually: Any) -> None:
    pipeline = open_pipe("Meets")
    future = pipeline.submit({"data": 1})
    assert eventually(lambda: meeting.num_inside == 1)
    assert future.cancel()
    assert eventually(lambda: meeting.cancelled == [[1]])


def test_a_deadline_cancels_the_run(open_pipe: Any, meeting: Meeting, eventually: Any) -> None:
    pipeline = open_pipe("Meets")
    with pytest.raises(hami.DeadlineExceeded):
        pipeline({"data": 1, "deadline_ms": 50})
    assert eventually(lambda: meeting.cancelled == [[1]])


def test_a_run_goes_on_while_one_of_its_items_is_wanted(
    open_pipe: Any, meeting: Meeting, eventually: Any
) -> None:
    pipeline = open_pipe({"backend": "Meets", "max": 2, "batching_timeout": FOR_EVER_MS})
    gone, stays = (pipeline.submit({"data": i}) for i in range(2))
    assert eventually(lambda: meeting.num_inside == 1)
    gone.cancel()
    meeting.open()
    assert stays.result(WAIT_S)["result"] == 1
    assert meeting.cancelled == [] and meeting.ended == [[0, 1]]


def test_a_cancelled_instance_serves_the_next_request(
    open_pipe: Any, meeting: Meeting, eventually: Any
) -> None:
    pipeline = open_pipe("Meets")
    first = pipeline.submit({"data": 1})
    assert eventually(lambda: meeting.num_inside == 1)
    first.cancel()
    second = pipeline.submit({"data": 2})
    assert eventually(lambda: meeting.num_inside == 1 and meeting.cancelled == [[1]])
    meeting.open()
    assert second.result(WAIT_S)["result"] == 2


def test_a_failed_sibling_of_for_each_cancels_the_run(
    open_pipe: Any, meeting: Meeting, eventually: Any
) -> None:
    class Fails(hami.Backend):
        async def forward(self, batch: Batch) -> list[Any]:
            if batch[0]["data"] == "bad":
                await eventually_inside()
                raise ValueError("bad")
            await meeting.wait("good")
            return [0 for _ in batch]

    async def eventually_inside() -> None:
        while meeting.num_inside == 0:
            await asyncio.sleep(0)

    hami.register("Fails", Fails)
    pipeline = open_pipe(
        {"each": {"backend": "ForEach(target=work)"}, "work": {"backend": "Fails", "instance_num": 2}}
    )
    with pytest.raises(ValueError, match="bad"):
        pipeline({"data": ["bad", "good"]})
    assert eventually(lambda: meeting.cancelled == ["good"])


def test_close_cancels_what_runs(open_pipe: Any, meeting: Meeting, eventually: Any) -> None:
    before = loop_threads()
    pipeline = open_pipe("Meets")
    future = pipeline.submit({"data": 1})
    assert eventually(lambda: meeting.num_inside == 1)
    pipeline.close(timeout=0)
    assert isinstance(future.exception(WAIT_S), hami.Closed)
    assert eventually(lambda: meeting.cancelled == [[1]] and loop_threads() == before)


def test_many_cancels_and_answers_race_without_harm(open_pipe: Any, in_threads: Callable[..., Any]) -> None:
    async def pauses(batch: Batch) -> list[Any]:
        await asyncio.gather(*(asyncio.sleep(0) for _ in batch))
        return [item["data"] for item in batch]

    hami.register("pauses", pauses)
    pipeline = open_pipe({"backend": "pauses", "instance_num": 4, "max": 2})

    def call(thread: int) -> None:
        for i in range(50):
            future = pipeline.submit({"data": (thread, i)})
            if i % 3 and future.cancel():
                assert future.cancelled()
            else:
                assert future.result(WAIT_S)["result"] == (thread, i)

    in_threads(6, call)
    assert pipeline({"data": "alive"})["result"] == "alive"


# --- real asyncio code ----------------------------------------------------------------------------


def test_a_backend_talks_http_with_many_requests_in_flight(open_pipe: Any) -> None:
    @hami.register
    class Serves(hami.Backend):
        """Ask a local server, which answers only once two requests are there."""

        async def forward(self, batch: Batch) -> list[str]:
            return list(await asyncio.gather(*(self.get(item["data"]) for item in batch)))

        async def get(self, path: str) -> str:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(f"GET /{path} HTTP/1.0\r\n\r\n".encode())
            await writer.drain()
            answer = await asyncio.wait_for(reader.read(), WAIT_S)
            writer.close()
            await writer.wait_closed()
            return answer.decode().split("\r\n\r\n")[1]

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal num_open
        path = (await reader.readline()).split()[1].decode()
        num_open += 1
        if num_open == 2:
            both.set()
        await both.wait()
        writer.write(f"HTTP/1.0 200 OK\r\n\r\nyou asked for {path}".encode())
        await writer.drain()
        writer.close()

    async def serve() -> None:
        nonlocal port, both
        both = asyncio.Event()
        stop = asyncio.Event()
        server = await asyncio.start_server(handle, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        stops.append((asyncio.get_running_loop(), stop))
        is_up.set()
        async with server:
            await stop.wait()

    num_open, port, both = 0, 0, asyncio.Event()
    is_up, stops = threading.Event(), []
    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert is_up.wait(WAIT_S)
    try:
        pipeline = open_pipe({"backend": "Serves", "instance_num": 2})
        futures = [pipeline.submit({"data": name}) for name in ("a", "b", "c")]
        answers = [future.result(WAIT_S)["result"] for future in futures]
    finally:
        loop, stop = stops[0]
        loop.call_soon_threadsafe(stop.set)
        thread.join(WAIT_S)
    assert answers == ["you asked for /a", "you asked for /b", "you asked for /c"]


def test_an_async_backend_awaits_another_pipeline(open_pipe: Any) -> None:
    inner = open_pipe({"backend": "Identities", "max": 8})

    async def outer(batch: Batch) -> list[Any]:
        answers = await asyncio.gather(*(inner.acall({"data": item["data"]}) for item in batch))
        return [answer["result"] for answer in answers]

    hami.register("outer", outer)
    pipeline = open_pipe({"backend": "outer", "max": 4})
    assert [answer["result"] for answer in pipeline([{"data": i} for i in range(10)])] == list(range(10))


def test_async_close_runs_on_the_loop_of_the_node(open_pipe: Any) -> None:
    seen: list[Any] = []

    @hami.register
    class Session(hami.Backend):
        async def forward(self, batch: Batch) -> list[int]:
            seen.append(asyncio.get_running_loop())
            return [0 for _ in batch]

        async def close(self) -> None:
            await asyncio.sleep(0)
            seen.append(asyncio.get_running_loop())

    pipeline = open_pipe("Session")
    pipeline({"data": 0})
    pipeline.close()
    assert len(seen) == 2 and seen[0] is seen[1]
