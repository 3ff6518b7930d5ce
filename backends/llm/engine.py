"""The engine of a language model: it chooses, runs and settles, step after step, on a thread of its own.

`submit` and `abort` may be called from any thread; the scheduler, the executor and the jobs belong to the
engine's thread. A step that fails fails the requests in it; a model that keeps failing ends the engine.
"""

from __future__ import annotations

import atexit
import logging
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from hami.errors import Closed, Error

from .jobs import Job
from .settling import Settler

if TYPE_CHECKING:
    from hami._core import LlmScheduler

    from .executors.base import Executor
    from .vocabulary import Vocabulary

MAX_FAILED_STEPS = 3
"""So many steps that fail in a row end the engine."""

_T = TypeVar("_T")
_running: weakref.WeakSet[Engine] = weakref.WeakSet()
_log = logging.getLogger("hami.llm")


class Engine:
    """Runs one model for any number of callers; it closes the executor when it ends."""

    def __init__(
        self,
        scheduler: LlmScheduler,
        executor: Executor,
        vocabulary: Vocabulary,
        *,
        name: str = "llm",
        seed: int = 0,
    ) -> None:
        self.vocabulary = vocabulary
        self._scheduler = scheduler
        self.executor = executor
        self._settler = Settler(scheduler, vocabulary, seed)
        self._num_failed_steps = 0
        self._step_ms = 0.0
        self._news = threading.Condition()
        self._inbox: list[Callable[[], None]] = []
        self._is_closing = False
        self._broken: BaseException | None = None
        self._thread = threading.Thread(target=self._serve, name=f"{name} engine", daemon=True)
        self._thread.start()
        _running.add(self)

    # --- any thread ---

    def submit(self, job: Job) -> None:
        """Take a job; its listener hears of it on the engine's thread. Raises Closed.

        Its grammar is compiled here; the listener hears of a bad one before this returns.
        """
        try:
            job.grammar = self.vocabulary.grammar(job.params)
        except Error as error:
            job.listener.on_error(error)
            return
        self._post(lambda: self._admit(job))

    def abort(self, job: Job) -> None:
        """End a job early, in whatever state it is; its completions get the reason `abort`."""
        self._post(lambda: self._settler.abort(job))

    def call(self, function: Callable[[], _T]) -> _T:
        """Return what `function` returns, called between two steps."""
        answer: Future[_T] = Future()

        def run() -> None:
            try:
                answer.set_result(function())
            except BaseException as error:
                answer.set_exception(error)

        self._post(run)
        return answer.result()

    def reset_prefix_cache(self) -> None:
        """Forget the prefixes that nobody uses now."""
        self.call(self._scheduler.reset_prefix_cache)

    def use(self, loaded: Any) -> None:
        """Run with what the executor's `load` returned, from the next step on.

        Nobody inside ends: all are computed anew, prompt and answer so far, and go on with the new weights.
        """

        def swap() -> None:
            self._scheduler.recompute_all()
            self.executor.use(loaded)

        self.call(swap)

    def stats(self) -> dict[str, Any]:
        """Return what the scheduler counts, and as `step_ms` how long the last step took."""
        return self.call(self.figures)

    def figures(self) -> dict[str, Any]:
        """Return the same at once, maybe in the middle of a step: nobody waits for the engine's thread."""
        return {**self._scheduler.stats(), "step_ms": self._step_ms}

    def problem(self) -> str:
        """Return in words what keeps the engine from working, or an empty text."""
        if self._broken is not None:
            return str(self._closed())
        return f"the last {self._num_failed_steps} steps failed" if self._num_failed_steps else ""

    def close(self, timeout: float = 10.0) -> None:
        """End the thread; what is inside fails with Closed. Harmless when called again."""
        with self._news:
            self._is_closing = True
            self._news.notify()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def _post(self, command: Callable[[], None]) -> None:
        with self._news:
            if self._is_closing:
                raise self._closed()
            self._inbox.append(command)
            self._news.notify()

    def _closed(self) -> Error:
        if self._broken is not None:
            message = f"the engine has stopped, since its steps fail: {self._broken}"
            return Closed(message, code="llm-broken", help="look at the log, and create a new engine")
        return Closed("the engine is closed", code="closed", help="create a new one")

    # --- the engine's thread ---

    def _serve(self) -> None:
        try:
            while self._broken is None and (commands := self._wait()) is not None:
                for command in commands:
                    self._obey(command)
                self._step_safely()
        finally:
            self._end()

    @staticmethod
    def _obey(command: Callable[[], None]) -> None:
        """Do what a caller wants; what a listener raises must not keep the others from being heard."""
        try:
            command()
        except Exception:
            _log.exception("a listener failed")

    def _wait(self) -> list[Callable[[], None]] | None:
        """Wait until there is something to do and return what callers want; None when it is time to end."""
        with self._news:
            while not (self._inbox or self._is_closing or self._settler.has_work):
                self._news.wait()
            if self._is_closing:
                return None
            commands, self._inbox = self._inbox, []
            return commands

    def _end(self) -> None:
        with self._news:
            self._is_closing = True
            commands, self._inbox = self._inbox, []
        self._settler.fail_all(self._closed())
        for command in commands:  # jobs that came last are refused, calls are answered
            self._obey(command)
        self.executor.close()

    def _admit(self, job: Job) -> None:
        if self._is_closing:
            job.listener.on_error(self._closed())
        else:
            self._settler.admit(job)

    def _step_safely(self) -> None:
        started = time.perf_counter()
        try:
            self._step()
            self._num_failed_steps = 0
        except Exception as error:
            _log.exception("a step failed")
            self._num_failed_steps += 1
            if self._num_failed_steps >= MAX_FAILED_STEPS:
                self._broken = error
        self._step_ms = 1000 * (time.perf_counter() - started)

    def _step(self) -> None:
        self._settler.drop_unwanted()
        plan = self._scheduler.step()
        self._settler.note_plan(plan)
        if plan.num_rows == 0:
            return
        try:
            logits = self.executor.run(plan)
            self._settler.settle(plan, logits)
        except Exception as error:
            self._settler.fail_rows(plan, error)
            raise


@atexit.register
def _close_all() -> None:
    """End the engines that nobody closed: no thread may meet the interpreter's end inside the kernels."""
    for engine in list(_running):
        engine.close()
