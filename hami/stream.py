"""The partial results of one request, as an iterator for `for` and for `async for`.

`Pipeline.stream` and `Pipeline.astream` make these. The core holds at most 64 partial results; a backend that
is further ahead waits. Whoever stops iterating cancels the request. An iterator belongs to one consumer; it
may be created and used on any thread.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Iterator
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import _core


class Stream(Iterator[Any]):
    """Iterates over the partial results of a request; the dict has its `result` when the iteration ends.

    A pipeline whose output node is no generator gives its one result. `next` raises what the request failed
    with. `close`, leaving a `with` block, and dropping the iterator cancel a request that has not ended;
    there is no further result then.
    """

    def __init__(self, future: Future[dict[str, Any]], request: _core.Request) -> None:
        self._future = future
        self._request = request
        self._num_taken = 0
        self._is_closed = False

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Any:
        taken = None if self._is_closed else self._request.take()
        if taken:
            self._num_taken += 1
            return taken[0]
        return self._end()

    def _end(self) -> Any:
        """Return the result where it is the only one; else raise StopIteration, or the request's error."""
        if self._is_closed:
            raise StopIteration
        result = self._future.result()["result"]
        self._num_taken += 1
        if self._num_taken == 1:
            return result
        raise StopIteration

    def close(self) -> None:
        """Cancel the request if it has not ended. Whoever waits in `next` sees the end."""
        self._is_closed = True
        self._request.cancel()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # a half-made object, or an interpreter on its way out
            self.close()


async def iterate(future: Future[dict[str, Any]], request: _core.Request) -> AsyncGenerator[Any]:
    """Yield the partial results without blocking the event loop; see Stream."""
    loop = asyncio.get_running_loop()
    # It cancels also when it is dropped: once its loop is closed nobody runs the `finally` of a generator.
    owner = Stream(future, request)
    num_taken = 0
    try:
        while (taken := request.try_take()) is not None:
            if taken:
                num_taken += 1
                yield taken[0]
            else:
                news: asyncio.Future[None] = loop.create_future()
                request.notify(_setter(loop, news))
                await news
        answered = await asyncio.wrap_future(future)
        if num_taken == 0:
            yield answered["result"]
    finally:
        owner.close()


def _setter(loop: asyncio.AbstractEventLoop, news: asyncio.Future[None]) -> Callable[[], None]:
    def set_news() -> None:
        if not news.done():
            news.set_result(None)

    def notify() -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(set_news)

    return notify
