"""Laws of connections: who leaves aborts, who is slow holds up nobody, and a late error ends a stream."""

from __future__ import annotations

import asyncio
import contextlib
import random
import socket
from typing import Any

import pytest
from openai_service import (
    MODEL,
    ByteTokenizer,
    Gate,
    Hooked,
    Served,
    events_of,
    fake_engine,
    fake_node,
    openai,
    read_all,
    served,
)

pytestmark = pytest.mark.timeout(240)

LONG = {"max_tokens": 400, "ignore_eos": True}
BODY = {"model": MODEL, "prompt": "Once upon a time", **LONG}


def until_empty(running: Served) -> None:
    """Wait until no request is inside the pipeline."""
    while running.pipe._num_requests:
        pass


def until_inside(running: Served, count: int) -> None:
    """Wait until so many requests are inside the pipeline."""
    while running.pipe._num_requests < count:
        pass


def gated(**keywords: Any) -> tuple[Gate, Any]:
    """Return an engine whose steps wait until its gate is opened."""
    gate = Gate()
    return gate, fake_engine(tokenizer=ByteTokenizer(), wrap=lambda inner: Hooked(inner, gate), **keywords)


def read_event(connection: socket.socket) -> bytes:
    """Read up to the end of the first event."""
    raw = b""
    while b"}\n\n" not in raw:
        raw += connection.recv(1024)
    return raw


