"""The token that clients must bring: from a file or the environment, and never into any output."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import ConfigError

VARIABLE = "HAMI_TOKEN"


def read_token(file: Path | None) -> str | None:
    """Return the token in `file`, else that of the environment variable HAMI_TOKEN, else None.

    Raises ConfigError for a file that cannot be read, and for a token that no header can carry.
    """
    if file is None:
        token, where = os.environ.get(VARIABLE), f"environment variable {VARIABLE}"
    else:
        token, where = _read(file), str(file)
    if token is None:
        return None
    token = token.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        message = "the token is empty, or holds characters that no header can carry"
        help = "use letters and digits, such as `openssl rand -hex 32` makes"
        raise ConfigError(message, code="serve-bad-token", where=where, help=help)
    return token


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is no text"
        message = f"the file of the token cannot be read: {reason}"
        raise ConfigError(message, code="serve-bad-token", where=str(file), help="check the path") from None
