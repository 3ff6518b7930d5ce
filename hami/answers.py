"""Answers on an event loop: one queue a loop, which wakes it once for all answers that came meanwhile.

Whoever answers a request needs no Python for it, so that no thread of a pipeline waits for a busy loop.
Everything here belongs to the thread of the loop.
"""

from __future__ import annotations

import asyncio
import weakref

from . import _core

_queues: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _core.AnswerQueue] = weakref.WeakKeyDictionary()


def answers_of(loop: asyncio.AbstractEventLoop) -> _core.AnswerQueue:
    """Return the queue of the running loop, for `Pipeline.start`. Raises OSError: no descriptor is left."""
    queue = _queues.get(loop)
    if queue is None:
        queue = _core.AnswerQueue()
        loop.add_reader(queue.fileno(), queue.deliver)
        _queues[loop] = queue
    return queue
