"""`${NAME}` and `${NAME:-default}` in the texts of a configuration; `$${` stands for a plain `${`."""

from __future__ import annotations

import os
import re
from collections.abc import Callable

from ..errors import ConfigError, did_you_mean

_REFERENCE = re.compile(r"\$(?P<escaped>\$)?\{(?:(?P<name>[A-Za-z_]\w*)(?::-(?P<default>[^}]*))?\})?")


def substitute(text: str, error: Callable[[str, str, str], ConfigError]) -> tuple[str, list[int]]:
    """Return the text with environment variables put in, and for each character the offset in `text` it came
    from.

    `error` makes the ConfigError about a variable that is not set and has no default.
    """
    if "${" not in text:
        return text, list(range(len(text) + 1))
    out: list[str] = []
    offsets: list[int] = []
    at = 0
    for match in _REFERENCE.finditer(text):
        out.append(text[at : match.start()])
        offsets.extend(range(at, match.start()))
        value = _value(match, error)
        out.append(value)
        offsets.extend([match.start()] * len(value))
        at = match.end()
    out.append(text[at:])
    offsets.extend(range(at, len(text) + 1))
    return "".join(out), offsets


def _value(match: re.Match[str], error: Callable[[str, str, str], ConfigError]) -> str:
    name: str | None = match["name"]
    default: str | None = match["default"]
    if match["escaped"]:
        return match[0][1:]
    if name is None:
        return match[0]
    value = os.environ.get(name, default)
    if value is None:
        help = did_you_mean(
            name, os.environ, cutoff=0.8, otherwise=f"set it, or write `${{{name}:-default}}`"
        )
        raise error("config-unset-variable", f"the environment variable `{name}` is not set", help)
    return value
