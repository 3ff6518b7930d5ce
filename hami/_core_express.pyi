"""The types of `hami._core` for the express way of the server; there is no module of this name."""

from collections.abc import Callable, Sequence
from typing import Any

from ._core import AnswerQueue, Pipeline

class BoundedTally:
    """How many values lay between given bounds, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None: ...
    def add(self, value: float) -> None: ...
    def read(self) -> tuple[list[int], float]: ...

MOST_HEAD_BYTES: int

def read_head(data: bytes) -> tuple[bytes, int, bytes] | None:
    """Return the head at the beginning of a request, its size and its id; None for no whole head.

    Of the head is left what does not differ between requests that ask for the same. The id is that of the
    client, empty where it gave none.
    """

class ReplyForm:
    """What answers of one kind have in common."""

    def __init__(
        self, headers: bytes, text: bytes = b"", dtype: str | None = None, shape: Sequence[int] = ()
    ) -> None: ...

class ExpressForm:
    """What is known of requests that ask for the same with other numbers."""

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        keys: dict[str, Any],
        keys_of: Callable[[bytes], dict[str, Any]],
        node: str | None,
        head: bytes,
        text: bytes,
        num_body_bytes: int,
        dtype: str | None,
        shape: Sequence[int],
        reply: ReplyForm,
        seconds: BoundedTally,
        path: str,
    ) -> None: ...

class ExpressDesk:
    """What requests on the express way of one server have in common."""

    def __init__(self, log: Callable[[str, int, float, bytes], Any], on_idle: Callable[[], Any]) -> None: ...
    def set_common_headers(self, lines: bytes) -> None: ...
    def drain(self) -> None: ...
    def begun_before(self, start_s: float) -> list[Any]: ...
    @property
    def num_running(self) -> int: ...
    @property
    def oldest_start_s(self) -> float | None: ...

class ExpressConnection:
    """A connection whose requests go the express way."""

    def __init__(self, desk: ExpressDesk, queue: AnswerQueue, fileno: int, owner: Any) -> None: ...
    def begin(self, data: bytes) -> int: ...
    def begin_with(self, form: ExpressForm, data: bytes) -> int: ...
    def watch(self) -> None: ...
    def take(self) -> tuple[bytes, float] | None: ...
    def close(self) -> None: ...
    @property
    def is_running(self) -> bool: ...
    @property
    def idle_since_s(self) -> float: ...
