"""Answers as plain data, which JSON can say: what a node writes into a request, and what its stream gives.

Log-probabilities get the texts and bytes of their tokens here, since nobody behind the node has the
vocabulary. Any thread may use it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .jobs import Job
    from .logprobs import TokenLogprobs
    from .outputs import Update
    from .vocabulary import Vocabulary


class Plain:
    """Tells of the tokens of one request; `skips_special` as its sampling parameters say."""

    def __init__(self, vocabulary: Vocabulary, skips_special: bool) -> None:
        self._vocabulary = vocabulary
        self._silent = vocabulary.special_ids if skips_special else frozenset()

    def update(self, update: Update) -> dict[str, Any]:
        """Return what is new of one completion."""
        return {
            "index": update.index,
            "text": update.text,
            "token_ids": update.token_ids,
            "logprobs": self.places(update.logprobs),
            "finish_reason": update.finish_reason,
            "stop_reason": update.stop_reason,
        }

    def places(self, logprobs: Iterable[TokenLogprobs | None] | None) -> list[dict[str, Any] | None] | None:
        """Return log-probabilities with texts and bytes; `bytes` is None where a token shows no text."""
        if logprobs is None:
            return None
        return [None if place is None else self._place(place) for place in logprobs]

    def prompt(self, job: Job, data: Any) -> dict[str, Any]:
        """Return a prompt as it is echoed: text, ids, and log-probabilities if they were asked for.

        Every token has a place. That of the first has a `logprob` of None, and no bytes if the tokenizer has
        put it before the text.
        """
        ids = job.prompt
        text = data if isinstance(data, str) else self._text(ids)
        if job.prompt_logprobs is None:
            return {"text": text, "token_ids": ids, "logprobs": None}
        shown = Plain(self._vocabulary, skips_special=False)
        places = shown.places(job.prompt_logprobs[1:])
        first = {"token": ids[0], "logprob": None, "rank": None, "top": [], "top_texts": [], "top_bytes": []}
        first |= shown._names(ids[0])
        if ids[0] in self._vocabulary.special_ids and not text.startswith(first["text"]):
            first["bytes"] = []
        return {"text": text, "token_ids": ids, "logprobs": [first, *(places or ())]}

    def _text(self, ids: Iterable[int]) -> str:
        return b"".join(map(self._vocabulary.bytes_of, ids)).decode("utf-8", errors="replace")

    def _place(self, place: TokenLogprobs) -> dict[str, Any]:
        tops = [token for token, _ in place.top]
        return {
            **place._asdict(),
            **self._names(place.token),
            "top_texts": [self._vocabulary.text_of(token) for token in tops],
            "top_bytes": [list(self._vocabulary.bytes_of(token)) for token in tops],
        }

    def _names(self, token: int) -> dict[str, Any]:
        is_silent = token in self._silent
        return {
            "text": self._vocabulary.text_of(token),
            "bytes": None if is_silent else list(self._vocabulary.bytes_of(token)),
        }
