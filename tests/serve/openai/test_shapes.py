"""Laws of shapes: what a node gives becomes OpenAI's words, whole or in pieces."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from openai_service import WAIT_S

from hami.serve.openai.calls import merged, to_json
from hami.serve.openai.connection import ClientGone, while_connected
from hami.serve.openai.errors import ApiError
from hami.serve.openai.logprobs import LEAST, CompletionLogprobs, chat_logprobs, num_characters, written
from hami.serve.openai.shapes import ChatShape, CompletionShape, parts_of, usage_of


def place(text: str, logprob: float | None = -1.0, top: Any = (), raw: bytes | None = None) -> dict[str, Any]:
    """Return a place of a node's log-probabilities; `top` has pairs of text and log-probability."""
    return {
        "token": 1,
        "text": text,
        "bytes": list(text.encode() if raw is None else raw),
        "logprob": logprob,
        "rank": 1,
        "top": [(2, score) for _, score in top],
        "top_texts": [name for name, _ in top],
        "top_bytes": [list(name.encode()) for name, _ in top],
    }


END = {**place("<|end|>"), "bytes": None}


def part(index: int = 0, text: str = "", reason: str = "", **keys: Any) -> dict[str, Any]:
    return {"index": index, "text": text, "finish_reason": reason, "logprobs": None, **keys}


# --- logprobs ---


def test_offsets_go_on_from_chunk_to_chunk_and_count_characters() -> None:
    shape = CompletionLogprobs(0)
    first = shape.of([place("é"), place("\ufffd", raw=b"\xf0\x9f")])
    second = shape.of([place("\ufffd", raw=b"\xa6\x9c"), place("b")])
    assert first["text_offset"] + second["text_offset"] == [0, 1, 2, 2]
    assert first["tokens"] + second["tokens"] == ["é", "bytes:\\xf0\\x9f", "bytes:\\xa6\\x9c", "b"]


def test_a_replacement_character_of_the_model_s_own_is_a_text() -> None:
    assert written("\ufffd", list("\ufffd".encode())) == "\ufffd"


def test_characters_are_counted_where_they_begin() -> None:
    text = "aé€🦜"
    assert [num_characters(each.encode()) for each in (text, *text)] == [4, 1, 1, 1, 1]


def test_the_impossible_has_a_number() -> None:
    shape = CompletionLogprobs(1).of([place("a", -math.inf, [("b", -math.inf)])])
    assert (shape["token_logprobs"], shape["top_logprobs"]) == ([LEAST], [{"b": LEAST, "a": LEAST}])
    chat = chat_logprobs([place("a", -math.inf)])
    assert chat["content"][0]["logprob"] == LEAST
    json.loads(to_json([shape, chat]))


def test_tokens_without_a_text_are_left_out() -> None:
    assert chat_logprobs([place("a"), END])["content"][-1]["token"] == "a"
    assert CompletionLogprobs(0).of([END])["tokens"] == []


def test_top_tokens_have_names_and_bytes() -> None:
    (token,) = chat_logprobs([place("a", -0.5, [("a", -0.5), ("ü", -2.0)])])["content"]
    assert token["top_logprobs"] == [
        {"token": "a", "bytes": [97], "logprob": -0.5},
        {"token": "ü", "bytes": [195, 188], "logprob": -2.0},
    ]


# --- chats ---


def test_a_piece_without_text_is_not_sent() -> None:
    shape = ChatShape()
    assert [delta["delta"] for delta in shape.deltas(0, part())] == [
        {"role": "assistant", "content": "", "refusal": None}
    ]
    assert list(shape.deltas(0, part())) == []
    assert [delta["delta"] for delta in shape.deltas(0, part(text="a"))] == [{"content": "a"}]


def test_a_piece_with_logprobs_is_sent_though_its_text_is_held_back() -> None:
    shape = ChatShape()
    _, delta = shape.deltas(0, part(logprobs=[place("\ufffd", raw=b"\xf0")]))
    assert delta["delta"] == {"content": ""}
    assert delta["logprobs"]["content"][0]["bytes"] == [0xF0]


# --- completions ---


def completion_shape(n: int = 1, **keys: Any) -> CompletionShape:
    return CompletionShape(n, **{"num_top": None, "echo": False, "only_scores": False, **keys})


def test_choices_are_numbered_by_prompt_and_answer() -> None:
    shape = completion_shape(3)
    assert [shape.choice(number, part(index))["index"] for number, index in ((0, 2), (1, 0), (2, 1))] == [
        2,
        3,
        7,
    ]


