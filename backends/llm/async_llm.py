"""`hami.AsyncLLM`: the same engine for asyncio. One object serves any tasks of any loops."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any

from hami.errors import Error

from .engine import Engine
from .jobs import Job
from .loading import load_engine, reload_weights
from .outputs import Generation, Update
from .sampling import SamplingParams
from .settings import EngineSettings


class _Consumer:
    """Carries news from the engine's thread to a task. What nobody took yet is added up."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._lock = threading.Lock()
        self._updates: dict[int, Update] = {}
        self._is_gone = False
        self.generation: Generation | None = None
        self.error: BaseException | None = None

    # --- the engine's thread ---

    def is_wanted(self) -> bool:
        return not self._is_gone

    def has_room(self) -> bool:
        return True

    def on_update(self, update: Update, is_last: bool) -> None:
        with self._lock:
            known = self._updates.get(update.index)
            if known is None:
                self._updates[update.index] = update
            else:
                known.absorb(update)
        self._wake()

    def on_end(self, generation: Generation) -> None:
        self.generation = generation
        self._wake()

    def on_error(self, error: BaseException) -> None:
        self.error = error
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._news.set)

    # --- the task ---

    async def wait(self) -> list[Update]:
        """Return what is new, when there is something; nothing once the generation has ended."""
        while True:
            with self._lock:
                updates, self._updates = list(self._updates.values()), {}
            if updates:
                return updates
            if self.error is not None:
                raise self.error
            if self.generation is not None:
                return []
            await self._news.wait()
            self._news.clear()

    def leave(self) -> None:
        """Say that nobody waits any more; the engine aborts what it still computes."""
        self._is_gone = True


class AsyncLLM:
    """A model in memory for asyncio; see LLM for the arguments."""

    def __init__(self, model: str | os.PathLike[str], **settings: Any) -> None:
        self._engine = load_engine(model, EngineSettings.from_keywords("AsyncLLM", settings))
        self._requests: dict[str, Job] = {}

    @classmethod
    def of_engine(cls, engine: Engine) -> AsyncLLM:
        """Wrap an engine that is there already."""
        made = cls.__new__(cls)
        made._engine = engine
        made._requests = {}
        return made

    async def agenerate(
        self, prompt: Any, params: SamplingParams | None = None, **options: Any
    ) -> Generation:
        """Return the whole generation of one prompt. Cancelling the task aborts it.

        `options` are `priority`, `salt`, `user`, and `request_id`, the name by which `abort` knows it.
        """
        await self._compile(params)
        consumer = _Consumer()
        with self._running(prompt, params, consumer, is_streamed=False, **options):
            await consumer.wait()
        assert consumer.generation is not None
        return consumer.generation

    async def stream(
        self, prompt: Any, params: SamplingParams | None = None, **options: Any
    ) -> AsyncIterator[Update]:
        """Yield what is new of each completion as it comes; leaving the loop early aborts the request."""
        await self._compile(params)
        consumer = _Consumer()
        with self._running(prompt, params, consumer, is_streamed=True, **options):
            while updates := await consumer.wait():
                for update in updates:
                    yield update

    def abort(self, request_id: str) -> bool:
        """End a request early, with the reason `abort`. False when there is none of that name."""
        job = self._requests.get(request_id)
        if job is not None:
            self._engine.abort(job)
        return job is not None

    async def _compile(self, params: SamplingParams | None) -> None:
        """Compile a grammar beside the loop, so that `submit` finds it ready, or what is wrong with it."""
        if params is not None and params.has_grammar:
            with contextlib.suppress(Error):
                await asyncio.to_thread(self._engine.vocabulary.grammar, params)

    @contextlib.contextmanager
    def _running(
        self,
        prompt: Any,
        params: SamplingParams | None,
        consumer: _Consumer,
        *,
        is_streamed: bool,
        request_id: str | None = None,
        **options: Any,
    ) -> Any:
        ids = self._engine.vocabulary.prompt_ids(prompt)
        job = Job(ids, params or SamplingParams(), consumer, is_streamed=is_streamed, **options)
        if request_id is not None:
            self._requests[request_id] = job
        try:
            self._engine.submit(job)
            yield
        finally:
            consumer.leave()
            if request_id is not None and self._requests.get(request_id) is job:
                del self._requests[request_id]

    def stats(self) -> dict[str, Any]:
        """Return counts of steps, tokens, preemptions by kind, prefix hits and pages."""
        return self._engine.stats()

    async def reload_weights(self, model: str | os.PathLike[str]) -> None:
        """Do as LLM.reload_weights, without blocking the loop."""
        await asyncio.to_thread(reload_weights, self._engine, model)

    def reset_prefix_cache(self) -> None:
        """Forget the prefixes of earlier prompts."""
        self._engine.reset_prefix_cache()

    def close(self) -> None:
        """End the engine; generations under way fail with Closed."""
        self._engine.close()

    async def __aenter__(self) -> AsyncLLM:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # a half-made object, or an interpreter on its way out
            self._engine.close(0)
