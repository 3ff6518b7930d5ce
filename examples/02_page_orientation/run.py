"""Turn two pages four ways and ask the pipeline how each one lies.

Run: python examples/02_page_orientation/run.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import hami

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pages import drawn_page, photographed_page, turned  # examples/pages.py

HERE = Path(__file__).resolve().parent


def main() -> None:
    """Print one line for each of the eight pictures."""
    pages = {"photographed": photographed_page(), "drawn": drawn_page()}
    wanted = [(name, angle) for name in pages for angle in (0, 90, 180, 270)]
    with hami.pipe(HERE / "pipeline.toml") as pipe:
        answers = pipe([{"data": turned(pages[name], angle)} for name, angle in wanted])
    num_right = 0
    for (name, angle), answer in zip(wanted, answers, strict=True):
        found = answer["result"]
        num_right += found["angle"] == angle
        print(f"{name:12}  turned by {angle:3}  found {found['angle']:3}  (score {found['score']:.2f})")
    print(f"{num_right} of {len(wanted)} right")


if __name__ == "__main__":
    main()
