"""Draw `docs/images/ui.png`: the page `/ui` of a pipeline that reads pages, made up, under traffic.

Usage: screenshot.py [--out FILE] [--width PIXELS] [--dark] [--seconds SECONDS]
Needs the extra `serve`, and for the picture playwright and Chromium.
"""

from __future__ import annotations

import argparse
import math
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvloop
from playwright.sync_api import Page, sync_playwright

import hami
from hami.serve import Service, Settings
from hami.serve.server import Server

OUT = Path(__file__).resolve().parent.parent / "docs" / "images" / "ui.png"
CHROMIUM = "/usr/bin/chromium"
NAME = "Read a page"
MEAN_RATE = 45.0
SEED = 7

GRAPH = {
    "decode": {"backend": "DecodePage", "instance_num": 2, "next": "orient,layout"},
    "orient": {"backend": "Orientation", "max": 8, "next": "read"},
    "layout": {"backend": "FindRegions", "max": 4, "instance_num": 2, "next": "has_table"},
    "has_table": {"backend": "has_table", "next": "table,text"},
    "table": {"backend": "ReadTable", "max": 4, "next": "read"},
    "text": {"backend": "Identity", "or": True, "next": "read"},
    "read": {
        "backend": "Recognise",
        "max": 16,
        "instance_num": 4,
        "map": "orient[result:data],table[result:table],text[result:text]",
    },
}


def register_backends() -> None:
    """Register backends that take the time of a network, for the picture's sake."""

    def backend(name: str, base_ms: float, item_ms: float, answer: Callable[[Any], Any]) -> None:
        noise = random.Random(f"{SEED} {name}")

        def forward(batch: list[dict[str, Any]]) -> list[Any]:
            time.sleep((base_ms + item_ms * len(batch)) * noise.lognormvariate(0, 0.25) / 1000)
            return [answer(item["data"]) for item in batch]

        hami.register(name, forward)

    chance = random.Random(SEED)

    def decode(data: Any) -> Any:
        if data == "damaged":
            size = chance.randint(20_000, 90_000)
            raise ValueError(f"the picture ends after {chance.randint(500, size)} of {size} bytes")
        return data

    lines = [
        {"text": "INVOICE No. 2041", "box": [88, 64, 512, 118]},
        {"text": "Total due", "box": [88, 702, 244, 736]},
    ]
    backend("DecodePage", 3, 2, decode)
    backend("Orientation", 2, 0.8, lambda data: data)
    backend("FindRegions", 9, 3.0, lambda data: data)
    backend("ReadTable", 6, 4.0, lambda data: data)
    backend("Recognise", 14, 2.5, lambda data: {"lines": lines, "language": "en", "score": 0.982})
    hami.condition("has_table")(lambda item: str(item["data"])[-1] in "012345")


class Traffic:
    """Sends requests at a rate that comes and goes, until it is stopped."""

    def __init__(self, pipe: hami.Pipeline) -> None:
        self._pipe = pipe
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop.set()
        self._thread.join()

    def _send(self) -> None:
        chance = random.Random(SEED)
        started = time.monotonic()
        while not self._stop.is_set():
            wave = (
                1
                + 0.45 * math.sin((time.monotonic() - started) / 6)
                + 0.2 * math.sin((time.monotonic() - started) / 1.7)
            )
            for _ in range(chance.choice((1, 1, 1, 2, 6))):
                is_damaged = chance.random() < 0.002
                self._pipe.submit({"data": "damaged" if is_damaged else chance.random()})
            self._stop.wait(chance.expovariate(MEAN_RATE / 2.2 * wave))


@contextmanager
def serving(pipe: hami.Pipeline) -> Iterator[str]:
    """Serve a pipeline on a free port of this machine."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = Server(Service(pipe, NAME, Settings(show_errors=True)), lambda address: None)
    loop = uvloop.new_event_loop()
    thread = threading.Thread(target=lambda: loop.run_until_complete(server.serve([listener])))
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(server.stop)
        thread.join()
        loop.close()


def take(page: Page, address: str, seconds: float, out: Path) -> None:
    """Look at the page for a while, send a request by its form, and keep what is seen."""
    page.goto(f"{address}/ui")
    page.wait_for_timeout(1000 * seconds)
    page.fill("#data", '{"data": "page 12 of the archive"}')
    page.click("#send")
    page.wait_for_selector("#answer .verdict")
    page.evaluate("document.activeElement.blur()")
    page.wait_for_timeout(1100)
    page.screenshot(path=out, full_page=True)


def main() -> None:
    """Draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--width", type=int, default=1400)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--seconds", type=float, default=50.0)
    options = parser.parse_args()
    register_backends()
    with (
        hami.pipe(GRAPH) as pipe,
        serving(pipe) as address,
        Traffic(pipe),
        sync_playwright() as driver,
    ):
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(
            viewport={"width": options.width, "height": 900}, color_scheme="dark" if options.dark else "light"
        )
        take(page, address, options.seconds, options.out)
        browser.close()
    print(f"{options.out}: {options.out.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
