"""Answers in OpenAI's shapes: of a chat and of a completion, whole and chunk by chunk.

A shape belongs to one call. It is fed parts, `(number of the prompt, part)`: what a node's `full` stream
gives, or what `parts_of` makes of a whole answer, so that both ways write the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from hami.errors import quoted

from .errors import ApiError
from .logprobs import CompletionLogprobs, chat_logprobs

Part = dict[str, Any]

_NEEDED = ("result", "finish_reason", "logprobs", "usage")


class Shape(Protocol):
    """What a call wants its answer to look like."""

    prefix: str
    whole: str
    piece: str

    def choice(self, number: int, part: Part) -> dict[str, Any]:
        """Return one whole choice."""

    def deltas(self, number: int, part: Part) -> Iterator[dict[str, Any]]:
        """Yield what chunks have under `choices`, for what is new of one choice."""


class ChatShape:
    """One prompt, whose answers are messages of the assistant."""

    prefix = "chatcmpl-"
    whole = "chat.completion"
    piece = "chat.completion.chunk"

    def __init__(self) -> None:
        self._begun: set[int] = set()

    def choice(self, number: int, part: Part) -> dict[str, Any]:
        """Return one message."""
        places = part["logprobs"]
        return {
            "index": part["index"],
            "message": {"role": "assistant", "content": part["text"], "refusal": None},
            "logprobs": None if places is None else chat_logprobs(places),
            "finish_reason": part["finish_reason"],
        }

    def deltas(self, number: int, part: Part) -> Iterator[dict[str, Any]]:
        """Yield the role before everything else, and why it ended after everything else."""
        index, places = part["index"], part["logprobs"]
        if index not in self._begun:
            self._begun.add(index)
            yield _delta(index, {"role": "assistant", "content": "", "refusal": None})
        if part["text"] or places:
            logprobs = None if places is None else chat_logprobs(places)
            yield _delta(index, {"content": part["text"]}, logprobs)
        if part["finish_reason"]:
            yield _delta(index, {}, None, part["finish_reason"])


class CompletionShape:
    """Any prompts, with `n` choices each, numbered through; `num_top` of logprobs, None for none.

    `echo` puts the prompt before each choice; with `only_scores` nothing comes behind it.
    """

    prefix = "cmpl-"
    whole = piece = "text_completion"

    def __init__(self, n: int, *, num_top: int | None, echo: bool, only_scores: bool) -> None:
        self._n = n
        self._num_top = num_top
        self._echo = echo
        self._only_scores = only_scores
        self._prompts: dict[int, Part] = {}
        self._logprobs: dict[int, CompletionLogprobs] = {}
        self._begun: set[int] = set()

    def choice(self, number: int, part: Part) -> dict[str, Any]:
        """Return one text; of a stream, what is new of it."""
        index = number * self._n + part["index"]
        text, places = part["text"], part["logprobs"] or []
        if self._only_scores:
            text, places = "", []
        if self._echo and index not in self._begun:
            prompt = self._prompt(number, part)
            text, places = prompt["text"] + text, (prompt["logprobs"] or []) + places
        self._begun.add(index)
        reason = part["finish_reason"] or None
        return {
            "index": index,
            "text": text,
            "logprobs": self._described(index, places),
            "finish_reason": "length" if self._only_scores and reason else reason,
        }

    def deltas(self, number: int, part: Part) -> Iterator[dict[str, Any]]:
        """Yield what is new of one text."""
        yield self.choice(number, part)

    def _prompt(self, number: int, part: Part) -> Part:
        """Return the prompt that is echoed; it comes with the first part."""
        if "prompt" in part:
            self._prompts[number] = part["prompt"]
        return self._prompts[number]

    def _described(self, index: int, places: list[Part]) -> dict[str, Any] | None:
        if self._num_top is None:
            return None
        return self._logprobs.setdefault(index, CompletionLogprobs(self._num_top)).of(places)


def parts_of(answer: dict[str, Any]) -> list[Part]:
    """Return what each completion of a whole answer consists of, as one part. Raises ApiError.

    Nodes behind the model may have kept too little of what it wrote.
    """
    missing = [key for key in _NEEDED if key not in answer]
    if missing:
        message = f"the pipeline's answer has no {quoted(missing)}: let the nodes behind the model hand it on"
        raise ApiError(message, status=500, kind="server_error", code="incomplete_answer")
    columns = [answer[key] for key in ("result", "finish_reason", "logprobs")]
    if isinstance(columns[0], str):
        columns = [[column] for column in columns]
    parts = [
        {"index": index, "text": text, "finish_reason": reason, "logprobs": places}
        for index, (text, reason, places) in enumerate(zip(*columns, strict=True))
    ]
    if "prompt" in answer:
        parts[0]["prompt"] = answer["prompt"]
    return parts


def usage_of(answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the tokens of all prompts and all choices."""
    total = {
        key: sum(answer["usage"][key] for answer in answers)
        for key in ("prompt_tokens", "completion_tokens", "cached_tokens")
    }
    return {
        "prompt_tokens": total["prompt_tokens"],
        "completion_tokens": total["completion_tokens"],
        "total_tokens": total["prompt_tokens"] + total["completion_tokens"],
        "prompt_tokens_details": {"cached_tokens": total["cached_tokens"]},
    }


def _delta(
    index: int, delta: dict[str, Any], logprobs: Any = None, finish_reason: str | None = None
) -> dict[str, Any]:
    return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": finish_reason}
