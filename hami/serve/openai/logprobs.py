"""Log-probabilities in OpenAI's two shapes, out of the places that a node gives.

A place of a token that has no text to show (the end of an answer) is left out, so that the tokens of an
answer are its text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

Place = dict[str, Any]

LEAST = -9999.0  # what OpenAI writes for the impossible; JSON has no infinity


def chat_logprobs(places: Iterable[Place]) -> dict[str, Any]:
    """Return the shape of chat completions."""
    content = [
        {
            **_token(place["text"], place["bytes"], place["logprob"]),
            "top_logprobs": [_token(*top) for top in _tops(place)],
        }
        for place in places
        if place["bytes"] is not None
    ]
    return {"content": content, "refusal": None}


class CompletionLogprobs:
    """The shape of completions; `text_offset` counts characters of the choice's text, chunk after chunk."""

    def __init__(self, num_top: int) -> None:
        self._num_top = num_top
        self._offset = 0

    def of(self, places: Iterable[Place]) -> dict[str, Any]:
        """Return the shape of further places."""
        tokens, logprobs, offsets = [], [], []
        tops: list[dict[str, float] | None] = []
        for place in places:
            if place["bytes"] is None:
                continue
            text, logprob = written(place["text"], place["bytes"]), place["logprob"]
            tokens.append(text)
            logprobs.append(None if logprob is None else max(logprob, LEAST))
            offsets.append(self._offset)
            tops.append(None if logprob is None else self._top(place) | {text: max(logprob, LEAST)})
            self._offset += num_characters(place["bytes"])
        return {
            "tokens": tokens,
            "token_logprobs": logprobs,
            "top_logprobs": tops if self._num_top else None,
            "text_offset": offsets,
        }

    @staticmethod
    def _top(place: Place) -> dict[str, float]:
        return {written(text, raw): max(logprob, LEAST) for text, raw, logprob in _tops(place)}


def written(text: str, raw: Sequence[int]) -> str:
    """Return a token as text; one that is a part of a character is written as its bytes."""
    if "\ufffd" in text and bytes(raw) != text.encode():
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
    return text


def num_characters(raw: Iterable[int]) -> int:
    """Return how many characters of UTF-8 begin in these bytes."""
    return sum(byte & 0xC0 != 0x80 for byte in raw)


def _token(text: str, raw: Sequence[int], logprob: float) -> dict[str, Any]:
    return {"token": written(text, raw), "bytes": list(raw), "logprob": max(logprob, LEAST)}


def _tops(place: Place) -> Iterable[tuple[str, Sequence[int], float]]:
    for text, raw, (_, logprob) in zip(place["top_texts"], place["top_bytes"], place["top"], strict=True):
        yield text, raw, logprob
