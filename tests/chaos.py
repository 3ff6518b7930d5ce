"""Twelve nodes under chaos: many callers, injected errors, cancels, deadlines, gates and sudden closes.

`Chaos` makes the nodes and the callers. Every answer is compared with one computed here without a pipeline,
and every error with what was injected. Nothing sleeps: slow nodes wait at a gate that the caller who shut it
opens again.
"""

from __future__ import annotations

import asyncio
import collections
import random
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

import hami

WAIT_S = 60.0
FOR_EVER_MS = 600_000
NUM_CALLERS = 8
FAULTY_NODES = ("check", "right", "join", "child", "maybe", "last")
TABLE: dict[str, Any] = {
    "max_in_flight": 40,
    "scheduler": "priority",
    "check": {"backend": "ChaosCheck", "max": 8, "instance_num": 2, "next": "same"},
    "same": {"backend": "Identity", "next": "left,right"},
    "left": {"backend": "S[Identity, Pow]", "max": 4, "batching_timeout": 1, "next": "join"},
    "right": {"backend": "ChaosRight", "max": 4, "queue_capacity": 6, "next": "join"},
    "join": {
        "backend": "ChaosJoin",
        "max": 8,
        "map": "left[result:square],right[result:more]",
        "next": "each",
    },
    "each": {"backend": "ForEach(target=pow)", "next": "maybe"},
    "pow": {"backend": "Pow", "max": 16, "instance_num": 2, "next": "child"},
    "child": {"backend": "ChaosChild", "max": 16, "queue_capacity": 20},
    "maybe": {"backend": "ChaosMaybe", "max": 4, "next": "rescue"},
    "rescue": {"backend": "ChaosRescue", "or": True, "max": 4, "next": "slow"},
    "slow": {"backend": "ChaosSlow", "instance_num": 3, "max": 2, "queue_capacity": 8, "next": "last"},
    "last": {"backend": "ChaosLast", "max": 8},
}


class InjectedError(Exception):
    """What a node raises when the request tells it to: the arguments are the node and the number."""


def data_of(number: int) -> int:
    """Return what a request brings as `data`: small enough that squares of squares fit into 64 bits."""
    return number % 10_007


def answer(number: int) -> tuple[str, int, int]:
    """Return what the pipeline answers for the request of that number, computed without it."""
    data = data_of(number)
    squares = [(data * data + data + 1 + k) ** 2 + 1 for k in range(data % 4)]
    return ("maybe" if number % 3 else "rescue", sum(squares), number)


def is_refusal(error: BaseException | None) -> bool:
    """Say whether a call was refused at the door."""
    is_late = isinstance(error, hami.Closed) and error.message == "the pipeline is closed"
    return is_late or isinstance(error, hami.QueueFull)


