"""`Peers`: what a worker asks of the others, and tells them; on the event loop of its server."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from typing import Any

from .messages import Answer, Ask, Line, Member, Question, Told


@dataclass(frozen=True)
class Peer:
    """Another worker; `said` is its answer, None where there is none. `state` is that of `Member`."""

    member: Member
    said: Any


class Peers:
    """The other workers of the server. `number` is that of this one, from 0."""

    def __init__(self, number: int, num_starts: int, line: Line) -> None:
        self.number = number
        self.num_starts = num_starts
        self._line = line
        self._topics: dict[str, Callable[[], Any]] = {}
        self._waiting: dict[int, asyncio.Future[tuple[Member, ...]]] = {}
        self._ids = count()
        self._tasks: set[asyncio.Task[None]] = set()

    def tell(self, topic: str, figures: Callable[[], Any]) -> None:
        """Let the others have `figures()`, which must pickle, when they ask about the topic."""
        self._topics[topic] = figures

    async def ask(self, topic: str) -> list[Peer]:
        """Return what each of the others says; one that is not there, or hangs, says nothing."""
        id = next(self._ids)
        self._waiting[id] = asyncio.get_running_loop().create_future()
        try:
            self._line.send(Ask(id, topic))
            members = await self._waiting[id]
        finally:
            del self._waiting[id]
        return [Peer(one, None if one.said is None else pickle.loads(one.said)) for one in members]

    def take(self, message: Question | Told) -> None:
        """Take a message of the parent."""
        if isinstance(message, Told):
            future = self._waiting.get(message.id)
            if future is not None and not future.done():
                future.set_result(message.members)
            return
        task = asyncio.get_running_loop().create_task(self._answer(message.topic))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, topic: str) -> None:
        # In a thread, as for its own clients: figures may take a while.
        said = await asyncio.get_running_loop().run_in_executor(None, self._topics[topic])
        self._line.send(Answer(topic, pickle.dumps(said)))
