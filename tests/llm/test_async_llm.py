"""Laws of `hami.AsyncLLM`: waiting tasks block no loop, streams are whole, and whoever leaves aborts."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from llm_engines import WAIT_S, ByteTokenizer, Gate, Hooked, Script, fake_engine, fake_llm, greedy_params

import hami
from hami.backends.llm.async_llm import AsyncLLM
from hami.backends.llm.outputs import Update
from hami.backends.llm.sampling import SamplingParams

PROMPT = [5, 6, 7, 8]


def fake_async(**keywords: Any) -> AsyncLLM:
    return AsyncLLM.of_engine(fake_engine(**keywords))


async def until(condition: Any) -> None:
    """Wait until something is so that the engine's thread makes so."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, "the condition never became true"
        await asyncio.sleep(0.001)


def test_many_tasks_get_what_the_offline_face_gives() -> None:
    prompts = [[i + 1, i + 2, i + 3] for i in range(20)]
    with fake_llm() as llm:
        expected = [generation.token_ids for generation in llm.generate(prompts, greedy_params(12))]

    async def ask_all() -> list[list[int]]:
        async with fake_async() as llm:
            answers = await asyncio.gather(*(llm.agenerate(prompt, greedy_params(12)) for prompt in prompts))
        return [answer.token_ids for answer in answers]

    assert asyncio.run(ask_all()) == expected


def test_updates_of_a_stream_are_the_whole() -> None:
    async def consume() -> list[Update]:
        async with fake_async(
            tokenizer=ByteTokenizer(), wrap=lambda inner: Script(inner, b"hello there")
        ) as llm:
            params = SamplingParams(temperature=0, max_tokens=50)
            return [update async for update in llm.stream("abcd", params)]

    updates = asyncio.run(consume())
    assert "".join(update.text for update in updates) == "hello there"
    assert [token for update in updates for token in update.token_ids] == [*b"hello there", 0]
    assert [update.finish_reason for update in updates if update.finish_reason] == ["stop"]


def test_answers_of_n_are_told_apart_in_a_stream() -> None:
    params = SamplingParams(n=3, seed=1, max_tokens=10, ignore_eos=True)

    async def consume() -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        async with fake_async() as llm:
            async for update in llm.stream(PROMPT, params):
                found.setdefault(update.index, []).extend(update.token_ids)
        return found

    with fake_llm() as llm:
        (whole,) = llm.generate([PROMPT], params)
    assert asyncio.run(consume()) == {each.index: each.token_ids for each in whole.outputs}


def test_whoever_waits_does_not_block_the_loop() -> None:
    gate = Gate()

    async def both() -> int:
        async with fake_async(wrap=lambda inner: Hooked(inner, gate)) as llm:
            task = asyncio.create_task(llm.agenerate(PROMPT, greedy_params(4)))
            await until(gate.is_reached.is_set)
            assert not task.done()
            gate.is_open.set()
            return len((await task).token_ids)

    assert asyncio.run(both()) == 4


def test_a_cancelled_task_aborts_its_request() -> None:
    gate = Gate()

    async def cancel() -> dict[str, Any]:
        async with fake_async(wrap=lambda inner: Hooked(inner, gate)) as llm:
            task = asyncio.create_task(llm.agenerate(PROMPT, greedy_params(300)))
            await until(gate.is_reached.is_set)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            gate.is_open.set()
            await until(lambda: llm.stats()["running"] == 0)
            return llm.stats()

    stats = asyncio.run(cancel())
    assert stats["pages_referenced"] == 0 and stats["num_sampled"] < 300


def test_leaving_a_stream_aborts_its_request() -> None:
    async def leave() -> dict[str, Any]:
        async with fake_async() as llm:
            stream = llm.stream(PROMPT, greedy_params(500))
            async for _ in stream:
                break
            await stream.aclose()  # type: ignore[attr-defined]
            await until(lambda: llm.stats()["running"] == 0)
            return llm.stats()

    assert asyncio.run(leave())["pages_referenced"] == 0


def test_abort_by_name_ends_with_what_there_is() -> None:
    gate = Gate()

    async def abort() -> str:
        async with fake_async(wrap=lambda inner: Hooked(inner, gate)) as llm:
            task = asyncio.create_task(llm.agenerate(PROMPT, greedy_params(300), request_id="mine"))
            await until(gate.is_reached.is_set)
            assert llm.abort("mine")
            assert not llm.abort("another")
            gate.is_open.set()
            reason = (await task).finish_reason
            assert not llm.abort("mine")
            return reason

    assert asyncio.run(abort()) == "abort"


def test_errors_reach_their_task_only() -> None:
    async def both() -> list[Any]:
        async with fake_async() as llm:
            return await asyncio.gather(
                llm.agenerate([1] * 600, greedy_params(2)),
                llm.agenerate(PROMPT, greedy_params(2)),
                return_exceptions=True,
            )

    refused, answered = asyncio.run(both())
    assert isinstance(refused, hami.RequestError)
    assert len(answered.token_ids) == 2


def test_one_engine_serves_several_loops() -> None:
    llm = fake_async()
    results: list[list[int]] = []

    def loop() -> None:
        results.append(asyncio.run(llm.agenerate(PROMPT, greedy_params(8))).token_ids)

    threads = [threading.Thread(target=loop) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_S)
    llm.close()
    assert len(results) == 4 and len({tuple(each) for each in results}) == 1


def test_closing_answers_those_who_wait() -> None:
    gate = Gate()

    async def close() -> None:
        llm = fake_async(wrap=lambda inner: Hooked(inner, gate))
        task = asyncio.create_task(llm.agenerate(PROMPT, greedy_params(300)))
        await until(gate.is_reached.is_set)
        closing = asyncio.create_task(asyncio.to_thread(llm.close))
        gate.is_open.set()
        with pytest.raises(hami.Closed):
            await task
        await closing

    asyncio.run(close())


def test_a_policy_of_the_users_own_says_who_is_next() -> None:
    @hami.register("ShortPromptsFirst")
    class ShortPromptsFirst(hami.Scheduler):
        def order(self, request: dict[str, Any]) -> float:
            return float(request["num_prompt_tokens"])

    gate = Gate()
    order: list[int] = []

    async def ask(llm: AsyncLLM, length: int) -> None:
        await llm.agenerate([length] * length, greedy_params(2))
        order.append(length)

    async def main() -> None:
        async with fake_async(
            policy="ShortPromptsFirst", max_running=1, wrap=lambda inner: Hooked(inner, gate)
        ) as llm:
            first = asyncio.create_task(ask(llm, 1))
            await until(gate.is_reached.is_set)
            others = [asyncio.create_task(ask(llm, length)) for length in (30, 10, 20)]
            await asyncio.sleep(0)
            gate.is_open.set()
            await asyncio.gather(first, *others)

    asyncio.run(main())
    assert order == [1, 10, 20, 30]