class Chaos:
    """One seeded run; `outcomes` counts how requests ended."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.num_admitted = 0
        self._lock = threading.Lock()
        self._gate = threading.Event()
        self._gate.set()
        self._is_closing = False
        self._left = 0
        self._next_number = 0
        self._errors: list[BaseException] = []
        self._register()

    # --- nodes ---

    def _register(self) -> None:
        def node(name: str, work: Callable[[dict[str, Any]], Any]) -> None:
            hami.register(
                f"Chaos{name.title()}", lambda batch: [self._run(name, item, work) for item in batch]
            )

        node("check", lambda item: item["data"])
        node("right", lambda item: item["data"] + 1)
        node("join", lambda item: self._parts(item["square"], item["more"]))
        node("child", lambda item: item["data"] + 1)
        node("rescue", lambda item: ("rescue", item["data"]))
        node("slow", self._slow)
        node("last", lambda item: (item["data"][0], sum(item["data"][1]), item["context"]["number"]))
        hami.register("ChaosMaybe", self._maybe)

    def _run(self, name: str, item: dict[str, Any], work: Callable[[dict[str, Any]], Any]) -> Any:
        context = item["context"]
        if context["fault"] == name:
            raise InjectedError(name, context["number"])
        return work(item)

    @staticmethod
    def _parts(square: int, more: int) -> list[int]:
        return [square + more + k for k in range((more - 1) % 4)]

    def _maybe(self, batch: list[dict[str, Any]]) -> None:
        """Fail items one by one, and leave the result of every third to the rescue."""
        for item in batch:
            number, fault = item["context"]["number"], item["context"]["fault"]
            if fault == "maybe":
                item["error"] = InjectedError("maybe", number)
            elif number % 3:
                item["result"] = ("maybe", item["data"])

    def _slow(self, item: dict[str, Any]) -> Any:
        assert self._gate.wait(WAIT_S), "nobody opened the gate"
        return item["data"]

    # --- a round ---

    def run_round(self, num_requests: int) -> hami.Pipeline:
        """Drive one pipeline with many callers and close it at a random moment; return it, closed."""
        chance = random.Random(f"{self.seed}.{self._next_number}")
        self._is_closing, self._left, self.num_admitted = False, num_requests, 0
        self._close_at = chance.randrange(num_requests // 2) if chance.random() < 0.7 else 0
        self._is_time = threading.Event()
        pipeline = hami.pipe(TABLE)
        callers = [
            threading.Thread(
                target=self._call, args=(pipeline, f"{self.seed}.{self._next_number}.{i}", i == 0)
            )
            for i in range(NUM_CALLERS)
        ]
        for caller in callers:
            caller.start()
        assert self._is_time.wait(WAIT_S * 10), "the callers hang"
        self._is_closing = True
        self.has_drained = pipeline.close(timeout=chance.choice([0, 0.001, WAIT_S]))
        for caller in callers:
            caller.join(WAIT_S)
            assert not caller.is_alive(), "a caller hangs"
        if self._errors:
            raise self._errors[0]
        return pipeline

    def _take(self, count: int) -> int:
        """Return the first of `count` new numbers, or -1 when the round is over."""
        with self._lock:
            if self._left <= self._close_at:
                self._is_time.set()
            if self._left <= 0:
                return -1
            self._left -= count
            self._next_number += count
            return self._next_number - count

    def _count(self, outcome: str) -> None:
        with self._lock:
            self.outcomes[outcome] += 1

    def _call(self, pipeline: hami.Pipeline, seed: str, is_async: bool) -> None:
        chance = random.Random(seed)
        try:
            while (first := self._take(count := chance.choice([1, 1, 4, 8]))) >= 0:
                requests = [self._request(number, chance) for number in range(first, first + count)]
                if is_async:
                    asyncio.run(self._await(pipeline, requests))
                elif chance.random() < 0.3:
                    self._block(pipeline, requests)
                else:
                    self._submit(pipeline, requests, chance)
        except BaseException as error:
            self._errors.append(error)
        finally:
            self._gate.set()
            if self._errors:
                self._is_time.set()

    @staticmethod
    def _request(number: int, chance: random.Random) -> dict[str, Any]:
        fault = chance.choice(FAULTY_NODES) if chance.random() < 0.1 else None
        request: dict[str, Any] = {"data": data_of(number), "context": {"number": number, "fault": fault}}
        if chance.random() < 0.15:
            request["deadline_ms"] = chance.choice([0, 0.2, 2, 20, FOR_EVER_MS])
        if chance.random() < 0.3:
            request["priority"] = chance.randrange(-5, 5)
        return request

    # --- the ways to call ---

    def _block(self, pipeline: hami.Pipeline, requests: list[dict[str, Any]]) -> None:
        kept = [dict(request) for request in requests]
        error: BaseException | None = None
        try:
            pipeline(requests if len(requests) > 1 else requests[0])
        except Exception as raised:
            error = raised
        if is_refusal(error):
            assert requests == kept, "a refused list left traces"
        else:
            self._add_admitted(len(requests))
        failed = [i for i, request in enumerate(requests) if "result" not in request]
        assert bool(failed) == (error is not None)
        for i, request in enumerate(requests):
            # A list raises its first error in order; those of the others are not told.
            known = error if failed and i == failed[0] else None
            self._check(
                request, kept[i], known, is_cancelled=False, is_told=known is not None or i not in failed
            )

    def _submit(self, pipeline: hami.Pipeline, requests: list[dict[str, Any]], chance: random.Random) -> None:
        shuts_gate = chance.random() < 0.1
        if shuts_gate:
            self._gate.clear()
        started: list[tuple[dict[str, Any], dict[str, Any], Future[Any], threading.Semaphore]] = []
        for request in requests:
            kept = dict(request)
            try:
                future = pipeline.submit(request)
            except (hami.QueueFull, hami.Closed) as error:
                self._check(request, kept, error, is_cancelled=False)
                continue
            self._add_admitted(1)
            calls = threading.Semaphore(0)
            future.add_done_callback(lambda _, calls=calls: calls.release())
            started.append((request, kept, future, calls))
        cancelled = [chance.random() < 0.1 and future.cancel() for _, _, future, _ in started]
        if shuts_gate:
            self._gate.set()
        for (request, kept, future, calls), is_cancelled in zip(started, cancelled, strict=True):
            self._check(request, kept, self._outcome(future), is_cancelled)
            # A future wakes those who wait for it before it calls back.
            assert calls.acquire(timeout=WAIT_S), f"request {kept} was never answered"
            assert not calls.acquire(blocking=False), f"request {kept} was answered twice"

    @staticmethod
    def _outcome(future: Future[Any]) -> BaseException | None:
        try:
            return future.exception(WAIT_S)
        except CancelledError as error:
            return error

    async def _await(self, pipeline: hami.Pipeline, requests: list[dict[str, Any]]) -> None:
        kept = [dict(request) for request in requests]
        errors = await asyncio.gather(*map(pipeline.acall, requests), return_exceptions=True)
        for request, before, error in zip(requests, kept, errors, strict=True):
            known = error if isinstance(error, BaseException) else None
            self._add_admitted(0 if is_refusal(known) else 1)
            self._check(request, before, known, is_cancelled=False)

    def _add_admitted(self, count: int) -> None:
        with self._lock:
            self.num_admitted += count

    # --- the judge ---

    def _check(
        self,
        request: dict[str, Any],
        kept: dict[str, Any],
        error: BaseException | None,
        is_cancelled: bool,
        is_told: bool = True,
    ) -> None:
        """Hold one outcome against what was sent; `is_told` is false where the error went to someone else."""
        fault, number = kept["context"]["fault"], kept["context"]["number"]
        if not is_told:
            assert request == kept
            return self._count("untold")
        assert isinstance(error, CancelledError) == is_cancelled, f"{kept}: {error!r}"
        if error is None:
            assert fault is None or (fault == "child" and kept["data"] % 4 == 0), f"{kept} should have failed"
            assert request == {**kept, "result": answer(number)}
            return self._count("answered")
        assert request == kept, f"{request} was changed although it failed"
        if isinstance(error, InjectedError):
            assert error.args == (fault, number)
        elif isinstance(error, hami.DeadlineExceeded):
            assert "deadline_ms" in kept
        elif isinstance(error, hami.Closed):
            assert self._is_closing
        else:
            assert isinstance(error, (CancelledError, hami.QueueFull)), repr(error)
        self._count(type(error).__name__)