@pytest.mark.parametrize("is_streamed", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("prompts", ["abcd", ["abcd", "efgh"]], ids=["one", "two"])
def test_a_client_that_leaves_before_the_first_token_aborts(is_streamed: bool, prompts: Any) -> None:
    gate, engine = gated()
    with served(fake_node(), engine) as running:
        connection = running.post("completions", {**BODY, "prompt": prompts, "stream": is_streamed})
        assert gate.is_reached.wait(20)
        connection.close()
        until_empty(running)
        gate.is_open.set()
        stats = running.wait_until_idle()
    assert stats["pages_referenced"] == 0
    assert stats["num_sampled"] < 10


def test_a_client_that_leaves_a_stream_aborts(smollm2: Served) -> None:
    before = smollm2.wait_until_idle()
    with smollm2.post("completions", {**BODY, "stream": True}) as connection:
        assert b'"text":' in read_event(connection)
    after = smollm2.wait_until_idle()
    assert after["pages_referenced"] == before["pages_referenced"] == 0
    assert after["num_sampled"] - before["num_sampled"] < 400


def test_a_client_that_closes_its_stream_aborts(smollm2: Served) -> None:
    before = smollm2.wait_until_idle()["num_sampled"]
    messages = [{"role": "user", "content": "Count to a hundred."}]
    extra = {"ignore_eos": True}
    with smollm2.client.chat.completions.create(
        model=MODEL, messages=messages, max_tokens=400, stream=True, extra_body=extra
    ) as stream:
        next(iter(stream))
    assert smollm2.wait_until_idle()["num_sampled"] - before < 400


def test_a_task_that_is_cancelled_aborts(smollm2: Served) -> None:
    before = smollm2.wait_until_idle()["num_sampled"]

    async def ask() -> None:
        async with smollm2.connect() as client:
            prompt = "Once upon a time"
            extra = {"ignore_eos": True}
            asking = asyncio.create_task(
                client.completions.create(model=MODEL, prompt=prompt, max_tokens=400, extra_body=extra)
            )
            await asyncio.to_thread(smollm2.wait_until_running)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    asyncio.run(ask())
    assert smollm2.wait_until_idle()["num_sampled"] - before < 400
    until_empty(smollm2)


def test_a_client_that_reads_nothing_holds_up_nobody_and_loses_nothing() -> None:
    """The model writes ten times what fits between the two, and ends before the first byte is read."""
    with served(fake_node(), fake_engine(tokenizer=ByteTokenizer())) as running:
        body = {**BODY, "prompt": "abcd", "logprobs": 20, "temperature": 1.0, "seed": 1, "stream": True}
        with running.post("completions", body) as connection:
            whole = running.client.completions.create(
                model=MODEL, prompt="abcd", seed=1, temperature=1.0, logprobs=20, max_tokens=400,
                extra_body={"ignore_eos": True},
            )  # fmt: skip
            assert running.wait_until_idle()["pages_referenced"] == 0
            *events, done = events_of(read_all(connection))
    assert done == "[DONE]"
    assert "".join(event["choices"][0]["text"] for event in events) == whole.choices[0].text
    tokens = [token for event in events for token in event["choices"][0]["logprobs"]["tokens"]]
    assert tokens == whole.choices[0].logprobs.tokens
    assert len(events) < 400  # what came meanwhile was added up


def test_an_error_after_the_beginning_ends_the_stream() -> None:
    num_steps = 0

    def fail_late(plan: Any, logits: Any) -> Any:
        nonlocal num_steps
        num_steps += 1
        if num_steps > 4:
            raise RuntimeError("late")
        return logits

    engine = fake_engine(tokenizer=ByteTokenizer(), wrap=lambda inner: Hooked(inner, fail_late))
    with served(fake_node(), engine) as running:
        with running.post("completions", {**BODY, "prompt": "abcd", "stream": True}) as connection:
            *events, last = events_of(read_all(connection))
        assert [set(event) for event in events] == [{"id", "object", "created", "model", "choices"}] * len(
            events
        )
        assert events
        assert last["error"]["type"] == "server_error"
        num_steps = 0
        extra = {"ignore_eos": True}
        stream = running.client.completions.create(model=MODEL, prompt="abcd", stream=True, extra_body=extra)
        with pytest.raises(openai.APIError, match="RuntimeError") as caught:
            list(stream)
    assert caught.value.code == "internal_error"


def test_a_pipeline_that_closes_ends_its_streams() -> None:
    gate, engine = gated()
    body = {**BODY, "prompt": ["abcd", "efgh"], "stream": True}
    with served(fake_node(), engine) as running, running.post("completions", body) as connection:
        gate.is_open.set()
        read = read_event(connection)
        running.pipe.close(0)
        events = events_of(read + read_all(connection))
    assert events[-1] == "[DONE]" or events[-1]["error"]["type"] == "service_unavailable_error"


def test_requests_of_higher_priority_run_first() -> None:
    gate, engine = gated(policy="priority", max_running=1)
    ended: list[int] = []

    async def ask(client: Any, priority: int) -> None:
        await client.completions.create(
            model=MODEL, prompt="abcd", max_tokens=3, extra_body={"priority": priority}
        )
        ended.append(priority)

    async def ask_all(running: Served) -> None:
        async with running.connect() as client:
            first = asyncio.create_task(ask(client, 9))
            await asyncio.to_thread(gate.is_reached.wait, 20)
            others = [asyncio.create_task(ask(client, priority)) for priority in (0, 5)]
            await asyncio.to_thread(until_inside, running, 3)
            gate.is_open.set()
            await asyncio.gather(first, *others)

    with served(fake_node(), engine) as running:
        asyncio.run(ask_all(running))
    assert ended == [9, 5, 0]


def test_whatever_clients_do_nothing_is_left_behind() -> None:
    """Each of sixty clients asks for something, and leaves at some point, or never."""
    chance = random.Random(5)

    async def visit(client: Any, patience: int, keys: dict[str, Any]) -> None:
        asking = client.completions.create(model=MODEL, extra_body={"ignore_eos": True}, **keys)
        if not keys["stream"]:
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(asking, patience / 1000)
            return
        async with await asking as stream:
            async for _ in stream:
                patience -= 1
                if patience <= 0:
                    break

    async def visit_all(running: Served) -> None:
        async with running.connect() as client:
            visits = []
            for number in range(60):
                prompt = chance.choice(["abcd", ["abcd", "efgh"], [1, 2, 3]])
                keys = {"prompt": prompt, "n": chance.choice([1, 1, 3]), "stream": bool(number % 2)}
                keys |= {"seed": number, "max_tokens": chance.choice([1, 20, 400])}
                visits.append(visit(client, chance.choice([1, 5, 50, 10_000]), keys))
            await asyncio.gather(*visits)

    engine = fake_engine(tokenizer=ByteTokenizer(), num_pages=60)  # too few for all at once
    with served(fake_node(), engine) as running:
        asyncio.run(visit_all(running))
        stats = running.wait_until_idle()
        until_empty(running)
        alone = running.client.completions.create(model=MODEL, prompt="abcd", seed=1, max_tokens=5)
    assert (stats["pages_referenced"], stats["swapped"]) == (0, 0)
    assert alone.usage.completion_tokens > 0
