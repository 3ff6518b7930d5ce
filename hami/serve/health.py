"""Whether a server is well: its own pipeline, and those of the other workers where there are some."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fastapi.concurrency import run_in_threadpool

from .watched import Watched
from .workers.messages import Member
from .workers.slot import RUNNING

if TYPE_CHECKING:
    from .service import Service

TOPIC = "health"


@dataclass(frozen=True)
class Health:
    """What is wrong, in words. `problems` are of pipelines, and may fail requests.

    `silent` are workers that take no connections and do not say why; `missing` those that are not there, in
    whose place new ones start. Both leave the requests to the others.
    """

    problems: list[str]
    silent: list[str]
    missing: list[str]

    @property
    def all(self) -> list[str]:
        """Everything that is wrong."""
        return self.problems + self.silent + self.missing


async def health_of(service: Watched) -> Health:
    """Return the health of the whole server; a worker that hangs is waited for shortly."""
    own = await run_in_threadpool(service.pipe.problems)  # backends are asked, and may take their time
    if service.peers is None:
        return Health(own, [], [])
    problems = [f"worker {service.peers.number}: {text}" for text in own]
    silent: list[str] = []
    missing: list[str] = []
    for peer in await service.peers.ask(TOPIC):
        if peer.said is not None:
            problems += [f"worker {peer.member.number}: {text}" for text in peer.said]
        else:
            (silent if peer.member.state == RUNNING else missing).append(describe(peer.member))
    return Health(problems, silent, missing)


def describe(member: Member) -> str:
    """Return in words why a worker says nothing."""
    state = "does not answer" if member.state == RUNNING else member.state
    return f"worker {member.number} {state}"


async def is_server_ready(service: Service) -> bool:
    """Tell whether a request that came now would be answered, whichever worker takes it."""
    return not service.is_draining and not (await health_of(service)).problems
