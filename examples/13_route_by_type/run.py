"""Serve two models behind one address, and post files of any kind to it.

Run: python examples/13_route_by_type/run.py
"""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pages import drawn_page, turned  # examples/pages.py

HERE = Path(__file__).resolve().parent


@contextmanager
def served() -> Iterator[str]:
    """Run `hami serve` as a process of its own, and give its address."""
    command = [
        sys.executable,
        "-m",
        "hami",
        "serve",
        str(HERE / "pipeline.toml"),
        "-p",
        "0",
        "--log-level",
        "error",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split()[-1]  # hami: serving `pipeline` at http://127.0.0.1:...
    finally:
        server.terminate()
        server.wait()


def files() -> dict[str, bytes]:
    """Return a page turned three ways, a text, and a picture that ends too early."""
    page = drawn_page()
    return {
        "a page": page,
        "a page on its side": turned(page, 90),
        "a page upside down": turned(page, 180),
        "a program": Path(__file__).read_bytes(),
        "half a page": page[: len(page) // 2],
    }


def ask(address: str, data: bytes) -> dict[str, Any]:
    """Post a file; what is wrong with it comes back as a code."""
    request = urllib.request.Request(
        f"{address}/v1/pipeline", data, {"Content-Type": "application/octet-stream"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            answer: dict[str, Any] = json.load(response)
    except urllib.error.HTTPError as error:
        return {"label": f"HTTP {error.code}", **json.load(error)}
    return answer


def main() -> None:
    """Print one line for each file; all are sent at once."""
    named = files()
    with served() as address, ThreadPoolExecutor(len(named)) as callers:
        answers = list(callers.map(lambda data: ask(address, data), named.values()))
    for name, answer in zip(named, answers, strict=True):
        angle = f"turned by {answer['angle']}" if "angle" in answer else answer.get("code", "")
        print(f"{name:20} {answer['label']:10} {angle}".rstrip())


if __name__ == "__main__":
    main()
