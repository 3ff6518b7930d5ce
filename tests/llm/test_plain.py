"""Laws of answers as plain data: tokens have names, and an echoed prompt has a place for each of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="needs torch, which is not installed")

from llm_engines import EOS, ByteTokenizer  # noqa: E402

from hami.backends.llm.jobs import Job  # noqa: E402
from hami.backends.llm.logprobs import TokenLogprobs  # noqa: E402
from hami.backends.llm.outputs import Update  # noqa: E402
from hami.backends.llm.plain import Plain  # noqa: E402
from hami.backends.llm.sampling import SamplingParams  # noqa: E402
from hami.backends.llm.vocabulary import Vocabulary  # noqa: E402

WORDS = Vocabulary(256, ByteTokenizer())
PLAIN = Plain(WORDS, skips_special=True)


def place(token: int, *top: int) -> TokenLogprobs:
    return TokenLogprobs(token, -1.0, 1, [(each, -2.0) for each in top])


def echoed(ids: list[int], data: Any, *, has_logprobs: bool = True) -> dict[str, Any]:
    """Return how a prompt is echoed."""
    job = Job(ids, SamplingParams(), listener=None)
    job.prompt_logprobs = [None, *(place(token) for token in ids[1:])] if has_logprobs else None
    return PLAIN.prompt(job, data)


def test_a_place_names_its_token_and_the_likeliest_ones() -> None:
    (found,) = PLAIN.places([place(97, 98, 0xC3)]) or ()
    assert found == {
        "token": 97,
        "logprob": -1.0,
        "rank": 1,
        "top": [(98, -2.0), (0xC3, -2.0)],
        "text": "a",
        "bytes": [97],
        "top_texts": ["b", "\ufffd"],
        "top_bytes": [[98], [0xC3]],
    }


def test_a_special_token_has_no_bytes_unless_it_is_shown() -> None:
    assert [each["bytes"] for each in PLAIN.places([place(EOS)]) or () if each] == [None]
    shown = Plain(WORDS, skips_special=False).places([place(EOS)]) or ()
    assert [each["bytes"] for each in shown if each] == [[]]


def test_without_a_tokenizer_tokens_have_no_names() -> None:
    (found,) = Plain(Vocabulary(256), skips_special=True).places([place(97)]) or ()
    assert found is not None
    assert (found["text"], found["bytes"]) == ("", [])


def test_what_was_not_asked_for_is_none() -> None:
    assert PLAIN.places(None) is None
    assert PLAIN.places([None]) == [None]
    assert echoed([97], "a", has_logprobs=False) == {"text": "a", "token_ids": [97], "logprobs": None}


def test_an_update_is_plain() -> None:
    update = PLAIN.update(Update(1, "a", [97], [place(97)], "stop", "x"))
    assert (update["index"], update["text"], update["finish_reason"], update["stop_reason"]) == (
        1,
        "a",
        "stop",
        "x",
    )
    json.dumps(update)


@pytest.mark.parametrize("data", ["hey", [104, 101, 121]])
def test_an_echoed_prompt_has_a_place_for_each_token(data: Any) -> None:
    prompt = echoed(list(b"hey"), data)
    assert (prompt["text"], prompt["token_ids"]) == ("hey", list(b"hey"))
    assert [each["text"] for each in prompt["logprobs"]] == ["h", "e", "y"]
    assert [each["logprob"] for each in prompt["logprobs"]] == [None, -1.0, -1.0]


class Beginning(ByteTokenizer):
    """A tokenizer with a token that begins every text."""

    special_ids = frozenset({EOS, 1})

    def token_bytes(self) -> list[bytes]:
        return [b"", b"<s>", *super().token_bytes()[2:]]


@pytest.mark.parametrize(
    ("data", "raw"), [("hey", []), ("<s>hey", list(b"<s>")), ([1, *b"hey"], list(b"<s>"))]
)
def test_the_token_that_begins_a_text_has_bytes_only_where_the_text_has_it(data: Any, raw: list[int]) -> None:
    plain = Plain(Vocabulary(256, Beginning()), skips_special=True)
    job = Job([1, *b"hey"], SamplingParams(), listener=None)
    job.prompt_logprobs = [None, *(place(token) for token in b"hey")]
    first, *others = plain.prompt(job, data)["logprobs"]
    assert (first["text"], first["bytes"]) == ("<s>", raw)
    assert [each["text"] for each in others] == ["h", "e", "y"]
