"""What all sources have in common: one stream of elements for all instances of a node.

The stream lives in the storage of the pipeline, which is emptied when the pipeline closes; with the last
reference the iterator goes, so that a generator is closed and its file with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from ..backend import Backend, param
from ..errors import RequestError

# No request has such an id: requests name theirs by text and numbers.
_STREAMS_ID = b"hami.sources"


@dataclass(frozen=True)
class Fault:
    """An element that cannot be had: the request that asks for it fails, and the next one goes on."""

    error: Exception


class Stream:
    """An iterator over `repeat` epochs that many threads share; each element goes to one of them.

    `repeat` is 0 for endless epochs. An epoch without elements is the last one.
    """

    def __init__(self, new_epoch: Callable[[], Iterator[Any]], repeat: int) -> None:
        self._new_epoch = new_epoch
        self._repeat = repeat
        self._lock = threading.Lock()
        self._epoch: Iterator[Any] | None = None
        self._num_epochs = 0
        self._num_in_epoch = 0

    def take(self) -> Any:
        """Return the next element. Raises StopIteration at the end, and what the iterator raises."""
        with self._lock:
            while True:
                if self._epoch is None:
                    self._begin_epoch()
                assert self._epoch is not None
                try:
                    element = next(self._epoch)
                except StopIteration:
                    self._epoch = None
                    if self._num_in_epoch == 0:
                        self._repeat = self._num_epochs  # the next one would be empty as well
                    continue
                except BaseException:
                    self._num_in_epoch += 1
                    raise
                self._num_in_epoch += 1
                return element

    def _begin_epoch(self) -> None:
        if 0 < self._repeat <= self._num_epochs:
            raise StopIteration
        self._num_epochs += 1
        self._num_in_epoch = 0
        self._epoch = iter(self._new_epoch())


def repeat_param(default: int = 1, doc: str = "how many times all elements come; 0 is for ever") -> Any:
    """Declare `repeat`; every source has it, behind its own parameters."""
    return param(default, min=0, doc=doc)


def optional_param() -> Any:
    """Declare `optional`; every source has it as its last parameter."""
    return param(False, doc="a request that brings `data` keeps it, and takes no element")


class SourceBackend(Backend):
    """Base of the sources: a subclass says with `open` what an epoch consists of."""

    is_idempotent: ClassVar[bool] = False
    group_by: ClassVar[str] = "none"

    repeat: int
    optional: bool

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Join the stream of this place in the node, which the first instance makes."""
        number = options["num_sources"] = options.get("num_sources", 0) + 1
        self._name = options["node_name"]
        self._key = f"{self._name}/{number}"
        if self.storage.get(_STREAMS_ID, self._key) is None:
            self.storage.set(_STREAMS_ID, self._key, Stream(self.open(), self.repeat))

    def open(self) -> Callable[[], Iterator[Any]]:
        """Check what can be checked, and return the function that begins an epoch. Raises BuildError."""
        raise NotImplementedError

    def forward(self, batch: list[dict[str, Any]]) -> None:
        """Give each item the next element."""
        stream = self.storage.get(_STREAMS_ID, self._key)
        for item in batch:
            if self.optional and "data" in item:
                item["result"] = item["data"]
                continue
            try:
                element = self._exhausted() if stream is None else stream.take()
            except StopIteration:
                element = self._exhausted()
            except Exception as error:
                element = Fault(error)
            if isinstance(element, Fault):
                item["error"] = element.error
            else:
                item["result"] = element

    def _exhausted(self) -> Fault:
        return Fault(
            RequestError(
                f"source `{self._name}` has no further element",
                code="source-exhausted",
                where=f"node `{self._name}`",
                help="stop asking, or set `repeat` to more epochs (0 for endless ones)",
            )
        )
