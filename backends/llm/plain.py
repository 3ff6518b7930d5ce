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

        The first token has a place too, whose `logprob` is None.
        """
        vocabulary, ids = self._vocabulary, job.prompt
        raw = b"".join(map(vocabulary.bytes_of, ids))
        places = Plain(vocabulary, skips_special=False).places(job.prompt_logprobs)
        if places is not None:
            nothing = {"logprob": None, "rank": None, "top": [], "top_texts": [], "top_bytes": []}
            places[0] = {"token": ids[0], **nothing, **self._names(ids[0])}
        text = data if isinstance(data, str) else raw.decode("utf-8", errors="replace")
        return {"text": text, "token_ids": ids, "logprobs": places}

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
