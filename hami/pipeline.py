"""A pipeline as Python calls it: submit and return.

`pipe` plans and builds; the Pipeline it returns is called like a function from any number of threads. All
waiting happens in the compiled core without the GIL.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import math
import weakref
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Any, overload

from . import _core
from .errors import Cancelled, RequestError
from .plan import Plan, plan
from .stream import Stream, iterate

Dict = dict[str, Any]

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


class Pipeline:
    """A running pipeline; made by `hami.pipe`. Every method may be called from any thread."""

    def __init__(self, checked: Plan) -> None:
        self._plan = checked
        self._core = _core.Pipeline(checked.to_core())
        _open_pipelines.add(self)

    @property
    def plan(self) -> Plan:
        """The checked plan that this pipeline runs."""
        return self._plan

    @overload
    def __call__(self, request: Dict) -> Dict: ...
    @overload
    def __call__(self, request: list[Dict]) -> list[Dict]: ...
    def __call__(self, request: Any) -> Any:
        """Run one dict, or a list of dicts as one submission, and wait.

        Each dict gets what the nodes wrote, `result` above all, and is returned. Of a list the first error in
        order is raised after all have ended; the others keep their results. Raises RequestError, QueueFull,
        DeadlineExceeded, Closed, or what a backend raised.
        """
        if isinstance(request, list):
            return self._core.call_many(request)
        return self._core.call(request)

    def submit(self, request: Dict) -> Future[Dict]:
        """Start one dict and return the future of it. Raises QueueFull, RequestError or Closed at once."""
        return self._start(request, _as_it_is)

    def stream(self, request: Dict) -> Stream:
        """Start one dict and return an iterator over its partial results.

        What a generator at the output node yields comes out while it runs; any other pipeline gives its one
        result. The dict is complete when the iteration ends. Raises QueueFull, RequestError or Closed at
        once, and what the request fails with from `next`.
        """
        future = self._start(request, _fit_for_await, is_streamed=True)
        assert future.request is not None
        return Stream(future, future.request)

    async def astream(self, request: Dict) -> AsyncGenerator[Any]:
        """The same for `async for`. Closing the iterator, or cancelling its task, cancels the request."""
        future = self._start(request, _fit_for_await, is_streamed=True)
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
    ) -> RequestFuture:
        future = RequestFuture()

        def on_done(error: BaseException | None) -> None:
            future.settle(request, None if error is None else translate(error))

        future.request = self._core.submit(request, on_done, is_streamed)
        return future

    async def acall(self, request: Dict) -> Dict:
        """Run one dict without blocking the event loop. Cancelling the task cancels the request."""
        return await asyncio.wrap_future(self._start(request, _fit_for_await))

    def stats(self) -> list[dict[str, Any]]:
        """Return the figures of each node since it was built, one dict a node.

        `waiting`, `items`, `errors`, `dropped` (answered before they could start), `instances`, `busy` and
        `hung` are counts; `batch_rows` maps the rows of a run to the number of such runs, `releases` why
        batches ran to how often. `wait_ms` (of items in the queue) and `run_ms` (of batches, those in place
        sampled) hold `count`, `p50`, `p90`, `p99` and `max` in milliseconds, right to about 6 percent.
        """
        return self._core.stats()

    def problems(self) -> list[str]:
        """Return what is wrong now, in words: a hung instance, a dead worker, a closed pipeline.

        An empty list means healthy.
        """
        return self._core.problems()

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
        return self._core.close(seconds)

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
        names = ", ".join(node.name for node in self._plan.nodes)
        state = "closed" if self._core.is_closed else "open"
        return f"<hami.Pipeline {state}: {names}>"


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
