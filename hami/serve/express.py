"""The express way: requests that the core takes from their connection into the pipeline and back.

Who sends the same request with other numbers needs no function of Python for it. What the core must know is
learnt from a request that went the direct way (`direct.py`); the rest is `csrc/bind/express_connection.cc`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _core
from .answer import Answer

MAX_TEXT_BYTES = 4096
"""The longest `text` that is worth keeping."""

End = Callable[[dict[str, Any]], Answer]
"""Makes the answer of a finished request."""

Learn = Callable[[dict[str, Any]], "Known | None"]
"""Tells what is known of requests like a finished one: None, or the same object until there is news."""


class Known(NamedTuple):
    """What requests of one head have in common whose bodies begin with `text`, and their answers.

    `keys` is the dict for the pipeline, with the `data` of any of them; `keys_of` makes one of the bytes
    behind the text. `dtype` and `shape` are those of the array there; without them those bytes are `data`.
    `end` and `learn` are for those whose results are not of the form `reply`.
    """

    keys: dict[str, Any]
    keys_of: Callable[[bytes], dict[str, Any]]
    reply: _core.ReplyForm
    end: End
    learn: Learn
    text: bytes = b""
    dtype: str | None = None
    shape: tuple[int, ...] = ()


class Express(NamedTuple):
    """What is known, and the form that the core made of it."""

    known: Known
    form: _core.ExpressForm
