"""A prompt or a grammar that takes its time delays nobody else: it is prepared beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from openai_service import MODEL, WAIT_S, ByteTokenizer, Served, fake_engine, fake_node, openai, served

SLOW = "slow"


class GatedTokenizer(ByteTokenizer):
    """Stays inside for texts that begin with `slow`, and knows on which threads it was."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.num_inside = 0
        self.threads: set[int] = set()
        self._changed = threading.Condition()

    def encode(self, text: str) -> list[int]:
        self.threads.add(threading.get_ident())
        if text.startswith(SLOW):
            with self._changed:
                self.num_inside += 1
                self._changed.notify_all()
            assert self.gate.wait(WAIT_S)
        if text.startswith("bad"):
            raise ValueError("no such text")
        return super().encode(text)

    def wait_for(self, num_inside: int) -> None:
        """Wait until so many texts are inside."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.num_inside >= num_inside, WAIT_S)


@pytest.fixture
def tokenizer() -> GatedTokenizer:
    return GatedTokenizer()


@pytest.fixture
def running(tokenizer: GatedTokenizer) -> Iterator[Served]:
    with served(fake_node(), fake_engine(tokenizer=tokenizer)) as one:
        yield one
        tokenizer.gate.set()


def complete(client: Any, prompt: str, **more: Any) -> Any:
    return client.completions.create(model=MODEL, prompt=prompt, max_tokens=3, **more)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_while_a_prompt_becomes_tokens_others_are_answered(
    running: Served, tokenizer: GatedTokenizer, is_streamed: bool
) -> None:
    async def ask() -> Any:
        async with running.connect() as client:
            slow = asyncio.create_task(complete(client, SLOW, stream=is_streamed))
            await asyncio.to_thread(tokenizer.wait_for, 1)
            assert (await client.models.list()).data  # the loop serves
            assert (await complete(client, "quick")).usage.prompt_tokens == 5  # and so does the model
            assert not slow.done()
            tokenizer.gate.set()
            answer = await slow
            return [part async for part in answer] if is_streamed else answer.choices

    assert asyncio.run(ask())


def test_many_slow_prompts_wait_for_threads_and_not_the_loop(
    running: Served, tokenizer: GatedTokenizer
) -> None:
    async def ask() -> list[Any]:
        async with running.connect() as client:
            slow = [asyncio.create_task(complete(client, f"{SLOW} {number}")) for number in range(12)]
            await asyncio.to_thread(tokenizer.wait_for, 4)
            assert (await client.models.list()).data
            assert tokenizer.num_inside == 4
            tokenizer.gate.set()
            return await asyncio.gather(*slow)

    answers = asyncio.run(ask())
    assert [answer.usage.prompt_tokens for answer in answers] == [6] * 10 + [7] * 2


def test_what_fails_beside_the_loop_is_told_as_before(running: Served) -> None:
    with pytest.raises(openai.InternalServerError) as caught:
        complete(running.client, "bad")
    assert "no such text" not in str(caught.value)
    with pytest.raises(openai.BadRequestError, match="temperature"):
        complete(running.client, "quick", temperature=-1)
    assert complete(running.client, "quick").usage.prompt_tokens == 5


def test_a_client_that_leaves_while_its_prompt_is_prepared_leaves_nothing_behind(
    running: Served, tokenizer: GatedTokenizer
) -> None:
    running.post("completions", {"model": MODEL, "prompt": SLOW, "max_tokens": 400}).close()
    tokenizer.wait_for(1)
    tokenizer.gate.set()
    assert complete(running.client, "quick").usage.prompt_tokens == 5
    running.wait_until_idle()


def test_callers_without_a_loop_start_on_their_own_thread(running: Served, tokenizer: GatedTokenizer) -> None:
    running.pipe({"data": "quick", "sampling": {"max_tokens": 2}})
    assert tokenizer.threads == {threading.get_ident()}


def test_closing_waits_for_prompts_that_are_prepared(tokenizer: GatedTokenizer) -> None:
    with served(fake_node(), fake_engine(tokenizer=tokenizer)) as running:
        connection = running.post("completions", {"model": MODEL, "prompt": SLOW, "max_tokens": 2})
        tokenizer.wait_for(1)
        tokenizer.gate.set()
    connection.close()
