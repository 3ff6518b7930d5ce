"""Laws under load: many threads on many pipelines, every outcome mixed, and each reply is the right one."""

from __future__ import annotations

import contextlib
import random
import threading
from concurrent.futures import CancelledError
from typing import Any

import pytest

import hami

NUM_THREADS = 8


def expected(number: int) -> Any:
    """Return what every pipeline here answers for a number, or the exception it raises."""
    return ZeroDivisionError if number % 17 == 0 else number * number


def sources() -> dict[str, Any]:
    """Return pipelines that all compute the same in different ways."""

    def check(batch: list[dict[str, Any]]) -> list[Any]:
        return [1 // (item["data"] % 17) * 0 + item["data"] for item in batch]

    hami.register("Check", check)
    hami.register("Second", lambda batch: [item["square"] for item in batch])
    return {
        "one_node": {"backend": "S[Check, Pow]", "max": 4, "instance_num": 2},
        "chain": {
            "check": {"backend": "Check", "max": 8, "next": "same"},
            "same": {"backend": "Identity", "next": "pow"},
            "pow": {"backend": "Pow", "queue_capacity": 3},
        },
        "join": {
            "check": {"backend": "Check", "max": 4, "instance_num": 2, "next": "pow,same"},
            "pow": {"backend": "Pow", "next": "join"},
            "same": {"backend": "Identities", "max": 4, "batching_timeout": 1, "next": "join"},
            "join": {"backend": "Second", "map": "pow[result:square],same[result:data]", "max": 4},
        },
        "priority": {"backend": "S[Check, Pow]", "max": 4, "scheduler": "priority", "batching_timeout": 0.5},
    }


def attempt(pipeline: hami.Pipeline, number: int, chance: random.Random) -> None:
    """Call in one of many ways and check the answer; a request may also be cancelled or late."""
    request: dict[str, Any] = {"data": number, "priority": chance.randrange(5)}
    if chance.random() < 0.2:
        request["deadline_ms"] = chance.choice([0, 0.1, 1, 10_000])
    kept = dict(request)
    try:
        way = chance.randrange(4)
        if way == 0:
            pipeline(request)
        elif way == 1:
            pipeline([request])
        else:
            future = pipeline.submit(request)
            if way == 3 and chance.random() < 0.5:
                future.cancel()
            future.result(30)
    except ZeroDivisionError:
        assert expected(number) is ZeroDivisionError and request == kept
    except hami.DeadlineExceeded:
        assert "deadline_ms" in kept and request == kept
    except (CancelledError, hami.Closed, hami.QueueFull):
        assert request == kept
    else:
        assert request == {**kept, "result": expected(number)}


@pytest.mark.parametrize("name", ["one_node", "chain", "join", "priority"])
def test_every_answer_is_right_whatever_else_happens(open_pipe: Any, in_threads: Any, name: str) -> None:
    pipeline = open_pipe(sources()[name])

    def work(thread: int) -> None:
        chance = random.Random(thread)
        for i in range(150):
            attempt(pipeline, thread * 1000 + i, chance)

    in_threads(NUM_THREADS, work)
    assert pipeline.close(10)


def test_for_each_is_right_under_load(open_pipe: Any, in_threads: Any) -> None:
    sources()
    pipeline = open_pipe(
        {
            "each": {"backend": "ForEach(target=check, on_error=keep)"},
            "check": {"backend": "Check", "max": 8, "instance_num": 2, "next": "pow"},
            "pow": {"backend": "Pow", "queue_capacity": 5},
        }
    )

    def work(thread: int) -> None:
        chance = random.Random(thread)
        for _ in range(25):
            numbers = [chance.randrange(1000) for _ in range(chance.randrange(12))]
            request = {"data": numbers}
            if chance.random() < 0.2:
                request["deadline_ms"] = 1  # type: ignore[assignment]
            with contextlib.suppress(hami.DeadlineExceeded):
                answers = pipeline(request)["result"]
                for number, answer in zip(numbers, answers, strict=True):
                    assert answer == expected(number) or type(answer) is expected(number)

    in_threads(NUM_THREADS, work)
    assert pipeline.close(10)


def test_pipelines_close_while_everybody_calls(in_threads: Any) -> None:
    table = list(sources().values())

    def work(thread: int) -> None:
        chance = random.Random(thread)
        for i in range(60):
            place = chance.randrange(len(pipelines))
            attempt(pipelines[place], thread * 1000 + i, chance)
            if chance.random() < 0.1:
                with lock:
                    old, pipelines[place] = pipelines[place], hami.pipe(table[place])
                old.close(chance.choice([0, 0.001, 10]))

    pipelines = [hami.pipe(source) for source in table]
    lock = threading.Lock()
    in_threads(NUM_THREADS, work)
    for pipeline in pipelines:
        assert pipeline.close(10)


def test_many_pipelines_live_side_by_side(open_pipe: Any, in_threads: Any) -> None:
    table = list(sources().values())
    pipelines = [open_pipe(table[i % len(table)]) for i in range(16)]

    def work(thread: int) -> None:
        chance = random.Random(thread)
        for i in range(80):
            attempt(pipelines[chance.randrange(16)], thread * 1000 + i, chance)

    in_threads(NUM_THREADS, work)
