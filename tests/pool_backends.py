"""Backends that the tests of ProcessPool run in worker processes, which import this module by its name."""

from __future__ import annotations

import os
import signal
import time
from typing import Any

import hami

Batch = list[dict[str, Any]]


@hami.register
class PoolEcho(hami.Backend):
    """Do what `data` says; anything that is no order comes back as it is."""

    batch_range = (1, 64)

    def forward(self, batch: Batch) -> None:
        """Run one batch."""
        for item in batch:
            order = item["data"]
            if not isinstance(order, tuple) or not order:
                item["result"] = order
            else:
                item["result"] = getattr(self, f"do_{order[0]}", self.do_nothing)(item, *order[1:])

    def do_nothing(self, item: dict[str, Any], *rest: Any) -> Any:
        return item["data"]

    def do_pid(self, item: dict[str, Any]) -> int:
        return os.getpid()

    def do_keys(self, item: dict[str, Any]) -> list[str]:
        return sorted(item)

    def do_write(self, item: dict[str, Any], key: str, value: Any) -> str:
        item[key] = value
        return "written"

    def do_kill(self, item: dict[str, Any], name: str) -> None:
        os.kill(os.getpid(), getattr(signal, name))

    def do_exit(self, item: dict[str, Any], status: int) -> None:
        os._exit(status)

    def do_raise(self, item: dict[str, Any], kind: type, *args: Any) -> None:
        raise kind(*args)

    def do_lambda(self, item: dict[str, Any]) -> Any:
        return lambda: None

    def do_wait(self, item: dict[str, Any], folder: str) -> str:
        """Say that the run has begun, and wait until the file `go` is there."""
        open(os.path.join(folder, f"began.{os.getpid()}"), "w").close()
        while not os.path.exists(os.path.join(folder, "go")):
            time.sleep(0.001)
        return "went"

    def do_fill(self, item: dict[str, Any], size_bytes: int) -> bytes:
        return b"x" * size_bytes


@hami.register
class PoolSizes(hami.Backend):
    """Answer with the number of items that ran together."""

    batch_range = (1, 8)
    label = hami.param("", doc="comes back with the answer")

    def forward(self, batch: Batch) -> list[Any]:
        """Run one batch."""
        return [(os.getpid(), len(batch), self.label) for _ in batch]


@hami.register
class PoolPairs(hami.Backend):
    """Run two items at least."""

    batch_range = (2, 8)

    def forward(self, batch: Batch) -> list[int]:
        """Run one batch."""
        return [len(batch) for _ in batch]


@hami.register
class PoolStart(hami.Backend):
    """Start as the file `how` says: `raise`, `die`, or well."""

    how = hami.param(type="path", doc="a file")

    def init(self, params: dict[str, Any], options: dict[str, Any]) -> None:
        """Start."""
        with open(self.how, encoding="utf-8") as file:
            how = file.read()
        if how == "raise":
            raise LookupError("cannot start")
        if how == "die":
            os._exit(7)

    def forward(self, batch: Batch) -> list[int]:
        """Run one batch."""
        for item in batch:
            if item["data"] == "exit":
                os._exit(9)
        return [os.getpid() for _ in batch]


@hami.register
class PoolClosing(hami.Backend):
    """Leave a file behind when closed."""

    path = hami.param(type="path", doc="the file")

    def forward(self, batch: Batch) -> list[int]:
        """Run one batch."""
        return [0 for _ in batch]

    def close(self) -> None:
        """Write the file."""
        open(self.path, "w").close()


@hami.register
def pool_function(batch: Batch) -> list[Any]:
    """Answer with the double."""
    return [item["data"] * 2 for item in batch]


@hami.register
async def pool_async(batch: Batch) -> list[Any]:
    """Answer with the triple."""
    return [item["data"] * 3 for item in batch]


class TwoArgumentsError(Exception):
    """Does not unpickle: its constructor wants two arguments, and pickle has one."""

    def __init__(self, a: Any, b: Any) -> None:
        super().__init__(f"{a} and {b}")


class Unpicklable:
    """Refuses to be pickled."""

    def __reduce__(self) -> Any:
        raise TypeError("not for travelling")


class Stubborn:
    """Pickles, and fails when it is unpickled."""

    def __reduce__(self) -> Any:
        return _refuse, ()


def _refuse() -> None:
    raise ValueError("not here")
