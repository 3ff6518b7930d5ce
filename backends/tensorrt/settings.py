"""What decides how an engine comes out, as plain values; nothing heavy is imported for it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from hami.errors import BuildError

from .shapes import Wish

_CAPABILITY = re.compile(r"[0-9]{1,3}\.[0-9]")


@dataclass(frozen=True)
class Normalization:
    """(x - mean) / std at the model's input, each one number or one for each channel (axis 1)."""

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.mean or self.std)


@dataclass(frozen=True)
class BuildSettings:
    """The settings of one build; `low`, `best` and `high` are what `min`, `opt` and `max` say."""

    low: tuple[Wish, ...] = ()
    best: tuple[Wish, ...] = ()
    high: tuple[Wish, ...] = ()
    precision: str = "fp32"
    normalization: Normalization = Normalization()
    compute_capabilities: tuple[str, ...] = ()
    workspace_mb: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain data, for the key of the cache."""
        return {**vars(self), "normalization": vars(self.normalization)}


def parse_numbers(value: Any, name: str) -> tuple[float, ...]:
    """Return one number, a list of them, or a text with commas as floats. Raises BuildError."""
    if value is None:
        return ()
    parts = value if isinstance(value, (list, tuple)) else str(value).split(",")
    try:
        found = tuple(float(part) for part in parts)
    except (TypeError, ValueError):
        found = ()
    if not found or not all(map(math.isfinite, found)):
        raise refuse_normalization(f"`{name}` is `{value}`, not numbers with commas between")
    if name == "std" and 0 in found:
        raise refuse_normalization("`std` holds a zero, which nothing can be divided by")
    return found


def refuse_normalization(message: str) -> BuildError:
    """Return the error about `mean` and `std`."""
    return BuildError(
        message, code="tensorrt-normalize", help="correct `mean` and `std`, or normalize before the model"
    )


def parse_capabilities(value: Any) -> tuple[str, ...]:
    """Return `8.6`, or several with commas or in a list, as texts. Raises BuildError."""
    if value is None:
        return ()
    parts = value if isinstance(value, (list, tuple)) else str(value).split(",")
    found = tuple(str(part).strip() for part in parts)
    if not found or not all(_CAPABILITY.fullmatch(text) for text in found):
        raise BuildError(
            f"`compute_capability` is `{value}`",
            code="tensorrt-capability",
            help="write it as `8.6`, or several with commas",
        )
    return found
