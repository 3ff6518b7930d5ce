"""`samples_from`: requests from files, folders, patterns and JSON Lines."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any


def samples_from(
    path: str | os.PathLike[str],
    key: str = "data",
    *,
    limit: int = 1000,
    order: str = "given",
    seed: int = 0,
) -> Iterator[dict[str, Any]]:
    """Yield at most `limit` requests that `path` holds.

    `path` is a `.jsonl` file (one dict a line, where a value `{"file": "x.jpg"}` becomes the bytes of that
    file, beside the JSON file unless absolute), a folder or a pattern such as `images/*.jpg` (the bytes of
    each file under `key`), or any other file (its bytes). `order` is `given`, for the first ones, or `random`,
    for a uniform sample of all of them by `seed`, without replacement. Contents are read one at a time. Raises
    ConfigError naming file and line.
    """
