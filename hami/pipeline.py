"""A pipeline as Python calls it: submit and return.

`pipe` plans and builds; the Pipeline it returns is called like a function from any number of threads. All
waiting happens in the compiled core without the GIL.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import logging
import math
import os
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _core
from .answers import answers_of
from .engine import NodePorts
from .errors import Cancelled, RequestError
from .event import Event
from .plan import Plan, plan
from .stream import Stream, iterate

if TYPE_CHECKING:
    from .trace import Trace

Dict = dict[str, Any]

# Quiet until the program configures logging (docs/logging.md). Nothing is logged before there is a pipeline.
logging.getLogger("hami").addHandler(logging.NullHandler())
_logger = logging.getLogger("hami.pipeline")

_open_pipelines: weakref.WeakSet[Pipeline] = weakref.WeakSet()


class RequestFuture(Future[Dict]):
    """The future of one submitted dict; cancelling it also takes the request out of the pipeline."""

    request: _core.Request | None = None

    def cancel(self) -> bool:
        """Cancel the request: what has not started never will, what runs is not waited for.

        Returns False when the answer is there already. The core decides, so that a cancelled request never
        leaves a result in its dict.
        """
        return self.cancelled() or (self.request is not None and self.request.cancel())

    def settle(self, request: Dict, error: BaseException | None) -> None:
        """Take the answer of the core."""
        if isinstance(error, Cancelled):
            super().cancel()
            self.set_running_or_notify_cancel()
        elif error is None:
            self.set_result(request)
        else:
            self.set_exception(error)


def _as_it_is(error: BaseException) -> BaseException:
    return error


def _fit_for_await(error: BaseException) -> BaseException:
    """A StopIteration cannot leave a coroutine; it becomes what Python itself makes of it (PEP 479)."""
    if not isinstance(error, StopIteration):
        return error
    replacement = RuntimeError("a backend raised StopIteration")
    replacement.__cause__ = error
    return replacement


def _event_of(request: Any) -> Any:
    return request.get("event") if isinstance(request, dict) else None


def _event_error(message: str, help: str) -> RequestError:
    return RequestError(message, code="request-event", help=help)


def _refuse_event(request: Any) -> None:
    if _event_of(request) is not None:
        raise _event_error(
            "a dict with an event cannot be submitted for a future",
            "call `pipe(d)`, which returns at once, or take the event out",
        )


class Pipeline(_core.Pipeline):
    """A running pipeline; made by `hami.pipe`. Every method may be called from any thread.

    `pipe(request)` runs one dict, or a list of dicts as one submission, and waits. Each dict gets what the
    nodes wrote, `result` above all, and is returned. Of a list the first error in order is raised after all
    have ended; the others keep their results. Raises RequestError, QueueFull, DeadlineExceeded, Closed, or
    what a backend raised. Dicts that carry a `hami.Event` under `event` are started, all or none, and the
    call returns at once.
    """

    def __init__(self, checked: Plan) -> None:
        begin_ns = time.monotonic_ns()
        super().__init__(checked.to_core())
        self._build_ns = (begin_ns, time.monotonic_ns())
        self._plan = checked
        _open_pipelines.add(self)
        _logger.info("pipeline `%s` is built: %s", checked.name, self._node_names())

    @property
    def plan(self) -> Plan:
        """The checked plan that this pipeline runs."""
        return self._plan

    def _call_other(self, request: Any) -> Any:
        """Run a list, or a dict with an event; the core does everything else itself."""
        if isinstance(request, list):
            if any(_event_of(one) is not None for one in request):
                self._start_with_events(request)
                return request
            return self._call_many(request)
        self._start_with_events([request])
        return request

    def _start_with_events(self, requests: list[Dict]) -> None:
        """Start the dicts, each of which must carry an event."""
        counts: dict[Event, int] = {}
        for request in requests:
            event = _event_of(request)
            if event is None:
                raise _event_error(
                    "some dicts of the call carry an event and some do not", "give all one, or none"
                )
            if not isinstance(event, Event):
                wrong = f"`event` must be a `hami.Event`, got a `{type(event).__name__}`"
                raise _event_error(wrong, "write `hami.Event()`, or use another key")
            counts[event] = counts.get(event, 0) + 1
        claimed: list[Event] = []
        try:
            for event, count in counts.items():
                event.claim(count)
                claimed.append(event)
            self._submit_many(list(requests), [request["event"].settle for request in requests])
        except BaseException:
            for event in claimed:
                event.unclaim()
            raise

    def submit(self, request: Dict, *, node: str | None = None) -> Future[Dict]:
        """Start one dict and return the future of it. Raises QueueFull, RequestError or Closed at once.

        `node`: the one node that runs, whichever stand before and behind it; its `result` is the answer.
        """
        _refuse_event(request)
        return self._start(request, _as_it_is, node=node)

    def stream(self, request: Dict, *, node: str | None = None) -> Stream:
        """Start one dict and return an iterator over its partial results.

        What a generator at the output node yields comes out while it runs; any other pipeline gives its one
        result. The dict is complete when the iteration ends. Raises QueueFull, RequestError or Closed at
        once, and what the request fails with from `next`. `node`: as in `submit`.
        """
        future = self._start(request, _fit_for_await, is_streamed=True, node=node)
        assert future.request is not None
        return Stream(future, future.request)

    async def astream(self, request: Dict, *, node: str | None = None) -> AsyncGenerator[Any]:
        """The same for `async for`. Closing the iterator, or cancelling its task, cancels the request."""
        future = self._start(request, _fit_for_await, is_streamed=True, node=node)
        assert future.request is not None
        async with contextlib.aclosing(iterate(future, future.request)) as results:
            async for result in results:
                yield result

    def _start(
        self,
        request: Dict,
        translate: Callable[[BaseException], BaseException],
        *,
        is_streamed: bool = False,
        node: str | None = None,
    ) -> RequestFuture:
        future = RequestFuture()

        def on_done(error: BaseException | None) -> None:
            future.settle(request, None if error is None else translate(error))

        future.request = self._submit(request, on_done, is_streamed, node)
        return future

    async def acall(self, request: Dict, *, node: str | None = None) -> Dict:
        """Run one dict without blocking the event loop. Cancelling the task cancels the request.

        `node`: as in `submit`.
        """
        loop = asyncio.get_running_loop()
        answers = answers_of(loop)
        answered: asyncio.Future[Dict] = loop.create_future()

        def on_done(error: BaseException | None) -> None:
            if answered.done() or loop.is_closed():
                return  # nobody waits any more
            if isinstance(error, Cancelled):
                answered.cancel()
            elif error is None:
                answered.set_result(request)
            else:
                answered.set_exception(_fit_for_await(error))

        running = self.start(request, on_done, answers, node=node)
        try:
            return await answered
        except asyncio.CancelledError:
            running.cancel()
            answers.deliver()  # so that its dict is free again
            raise

    def start(
        self,
        request: Dict,
        on_done: Callable[[BaseException | None], None],
        answers: _core.AnswerQueue,
        *,
        node: str | None = None,
    ) -> _core.Request:
        """Start one dict, and call `on_done(error)` through a queue of answers once it has ended.

        Raises QueueFull, RequestError or Closed at once. `node`: as in `submit`.
        """
        _refuse_event(request)
        return self._submit(request, on_done, False, node, answers)

    def ports(self) -> dict[str, NodePorts]:
        """Return what each node takes and gives, by its name, in the order of the graph."""
        return {row["node"]: NodePorts.of(row) for row in self._ports()}

    def stats(self, *, buckets: bool = False) -> list[dict[str, Any]]:
        """Return the figures of each node since it was built, one dict a node.

        `waiting`, `items`, `errors`, `dropped` (answered before they could start), `instances`, `busy` and
        `hung` are counts; `batch_rows` maps the rows of a run to the number of such runs, `releases` why
        batches ran to how often. `wait_ms` (of items in the queue) and `run_ms` (of batches, those in place
        sampled) hold `count`, `p50`, `p90`, `p99` and `max` in milliseconds, right to about 6 percent.
        `profiles` has a row for each part inside `Profile[...]`, and `backend` the numbers that the backend's
        own `stats()` returns, those of all instances added up.

        With `buckets` the two times also hold `sum` in milliseconds, right to about 3 percent, and `buckets`,
        which maps an upper bound in milliseconds to how many values lie below it and above the one before.
        """
        return self._stats(buckets)

    def trace(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        max_records: int = 500_000,
        gpu: bool = True,
    ) -> Trace:
        """Return a timeline of every station of every request: `with pipe.trace("trace.json"):` records one.

        `path`: where it is saved at the end of the block, compressed if it ends in `.gz`. `max_records`
        bounds the memory, 56 bytes each; what comes then is dropped, and the file says how much. `gpu`: with
        what ran on the GPUs, where the program has loaded torch and sees one. docs/tracing.md shows what is
        in the file. Raises RequestError for a bad value.
        """
        from .trace import Interval, Trace  # few programs need it

        made = [Interval("build", *self._build_ns)]
        if (times := self._plan.times) is not None:
            made.insert(0, Interval("plan", times.parsed, times.planned))
            made.insert(0, Interval("parse", times.begin, times.parsed))
        return Trace(self, path, name=self._plan.name, made=tuple(made), max_records=max_records, gpu=gpu)

    def problems(self) -> list[str]:
        """Return what is wrong now, in words: a hung instance, a dead worker, a closed pipeline.

        An empty list means healthy.
        """
        return self._problems()

    def close(self, timeout: float = 10.0) -> bool:
        """Stop admission, wait up to `timeout` seconds for what is inside, and fail the rest with Closed.

        Returns whether everything ended by itself. An instance inside user code then is left to end alone.
        Raises RequestError for a timeout that is no number.
        """
        try:
            seconds = float(timeout)
        except (TypeError, ValueError):
            seconds = math.nan
        if math.isnan(seconds):
            raise RequestError(
                f"`timeout` must be a number of seconds, got `{timeout!r}`",
                code="request-timeout",
                help="use 0 to wait for nothing",
            ) from None
        was_closed = self._is_closed
        has_ended = self._close(seconds)
        if not was_closed:
            how = "everything has ended" if has_ended else "not everything has ended by itself"
            _logger.info("pipeline `%s` is closed: %s", self._plan.name, how)
        return has_ended

    def __enter__(self) -> Pipeline:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if "_plan" not in vars(self):  # its making raised
            return "<hami.Pipeline: not built>"
        state = "closed" if self._is_closed else "open"
        return f"<hami.Pipeline {state}: {self._node_names()}>"

    def _node_names(self) -> str:
        return ", ".join(node.name for node in self._plan.nodes)


def pipe(source: str | Mapping[str, Any] | Any) -> Pipeline:
    """Plan and build a pipeline.

    `source`: the path of a TOML file (text that ends in `.toml`, or an os.PathLike), a bracket expression, or
    a dict of nodes. Raises ConfigError for what is wrong in it, BuildError for what cannot be made (a missing
    model).
    """
    return Pipeline(plan(source))


def _close_all() -> None:
    """End the threads before the interpreter goes away; nothing is waited for."""
    for pipeline in list(_open_pipelines):
        pipeline.close(timeout=0)


atexit.register(_close_all)