def test_a_prompt_is_echoed_once_for_each_choice() -> None:
    shape = completion_shape(2, echo=True)
    prompt = {"text": "Q", "token_ids": [1], "logprobs": None}
    parts = [part(0, "a", prompt=prompt), part(1, "b"), part(0, "c", "stop"), part(1, "d", "stop")]
    assert [shape.choice(0, each)["text"] for each in parts] == ["Qa", "Qb", "c", "d"]


def test_only_scores_are_only_the_prompt_s() -> None:
    shape = completion_shape(num_top=0, echo=True, only_scores=True)
    prompt = {"text": "Q", "token_ids": [1], "logprobs": [place("Q", None)]}
    choice = shape.choice(0, part(0, "a", "stop", logprobs=[place("a")], prompt=prompt))
    assert (choice["text"], choice["finish_reason"]) == ("Q", "length")
    assert choice["logprobs"]["token_logprobs"] == [None]


# --- whole answers ---


def answer(**keys: Any) -> dict[str, Any]:
    usage = {"prompt_tokens": 3, "completion_tokens": 2, "cached_tokens": 1}
    return {"result": "a", "finish_reason": "stop", "logprobs": None, "usage": usage, **keys}


def test_one_answer_is_one_part_and_several_are_several() -> None:
    assert parts_of(answer()) == [part(0, "a", "stop")]
    several = answer(result=["a", "b"], finish_reason=["stop", "length"], logprobs=[None, None])
    assert parts_of(several) == [part(0, "a", "stop"), part(1, "b", "length")]


def test_an_answer_that_misses_something_names_it() -> None:
    with pytest.raises(ApiError, match="`usage`") as caught:
        parts_of({"result": "a", "finish_reason": "stop", "logprobs": None})
    assert caught.value.status == 500


def test_usage_is_the_sum() -> None:
    assert usage_of([answer(), answer()]) == {
        "prompt_tokens": 6,
        "completion_tokens": 4,
        "total_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 2},
    }


def test_what_no_encoding_has_does_not_break_an_answer() -> None:
    assert json.loads(to_json({"message": "\ud800é"})) == {"message": "?é"}


# --- streams ---


async def counting(name: str, count: int, ended: list[str]) -> AsyncGenerator[dict[str, Any]]:
    """Yield numbers; note when it ends, however it does."""
    try:
        for number in range(count):
            await asyncio.sleep(0)
            yield {"name": name, "number": number}
    finally:
        ended.append(name)


@pytest.mark.parametrize("counts", [[3], [3, 0, 5], []])
def test_streams_are_merged_in_their_own_orders(counts: list[int]) -> None:
    async def collect() -> list[list[int]]:
        ended: list[str] = []
        found: list[list[int]] = [[] for _ in counts]
        async for number, each in merged([counting(str(i), count, ended) for i, count in enumerate(counts)]):
            found[number].append(each["number"])
        assert len(ended) == len(counts)
        return found

    assert asyncio.run(collect()) == [list(range(count)) for count in counts]


@pytest.mark.parametrize("count", [1, 3])
def test_leaving_merged_streams_ends_all_of_them(count: int) -> None:
    async def leave() -> list[str]:
        ended: list[str] = []
        parts = merged([counting(str(number), 1000, ended) for number in range(count)])
        await anext(parts)
        await parts.aclose()
        return ended

    assert len(asyncio.run(leave())) == count


def test_an_error_of_one_stream_ends_the_others() -> None:
    async def failing() -> AsyncGenerator[dict[str, Any]]:
        yield {"name": "bad", "number": 0}
        raise ValueError("bad")

    async def collect() -> list[str]:
        ended: list[str] = []
        with pytest.raises(ValueError, match="bad"):
            async for _ in merged([counting("good", 1000, ended), failing()]):
                pass
        return ended

    assert asyncio.run(collect()) == ["good"]


def test_work_is_cancelled_when_the_client_goes() -> None:
    async def run() -> bool:
        was_cancelled = asyncio.Event()

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        async def work() -> None:
            try:
                await asyncio.sleep(WAIT_S)
            except asyncio.CancelledError:
                was_cancelled.set()
                raise

        with pytest.raises(ClientGone):
            await while_connected(receive, work())
        return was_cancelled.is_set()

    assert asyncio.run(run())


def test_work_of_a_client_that_stays_is_returned() -> None:
    async def run() -> int:
        async def receive() -> Any:
            await asyncio.sleep(WAIT_S)

        async def work() -> int:
            return 7

        return await while_connected(receive, work())

    assert asyncio.run(run()) == 7
