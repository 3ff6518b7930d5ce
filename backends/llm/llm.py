"""`hami.LLM`: a language model for offline use. Prompts in, generations out, in the order of the prompts."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from hami.errors import RequestError

from .engine import Engine
from .jobs import Job
from .loading import load_engine, prompts_of, reload_weights
from .outputs import Generation, Update
from .sampling import SamplingParams
from .settings import EngineSettings


class _Answer:
    """Waits for one generation."""

    def __init__(self) -> None:
        self.future: Future[Generation] = Future()

    def is_wanted(self) -> bool:
        return not self.future.cancelled()

    def has_room(self) -> bool:
        return True

    def on_update(self, update: Update, is_last: bool) -> None:
        """Nobody listens."""

    def on_end(self, generation: Generation) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_result(generation)

    def on_error(self, error: BaseException) -> None:
        if self.future.set_running_or_notify_cancel():
            self.future.set_exception(error)


class LLM:
    """A model in memory, loaded from a Hugging Face folder or a GGUF file.

    `settings` are those of EngineSettings, such as `dtype="float32"` or `max_model_len=2048`. Any thread may
    call `generate`; calls share the batches. `close` frees the memory, as does leaving a `with` block.
    """

    def __init__(self, model: str | os.PathLike[str], **settings: Any) -> None:
        self._engine = load_engine(model, EngineSettings.from_keywords("LLM", settings))

    @classmethod
    def of_engine(cls, engine: Engine) -> LLM:
        """Wrap an engine that is there already."""
        made = cls.__new__(cls)
        made._engine = engine
        return made

    def generate(
        self,
        prompts: Any,
        params: SamplingParams | Sequence[SamplingParams] | None = None,
        *,
        progress: bool = False,
        priority: int = 0,
        salt: str = "",
    ) -> list[Generation]:
        """Return a generation for each prompt, in their order.

        `prompts` is one prompt or a list of them, each a text, a list of token ids, or a chat (a list of
        dicts with `role` and `content`). `params` are for all, or one for each. `salt` keeps prefixes apart:
        only prompts of the same salt share pages. `progress` shows a bar. Raises RequestError for the first
        prompt that cannot be served, when the others have ended; Ctrl-C aborts all.
        """
        listed = prompts_of(prompts)
        if params is None or isinstance(params, SamplingParams):
            each = [params or SamplingParams()] * len(listed)
        else:
            each = list(params)
        if len(each) != len(listed):
            raise RequestError(
                f"there are {len(listed)} prompts and {len(each)} `params`",
                code="llm-params-count",
                help="give one SamplingParams for all prompts, or one for each",
            )
        ids = [self._engine.vocabulary.prompt_ids(prompt) for prompt in listed]
        answers = [_Answer() for _ in ids]
        jobs = [
            Job(prompt, chosen, answer, priority=priority, salt=salt)
            for prompt, chosen, answer in zip(ids, each, answers, strict=True)
        ]
        with self._bar(len(jobs), progress) as advance:
            try:
                for job, answer in zip(jobs, answers, strict=True):
                    answer.future.add_done_callback(lambda _: advance())
                    self._engine.submit(job)
                return _results(answers)
            except BaseException:
                for answer in answers:
                    answer.future.cancel()
                raise

    def stats(self) -> dict[str, Any]:
        """Return counts of steps, tokens, preemptions by kind, prefix hits and pages."""
        return self._engine.stats()

    def reset_prefix_cache(self) -> None:
        """Forget the prefixes of earlier prompts."""
        self._engine.reset_prefix_cache()

    def reload_weights(self, model: str | os.PathLike[str]) -> None:
        """Go on with the weights of another model of the same sizes, such as a later checkpoint.

        What is being generated keeps its tokens so far and goes on with the new weights; no earlier prefix is
        found any more. Both weights are in memory meanwhile. Raises BuildError, and changes nothing, for a
        model of other sizes or a damaged one.
        """
        reload_weights(self._engine, model)

    def close(self) -> None:
        """End the engine; generations under way fail with Closed."""
        self._engine.close()

    def __enter__(self) -> LLM:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # a half-made object, or an interpreter on its way out
            self._engine.close(0)

    @contextlib.contextmanager
    def _bar(self, total: int, is_shown: bool) -> Iterator[Any]:
        if not is_shown:
            yield lambda: None
            return
        columns = (
            TextColumn("prompts"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns) as bar:
            task = bar.add_task("prompts", total=total)
            yield lambda: bar.advance(task)


def _results(answers: list[_Answer]) -> list[Generation]:
    """Return all results, or raise the first error once all have ended."""
    errors = [error for answer in answers if (error := answer.future.exception()) is not None]
    if errors:
        raise errors[0]
    return [answer.future.result() for answer in answers]
